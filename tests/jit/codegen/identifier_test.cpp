// Names of programs that become names in kernels.
#include <catch2/catch.hpp>

#include "jit/codegen/expression.h"

using coconet::jit::identifier;

TEST_CASE("a name that kernels use otherwise is another one in their text") {
  for (const std::string word :
       {"STREAMING", "VECTORIZE", "VECTOR_BYTES", "LIBRARY", "exchange", "Exchange", "block",
        "for_each", "i", "double", "tanh_", "sum_of", "limits"}) {
    CHECK(identifier(word) == word + "_v");
  }
}

TEST_CASE("other names stay, and what is no identifier becomes one") {
  CHECK(identifier("weights") == "weights");
  CHECK(identifier("w.new") == "w_new");
  CHECK(identifier("2nd") == "_2nd");
  CHECK(identifier("") == "__v");  // an underscore ends names of the prelude
}
