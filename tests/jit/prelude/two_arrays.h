// A kernel written over the prelude alone.
#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/codegen/codegen.h"
#include "jit/platform/platform.h"

namespace coconet::test {

/// A kernel over `Out* out`, `const In* in` and their `count`, whose body is `statements`.
template <class Out, class In>
class TwoArrays {
 public:
  TwoArrays(const std::string& out, const std::string& in, const std::string& statements,
            std::vector<std::string> headers = {},
            const jit::Compiler& compiler = jit::host_platform().compiler()) {
    jit::KernelText text;
    text.name = "two_arrays";
    text.headers = std::move(headers);
    text.source = "struct Args {\n  " + out + "* out;\n  const " + in +
                  "* in;\n  index_t count;\n};\n\n" +
                  "DEVICE void two_arrays_block(const Args& a, const Block& block) {\n" +
                  statements + "}\nKERNEL_ENTRY(two_arrays)\n";
    const jit::CompileResult compiled = compiler.compile(jit::complete_source(text, "host"));
    INFO(compiled.log);
    REQUIRE(compiled.ok);
    kernel_ = jit::host_platform().load(compiled.binary, text.name);
  }
  void operator()(std::vector<Out>& out, const std::vector<In>& in) const {
    const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(out.data()),
                                   reinterpret_cast<std::uint64_t>(in.data()), in.size()};
    jit::host_platform().make_queue()->launch(*kernel_, {}, words);
  }

 private:
  std::shared_ptr<const jit::Kernel> kernel_;
};

/// The body of a kernel that leaves in out[i] what `value` makes of the vector `in` of N lanes.
inline std::string of_vectors(int lanes, const std::string& value) {
  const std::string width = std::to_string(lanes);
  return "  constexpr int N = " + width +
         ";\n  for (index_t i = 0; i < a.count; i += N) {\n"
         "    const auto in = load<N>(a.in + i);\n" +
         value + "    store<N>(a.out + i, out);\n  }\n";
}

}  // namespace coconet::test
