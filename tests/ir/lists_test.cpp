// Lists of buffers: the extents that follow from them, and what a list may not be.
#include "ir/lists.h"

#include <catch2/catch.hpp>

#include "coconet/program.h"
#include "ir/access.h"
#include "refusal.h"

using namespace coconet;

namespace {

struct Scattered {
  Program p{"scattered", Mesh({{"world", 2}})};
  Dim n = p.dim("n", 100);
  Dim k = p.dim("k", 3);
  Value w = p.scattered_state("w", f32, n, replicated);
  Value x = p.input("x", f32, {k}, replicated);

  [[nodiscard]] ir::Lists sizes_and_lists(std::map<std::string, std::int64_t> given,
                                          const ir::Lists& lists) const {
    return ir::resolve_lists(*ir::graph_of(p), ir::resolve_sizes(*ir::graph_of(p), given, lists),
                             lists);
  }
  [[nodiscard]] std::string reason(const std::map<std::string, std::int64_t>& given,
                                   const ir::Lists& lists) const {
    return refusal<ProgramError>([&] { (void)ir::resolve_sizes(*ir::graph_of(p), given, lists); });
  }
};

}  // namespace

TEST_CASE("a dimension with a list has the sum of it") {
  const Scattered s;
  const auto sizes = ir::resolve_sizes(*ir::graph_of(s.p), {}, {{"n", {5, 1, 2}}});
  CHECK(sizes.at("n") == 8);
  CHECK(sizes.at("k") == 3);
  CHECK_NOTHROW(ir::resolve_sizes(*ir::graph_of(s.p), {{"n", 8}}, {{"n", {5, 1, 2}}}));
}

TEST_CASE("without a list a scattered tensor is one buffer") {
  const Scattered s;
  CHECK(s.sizes_and_lists({}, {}) == ir::Lists{{"n", {100}}});
  CHECK(s.sizes_and_lists({{"n", 7}}, {}) == ir::Lists{{"n", {7}}});
  CHECK(s.sizes_and_lists({}, {{"n", {2, 2}}}) == ir::Lists{{"n", {2, 2}}});
}

TEST_CASE("a list that makes no sense is refused") {
  const Scattered s;
  CHECK(s.reason({}, {{"n", {}}}) ==
        "the list of buffers of dimension 'n' is empty; give the length of each buffer");
  CHECK(s.reason({}, {{"n", {4, 0}}}) ==
        "the list of buffers of dimension 'n' has the length 0 at 1; a buffer has at least 1 "
        "element");
  CHECK(s.reason({{"n", 9}}, {{"n", {4, 4}}}) ==
        "the list of buffers of dimension 'n' has 8 elements, but the extent given is 9; leave the "
        "extent out");
  CHECK(s.reason({}, {{"k", {3}}}) ==
        "the list of buffers of dimension 'k' is of no use: program 'scattered' has neither a "
        "scattered tensor over it nor values for each of its buffers");
  CHECK(s.reason({}, {{"nn", {3}}}) ==
        "the list of buffers of dimension 'nn' is of no use: program 'scattered' has neither a "
        "scattered tensor over it nor values for each of its buffers; did you mean 'n'?");
  CHECK(s.reason({}, {{"n", {std::int64_t{1} << 62, std::int64_t{1} << 62}}}) ==
        "the list of buffers of dimension 'n' has more elements than a 64-bit number can count");
}
