// Kernels beside those of a plan: for library collectives where one launch sees the tensors of all
// ranks, a reduction in rank order; for library matmuls, what tells of their tiles.
#include "jit/codegen/codegen.h"
#include "jit/codegen/expression.h"
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

namespace {

/// "sum", of sum_of.
std::string name_of(Reduction reduction) {
  if (reduction == Reduction::mean) return "mean";
  const std::string_view combined = operator_name(reduction);
  return std::string(combined.substr(0, combined.find('_')));
}

}  // namespace

KernelText write_library_reduction(DType dtype, Reduction reduction, int ranks, int results) {
  const std::string name = name_of(reduction);
  const std::string type(storage_type(dtype));
  const std::string of_ranks = "[" + std::to_string(ranks) + "]";
  const std::string of_results = "[" + std::to_string(results) + "]";
  const std::string lanes = "VECTOR_BYTES / " + std::to_string(size_of(dtype));

  KernelText text;
  text.name = "library_" + name + "_" + std::string(to_string(dtype)) + "_" +
              std::to_string(ranks) + "_to_" + std::to_string(results);
  text.entry = text.name + "_kernel";
  text.headers = {"exchange/direct.h"};
  std::string& s = text.source;
  s += "// kernel of a library collective: the " + name + " of " + type + " on " +
       std::to_string(ranks) + " ranks\n";
  s += "struct Args {\n";
  s += "  " + type + "* in" + of_ranks + ";\n";
  s += "  " + type + "* out" + of_results + ";\n";
  s += "  index_t count;\n";
  s += "  u64 mode;\n";
  s += "};\n\n";
  s += "constexpr int W = " + lanes + ";\n\n";
  s += "DEVICE void " + text.entry + "_block(const Args& a, const Block& block) {\n";
  s += "  for_each<W>(block, a.count, a.mode, "
       "[&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n";
  s += "    auto total = reduce_ranks<" + std::string(operator_name(reduction)) +
       ", N, false>(a.in, i);\n";
  if (reduction == Reduction::mean)
    s += "    lanes<N>([&](int l) { total[l] /= " + literal(ranks, dtype) + "; });\n";
  s += "    store_ranks<false>(a.out, a.out[0], i, narrowed<" + type + ">(total));\n";
  s += "  });\n";
  s += "}\n";
  s += "KERNEL_ENTRY(" + text.entry + ")\n";
  return text;
}

KernelText write_tile_signal() {
  KernelText text;
  text.name = tile_signal_name;
  text.entry = text.name + "_kernel";
  text.headers = {"exchange/protocols.h", "exchange/mailboxes.h", "exchange/tiles.h"};
  text.source =
      "// kernel that says that elements [begin, end) of a tensor are made\n"
      "struct Args {\n  Tiles tiles;\n  index_t begin, end;\n};\n\n"
      "DEVICE void " +
      text.entry +
      "_block(const Args& a, const Block& block) {\n"
      "  signal_tiles(block, a.tiles, a.begin, a.end);\n}\n"
      "KERNEL_ENTRY(" +
      text.entry + ")\n";
  return text;
}

}  // namespace coconet::jit
