// Shipped programs and schedules equal the reference, in f32 and f64.
#include "jit/conformance/shipped_conformance.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("every shipped program under every schedule equals the reference in f32") {
  require_shipped_programs_conform(f32);
}

TEST_CASE("every shipped program under every schedule equals the reference in f64") {
  require_shipped_programs_conform(f64);
}

TEST_CASE("a million elements that no number of ranks divides equal the reference") {
  for (const int ranks : {2, 3}) {
    for (const std::string_view schedule : programs::find("adam")->schedules) {
      require_conforms(programs::adam(Mesh({{"world", ranks}})),
                       shipped_schedule(*programs::find("adam"), schedule), ranks,
                       {Sizes{{"n", 1048583}}});
    }
  }
}

TEST_CASE("optimizers with their other options equal the reference under every schedule") {
  const auto check = [](const char* name, Program (*build)(const Mesh&)) {
    for (const std::string_view schedule : programs::find(name)->schedules) {
      const Mesh mesh({{"world", 2}});
      require_conforms(build(mesh), shipped_schedule(*programs::find(name), schedule), 2,
                       {Sizes{{"n", 1}}, Sizes{{"n", 1003}}}, 3);
    }
  };
  check("sgd", [](const Mesh& mesh) { return programs::sgd(mesh, f32, {.weight_decay = 0.1}); });
  check("momentum_sgd", [](const Mesh& mesh) {
    return programs::momentum_sgd(mesh, f32,
                                  {.momentum = 0.8, .dampening = 0.3, .weight_decay = 0.1});
  });
  check("momentum_sgd", [](const Mesh& mesh) {
    return programs::momentum_sgd(mesh, f32, {.weight_decay = 0.1, .nesterov = true});
  });
  check("adam", [](const Mesh& mesh) {
    return programs::adam(mesh, f32,
                          {.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1});
  });
  check("nadam", [](const Mesh& mesh) {
    return programs::nadam(mesh, f32, {.weight_decay = 0.1, .decoupled_weight_decay = true});
  });
  check("radam", [](const Mesh& mesh) {
    return programs::radam(mesh, f32, {.weight_decay = 0.1, .decoupled_weight_decay = true});
  });
  check("adagrad", [](const Mesh& mesh) {
    return programs::adagrad(
        mesh, f32, {.lr_decay = 0.1, .weight_decay = 0.1, .initial_accumulator_value = 0.2});
  });
  check("rmsprop", [](const Mesh& mesh) {
    return programs::rmsprop(mesh, f32, {.weight_decay = 0.1, .momentum = 0.9, .centered = true});
  });
  check("lion", [](const Mesh& mesh) { return programs::lion(mesh, f32, {.weight_decay = 0.1}); });
  check("lamb", [](const Mesh& mesh) {
    return programs::lamb(mesh, f32, {.beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0});
  });
}
