// Contractions equal the reference: letters in every order, on any number of ranks; and those of a
// transformer multiply tensors where they are.
#include <random>

#include "genes.h"
#include "jit/conformance/conformance.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;

namespace {

struct Drawn {
  std::string a, b, result;
};

/// Letters with up to two of each kind, in any order.
Drawn drawn_letters(Genes& genes) {
  Drawn letters;
  const auto add = [&](std::string names, std::initializer_list<std::string*> to) {
    for (std::size_t count = genes.below(3); count > 0; --count) {
      for (std::string* const one : to)
        one->insert(genes.below(one->size() + 1), 1, names[count - 1]);
    }
  };
  add("bc", {&letters.a, &letters.b, &letters.result});
  add("mn", {&letters.a, &letters.result});
  add("pq", {&letters.b, &letters.result});
  add("kl", {&letters.a, &letters.b});
  return letters;
}

/// Contractions of tensors whose letters all have other extents.
Program contractions(Genes& genes, int count, DType dtype) {
  Program program("contractions", Mesh({{"world", 1}}));
  const std::string names = "bcmnpqkl";
  std::vector<Dim> dims;
  for (const char name : names) dims.push_back(program.dim(std::string(1, name)));
  const auto tensor = [&](const std::string& name, const std::string& letters) {
    Shape shape;
    for (const char letter : letters) shape.push_back(dims[names.find(letter)]);
    return program.input(name, dtype, shape, replicated);
  };
  for (int i = 0; i < count; ++i) {
    const Drawn letters = drawn_letters(genes);
    const std::string text = letters.a + "," + letters.b + "->" + letters.result;
    const std::string name = "y" + std::to_string(i);
    const Value product = contract(tensor("a" + std::to_string(i), letters.a),
                                   tensor("b" + std::to_string(i), letters.b), text);
    program.output(name, product.named(name));
  }
  return program;
}

/// Self-attention with its gradients, by what it contracts.
Program attention(int ranks, const char* dim, DType dtype) {
  Program program("attention", Mesh({{"world", ranks}}));
  const Dim B = program.dim("B"), S = program.dim("S"), H = program.dim("H");
  const bool over_batch = std::string(dim) == "batch";
  const Value x = program.input("x", dtype, {B, S, H}, over_batch ? sliced(0) : replicated);
  const auto weights = [&](const char* name) {
    return program.state(name, dtype, {H, 4, 3}, over_batch ? replicated : sliced(1));
  };
  const Value wq = weights("wq"), wk = weights("wk"), wv = weights("wv");
  const Value wo =
      program.state("wo", dtype, {4, 3, H}, over_batch ? Placement(replicated) : sliced(0));
  const Value q = contract(x, wq, "bsh,hnd->bsnd").named("q");
  const Value k = contract(x, wk, "bsh,hnd->bsnd").named("k");
  const Value v = contract(x, wv, "bsh,hnd->bsnd").named("v");
  const Value scores = contract(q, k, "bsnd,btnd->bnst").named("scores");
  const Value context = contract(softmax(scores), v, "bnst,btnd->bsnd").named("context");
  const Value share = contract(context, wo, "bsnd,ndh->bsh").named("share");
  const Value y = over_batch ? share : all_reduce(share, sum);
  program.output("y", y);
  const Value loss = mean(square(y));
  const std::vector<Value> of = {wq, wk, wv, wo};
  for (const Value& gradient : gradients(loss, of)) program.output(gradient.name(), gradient);
  return program;
}

}  // namespace

TEST_CASE("contractions equal the reference, whatever the order of their letters") {
  const Sizes sizes = {{"b", 2}, {"c", 3}, {"m", 4}, {"n", 5},
                       {"p", 3}, {"q", 2}, {"k", 7}, {"l", 2}};
  const Sizes ones = {{"b", 1}, {"c", 2}, {"m", 1}, {"n", 3},
                      {"p", 1}, {"q", 4}, {"k", 1}, {"l", 3}};
  unsigned seed = 100;
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (int program = 0; program < 3; ++program) {
      INFO("seed " << seed);
      std::mt19937 random(seed++);
      std::vector<std::uint32_t> drawn(400);
      for (std::uint32_t& gene : drawn) gene = static_cast<std::uint32_t>(random());
      Genes genes(std::move(drawn));
      require_conforms(contractions(genes, 8, dtype), Schedule("none"), 1, {sizes, ones});
    }
  }
}

TEST_CASE("attention and its gradients equal the reference, divided by batch or by heads") {
  const std::vector<Sizes> sizes = {{{"B", 3}, {"S", 5}, {"H", 7}}, {{"B", 1}, {"S", 1}, {"H", 2}}};
  for (const int ranks : {1, 2, 3}) {
    for (const char* dim : {"batch", "heads"}) {
      INFO(dim << " over " << ranks);
      require_conforms(attention(ranks, dim, f32), Schedule("none"), ranks, sizes);
    }
  }
  for (const DType dtype : {f64, bf16, f16})
    require_conforms(attention(2, "batch", dtype), Schedule("none"), 2, sizes);
}

TEST_CASE("the products of attention and of its gradients copy nothing") {
  const Program program = attention(2, "batch", f32);
  const sched::Plan plan = sched::lower(*ir::graph_of(program));
  int products = 0;
  for (const ir::Node& node : plan.graph.nodes()) {
    CHECK(node.op != ir::Op::transpose);
    if (node.op == ir::Op::contract) ++products;
  }
  CHECK(products == 6 + 9);
}

TEST_CASE("contractions over slices equal the reference, also where slices are empty") {
  Program program("slices", Mesh({{"world", 3}}));
  const Dim S = program.dim("S");
  const Value x = program.input("x", f32, {2, S, 6}, sliced(1));
  const Value w = program.state("w", f32, {6, 5}, replicated);
  const Value y = contract(x, w, "bsh,hf->bsf").named("y");
  program.output("w.gradient", gradients(sum(square(y)), {w})[0]);
  program.output("products", contract(x, x, "bsh,bsh->bsh").named("products"));
  program.output("turned", contract(x, x, "bsh,bsh->hsb").named("turned"));
  program.output("total", contract(x, x, "bsh,bsh->").named("total"));
  require_conforms(program, Schedule("none"), 3, {Sizes{{"S", 4}}, Sizes{{"S", 1}}, {{"S", 7}}});
}
