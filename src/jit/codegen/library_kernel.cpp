// Kernels of library collectives where one launch sees the tensors of all ranks: a reduction in rank order.
#include "jit/algo/algorithm.h"
#include "jit/codegen/codegen.h"
#include "jit/codegen/expression.h"

namespace coconet::jit {

KernelText write_library_reduction(DType dtype, Reduction reduction, int ranks, int results) {
  const std::string type(storage_type(dtype));
  const std::string operation =
      reduction == Reduction::mean
          ? "mean"
          : std::string(device_operator(reduction)).substr(0, device_operator(reduction).find('_'));
  KernelText text;
  text.name = "library_" + operation + "_" + std::string(to_string(dtype)) + "_" +
              std::to_string(ranks) + "_to_" + std::to_string(results);
  text.entry = text.name + "_kernel";
  text.header = "direct.h";
  const std::string total =
      std::string("total[l]") + (reduction == Reduction::mean ? " / " + literal(ranks, dtype) : "");
  text.source = "// kernel of a library collective: the " + operation + " of " +
                std::string(to_string(dtype)) + " on " + std::to_string(ranks) + " ranks\n" +
                "struct Args {\n" +                                                     //
                "  " + type + "* in[" + std::to_string(ranks) + "];\n" +                //
                "  " + type + "* out[" + std::to_string(results) + "];\n" +             //
                "  index_t count;\n" +                                                  //
                "  u64 mode;\n" +                                                       //
                "};\n\n" +                                                              //
                "constexpr int W = VECTOR_BYTES / " + std::to_string(size_of(dtype)) +  //
                ";\n\n" +                                                               //
                "DEVICE void " + text.entry +                                           //
                "_block(const Args& a, const Block& block) {\n" +                       //
                "  for_each<W>(block, a.count, a.mode, "                                //
                "[&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n" +            //
                "    const auto total = reduce_ranks<" +                                //
                std::string(device_operator(reduction)) +
                ", N>(a.in, i);\n" +                                                     //
                "    vec<N, " + type + "> result;\n" +                                   //
                "    lanes<N>([&](int l) { result[l] = narrow<" + type + ">(" + total +  //
                "); });\n" +                                                             //
                "    store_ranks<false>(a.out, i, 0, result);\n" +                       //
                "  });\n" +                                                              //
                "}\n" +                                                                  //
                "KERNEL_ENTRY(" + text.entry + ")\n";
  return text;
}

}  // namespace coconet::jit
