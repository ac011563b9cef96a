// Contract: its typing rule, what letters mean, and what it refuses.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <string>

#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/letters.h"
#include "ir/reference/reference.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using test::type_of;

namespace {

/// einsum by its definition: for each index of the result's letters the sum over all others.
ir::Data einsum(const ir::Letters& letters, const std::map<char, int>& extents, const ir::Data& a,
                const ir::Data& b) {
  std::string all = letters.result;
  for (const char letter : letters.contracted()) all += letter;
  std::map<char, int> index;
  const auto at = [&](const std::string& own) {
    std::size_t element = 0;
    for (const char letter : own) element = element * extents.at(letter) + index.at(letter);
    return element;
  };
  std::size_t count = 1, every = 1;
  for (const char letter : letters.result) count *= extents.at(letter);
  for (const char letter : all) every *= extents.at(letter);
  ir::Data result(count, 0.0);
  for (std::size_t n = 0; n < every; ++n) {
    std::size_t rest = n;
    for (auto letter = all.rbegin(); letter != all.rend(); ++letter) {
      index[*letter] = static_cast<int>(rest % extents.at(*letter));
      rest /= extents.at(*letter);
    }
    result[at(letters.result)] += a[at(letters.a)] * b[at(letters.b)];
  }
  return result;
}

ir::Data counting(std::size_t count, int first) {
  ir::Data all;
  for (std::size_t i = 0; i < count; ++i) all.push_back((static_cast<int>(i) * 7 + first) % 11 - 5);
  return all;
}

const std::map<char, int> extents = {{'b', 2}, {'s', 3}, {'h', 4}, {'n', 2}, {'d', 5}, {'t', 3}};

Value tensor(Program& program, const std::string& name, const std::string& letters) {
  Shape shape;
  for (const char letter : letters) shape.push_back(extents.at(letter));
  return program.input(name, f64, shape, replicated);
}

}  // namespace

TEST_CASE("contract is einsum of two operands") {
  for (const char* text :
       {"bsh,hnd->bsnd", "bsnd,btnd->bnst", "bnst,btnd->bsnd", "bsnd,ndh->bsh", "bsh, bsnd -> hnd",
        "h,h->", "b,s->sb", "bs,bs->b", "bs,bs->bs", "sb,hb->bhs", "bsnd,dnh->hsb", "h,bhs->sb"}) {
    INFO(text);
    const ir::Letters letters = ir::letters_in(text);
    Program p("p", Mesh({{"world", 1}}));
    const Value a = tensor(p, "a", letters.a), b = tensor(p, "b", letters.b);
    p.output("y", contract(a, b, text));
    const Program parsed = Program::parse(p.json());
    CHECK(parsed.str() == p.str());
    ir::Reference reference(*ir::graph_of(parsed), {});
    const auto size = [&](const Value& value) {
      std::size_t count = 1;
      for (const Dim& dim : value.shape()) count *= static_cast<std::size_t>(dim.extent);
      return count;
    };
    const ir::Data left = counting(size(a), 1), right = counting(size(b), 4);
    reference.set("a", {left});
    reference.set("b", {right});
    reference.run({});
    CHECK(reference.get("y")[0] == einsum(letters, extents, left, right));
  }
}

TEST_CASE("contract slices what is kept, and leaves slices of what is contracted to be added") {
  Program p("p", Mesh({{"dp", 2}, {"tp", 2}}));
  const Value x = p.input("x", bf16, {4, 3, 6}, Layout::on({{"dp", sliced(0)}}));
  const Value w = p.input("w", bf16, {6, 2, 5}, Layout::on({{"tp", sliced(1)}}));
  const Value q = contract(x, w, "bsh,hnd->bsnd").named("q");
  CHECK(type_of(q) == "q: bf16[4, 3, 2, 5] {dp: sliced(0), tp: sliced(2)}");
  const Value out = p.input("out", bf16, {2, 5, 6}, Layout::on({{"tp", sliced(0)}}));
  CHECK(type_of(contract(q, out, "bsnd,ndh->bsh").named("y")) ==
        "y: bf16[4, 3, 6] {dp: sliced(0), tp: local}");
}

TEST_CASE("letters that do not match are refused, naming the letter and the tensor") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {4, 3}, replicated);
  const Value w = p.input("w", f32, {3, 5}, replicated);
  const Value s = p.input("s", f32, {3, 5}, sliced(0));
  const Value halves = p.input("halves", f16, {3, 5}, replicated);
  const Value whole = p.input("whole", i32, {4, 3}, replicated);
  const auto refused = [](const Value& a, const Value& b, const char* letters) {
    const std::string text = refusal([&] { (void)contract(a, b, letters); });
    const std::size_t end = text.find("(contract): ");
    return end == std::string::npos ? text : text.substr(end + 12);
  };
  const std::string form =
      "; they are one for each dimension of the operands and of the result, as "
      "in 'bsh,hnd->bsnd'";
  CHECK(refused(x, w, "mk,kn") == "has the letters 'mk,kn'" + form);
  CHECK(refused(x, w, "m1,1n->mn") == "has the letters 'm1,1n->mn'" + form);
  CHECK(refused(x, w, "bmk,kn->bmn") ==
        "'x' is f32[4, 3] replicated, but its letters 'bmk' are 3; each dimension has one");
  CHECK(refused(x, w, "mm,kn->mn") ==
        "'m' is twice in 'mm'; each dimension has a letter of its own");
  CHECK(refused(x, w, "mk,ln->mn") ==
        "'k' is in 'mk' alone; a letter is in both operands, to be contracted, or in the result: "
        "take the sum over that dimension first");
  CHECK(refused(x, w, "mk,kn->bmn") ==
        "'b' is in 'bmn' alone; a letter of the result is one of an operand: expand_dims inserts a "
        "dimension");
  CHECK(refused(x, w, "km,kn->mn") ==
        "'x' is f32[4, 3] replicated and 'w' is f32[3, 5] replicated; the dimensions of the letter "
        "'k' must be the same, but are 4 and 3");
  CHECK(refused(x, halves, "mk,kn->mn") ==
        "the dtypes differ: 'x' is f32[4, 3] replicated and 'halves' is f16[3, 5] replicated; cast "
        "one of them");
  CHECK(refused(whole, w, "mk,kn->mn") ==
        "'whole' is i32[4, 3] replicated; contract takes floats: cast it first");
  Program listed("listed", Mesh({{"world", 2}}));
  const Dim n = listed.dim("n");
  const Value scattered = listed.scattered_state("scattered", f32, n, replicated);
  CHECK(refused(scattered, scattered, "n,n->") ==
        "'scattered' is f32[n] replicated, scattered over buffers, and libraries multiply what is "
        "in one: contract a copy, 'scattered * 1'");
  CHECK_NOTHROW(contract(scattered * 1, scattered * 1, "n,n->"));
  CHECK(refused(x, s, "mk,kn->mn") ==
        "along axis 'world' 'x' is f32[4, 3] replicated and 's' is f32[3, 5] sliced(0); the "
        "contracted dimension must be sliced on both sides or on none: slice 'x' alike, or "
        "all_gather 's'");
}

TEST_CASE("the gradients of a contraction are contractions") {
  Program p("p", Mesh({{"dp", 2}}));
  const Value x = p.input("x", f32, {4, 3, 6}, sliced(0));
  const Value w = p.state("w", f32, {6, 2, 5}, replicated);
  const Value loss = sum(square(contract(x, w, "bsh,hnd->bsnd")));
  const std::vector<Value> made = gradients(loss, {x, w});
  CHECK(type_of(made[0]) == "x.grad: f32[4, 3, 6] sliced(0)");
  CHECK(type_of(made[1]) == "w.grad: f32[6, 2, 5] replicated");
  const std::string text = p.str();
  CHECK(text.find("bsnd,hnd->bsh)") != std::string::npos);
  CHECK(text.find("bsh,bsnd->hnd)") != std::string::npos);
  CHECK(text.find("transpose") == std::string::npos);
}
