// Every option of every shipped optimizer, combined with every other one, does what PyTorch does,
// or for those that it has not what the papers' formulas say. The expected values are
// tests/data/optimizer_pairs.json; make_optimizer_pairs.py beside it says how they were made.
#include "optimizer_pairs.h"

#include <set>

#include "golden.h"
#include "ir/access.h"
#include "ir/reference/reference.h"

using namespace coconet;
using namespace coconet::test;
using Json = nlohmann::json;

namespace {

/// Requires what the reference interpreter ends with, of two ranks, to be as expected.
void check_reference(const PairCase& one, DType dtype, double tolerance) {
  const Program program = one.program(Mesh({{"world", 2}}), dtype);
  const ir::Graph& graph = *ir::graph_of(program);
  const std::vector<std::int64_t> lengths = one.lengths();
  const bool listed = !ir::listed_dims(graph).empty();
  const auto n = static_cast<std::int64_t>(one.initial().size());
  ir::Reference reference(graph, {{"n", n}}, listed ? ir::Lists{{"n", lengths}} : ir::Lists());
  const auto set = [&](const char* name, const std::vector<double>& elements) {
    if (graph.find(name) >= 0) reference.set(name, ir::RankData(2, elements));
  };
  set("w", one.initial());
  set("lr_scale", one.lr_scale());
  set("weight_decay", one.weight_decay());
  double scale = one.init_scale();
  for (int step = 1; step <= one.steps(); ++step) {
    reference.set("g", {one.gradient(step, 0, scale), one.gradient(step, 1, scale)});
    std::map<std::string, double> scalars = {{"lr", one.lr(step)}};
    if (graph.find("t") >= 0) scalars["t"] = step;
    if (graph.find("microbatches") >= 0) scalars["microbatches"] = 2;
    reference.run(scalars);
    if (one.scales()) scale = reference.get("scale")[0][0];
  }
  CHECK(worst_deviation(reference.get("w")[0], one.expected()) <= tolerance);
  if (const auto norm = one.gradient_norm())
    CHECK(reference.get("gradient_norm")[0][0] == Approx(*norm).epsilon(tolerance));
}

}  // namespace

TEST_CASE("every pair of options of every optimizer gives PyTorch's parameters after 20 steps") {
  const Json data = Json::parse(source_text("tests/data/optimizer_pairs.json"));
  for (const Json& expected : data.at("cases")) {
    const PairCase one(data, expected);
    INFO(one.str());
    check_reference(one, f32, 1e-5);
    check_reference(one, f64, 1e-10);
  }
}

TEST_CASE("any two options of an optimizer are together in a case") {
  const Json data = Json::parse(source_text("tests/data/optimizer_pairs.json"));
  std::map<std::string, std::set<std::pair<std::string, std::string>>> together;  // by optimizer
  for (const Json& expected : data.at("cases")) {
    const PairCase one(data, expected);
    for (const std::string& a : one.chosen()) {
      for (const std::string& b : one.chosen()) together[one.name()].emplace(a, b);
    }
  }
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with == nullptr) continue;
    std::vector<std::string> options(std::begin(training_names), std::end(training_names));
    options.emplace_back("scattered");
    for (const programs::HyperparameterInfo& one : shipped.hyperparameters)
      options.emplace_back(one.name);
    for (const std::string& a : options) {
      for (const std::string& b : options) {
        if (std::set{a, b} == std::set<std::string>{"nesterov", "dampening"}) continue;  // refused
        INFO(shipped.name << ": " << a << " and " << b);
        CHECK(together[std::string(shipped.name)].contains({a, b}));
      }
    }
  }
}
