// One step of every shipped optimizer of 16-bit floats, of zero, tiny and huge gradients, beside
// the same step in f64 of the same rounded numbers: what it stores is to be right but for a
// rounding or two, whatever 16 bits cannot hold on the way.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "coconet/programs.h"
#include "ir/access.h"
#include "ir/lists.h"
#include "ir/reference/reference.h"
#include "precisions.h"

namespace coconet::test {

/// What training asks for.
struct Asked {
  const char* name;
  programs::TrainingOptions options;
};
inline constexpr Asked asked_of_narrow[] = {{"plain", {}},
                                            {"clipping", {.max_norm = 1, .max_value = 32768}},
                                            {"scaling", {.loss_scaling = true}},
                                            {"groups", {.groups = true}}};

enum class Gradients : std::uint8_t { zero, tiny, huge };
inline constexpr Gradients all_gradients[] = {Gradients::zero, Gradients::tiny, Gradients::huge};

/// Finite 16-bit floats and infinity in order: neighbours differ by 1.
[[nodiscard]] inline int place_of(DType dtype, double value) {
  std::uint16_t bits = 0;
  store_element(dtype, &bits, 0, value);
  const int size = bits & 0x7fff;
  return (bits & 0x8000) != 0 ? -size : size;
}

class NarrowStep {
 public:
  using Tensors = std::map<std::string, ir::Data>;

  NarrowStep(const programs::Shipped& shipped, programs::Precision precision, const Asked& asked)
      : shipped_(shipped), precision_(precision), dtype_(precision.model), asked_(asked) {}

  [[nodiscard]] std::string name() const {
    return std::string(shipped_.name) + " " + to_text(precision_) + ", " + asked_.name;
  }
  [[nodiscard]] Program program() const {
    return shipped_.with(mesh(), precision_, asked_.options, programs::Storage::whole, {});
  }

  /// What is there before the step, rounded to the dtypes of `program()`. Every rank's gradient is
  /// the same, and so is their average.
  [[nodiscard]] Tensors before(Gradients gradients) const {
    // Squares of bf16, times a thousandth, are to be numbers of f32.
    const bool is_half = dtype_ == DType::f16;
    const double tiny = is_half ? 0x1p-24 : 1e-12;
    const double huge = is_half ? 60000 : 1e15;
    Tensors tensors;
    for (std::size_t i = 0; i < n; ++i) {
      const double part = static_cast<double>(i % 7 + 2) / 8;
      const double sign = i % 3 == 1 ? -1 : 1;
      const double size = gradients == Gradients::zero   ? 0
                          : gradients == Gradients::tiny ? tiny * std::ceil(part * 3)
                                                         : huge * part;
      tensors["g"].push_back(round_to(dtype_, sign * size));
      tensors["w"].push_back(round_to(dtype_, (i % 2 == 0 ? 0.3 : -1.7) * (part + 0.1)));
    }
    tensors["master"] = tensors["w"];
    tensors["lr_scale"] = {1, 0.5, 2};
    tensors["weight_decay"] = {0, 0.0078125, 0.125};
    tensors["scale"] = {0x1p20};  // more than f16 holds
    return tensors;
  }
  [[nodiscard]] static std::map<std::string, double> scalars() { return {{"lr", 0.01}, {"t", 1}}; }
  [[nodiscard]] static Mesh mesh() { return Mesh({{"world", 2}}); }
  /// Extents and buffers of `program`.
  [[nodiscard]] static std::map<std::string, std::int64_t> sizes() {
    return {{"n", static_cast<std::int64_t>(n)}};
  }
  [[nodiscard]] static ir::Lists lists(const Program& program) {
    if (ir::listed_dims(*ir::graph_of(program)).empty()) return {};
    return {{"n", {7, 1, static_cast<std::int64_t>(n) - 8}}};
  }

  /// The states after the step of `program` by the reference interpreter.
  [[nodiscard]] static Tensors after(const Program& program, const Tensors& before) {
    const ir::Graph& graph = *ir::graph_of(program);
    ir::Reference reference(graph, sizes(), lists(program));
    for (const auto& [name, elements] : before) {
      if (graph.find(name) >= 0) reference.set(name, ir::RankData(2, elements));
    }
    reference.run(scalars());
    Tensors states;
    for (const ir::Node& node : graph.nodes()) {
      if (node.op == ir::Op::state) states[node.name] = reference.get(node.name)[0];
    }
    return states;
  }

  /// Requires of each state that `got` has what f64 gives: of those of 16 bits within 2 units in
  /// the last place, and nearly of others.
  void check(const Tensors& before, const Tensors& got) const {
    const Program wide = shipped_.with(mesh(), f64, asked_.options, programs::Storage::whole, {});
    Tensors expected = after(wide, before);
    expected["master"] = expected["w"];
    const Program narrow = program();
    const ir::Graph& graph = *ir::graph_of(narrow);
    for (const auto& [name, elements] : got) {
      const ir::Data& exact = expected.at(name);
      const DType dtype = graph.at(graph.require(name)).dtype;
      REQUIRE(elements.size() == exact.size());
      for (std::size_t i = 0; i < exact.size(); ++i) {
        INFO(this->name() << ", " << name << "[" << i << "]: " << elements[i] << " for "
                          << exact[i]);
        if (is_16_bit(dtype)) {
          REQUIRE(std::isfinite(exact[i]));
          REQUIRE_FALSE(std::isnan(elements[i]));
          REQUIRE(std::abs(place_of(dtype, elements[i]) - place_of(dtype, exact[i])) <= 2);
        } else {
          REQUIRE(std::abs(elements[i] - exact[i]) <= 1e-5 * std::abs(exact[i]) + 1e-9);
        }
      }
    }
  }

 private:
  static constexpr std::size_t n = 24;

  const programs::Shipped& shipped_;
  programs::Precision precision_;
  DType dtype_;  ///< of the model
  Asked asked_;
};

/// All of them.
[[nodiscard]] inline std::vector<NarrowStep> narrow_steps() {
  std::vector<NarrowStep> steps;
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with == nullptr) continue;
    for (const programs::Precision& precision : shipped.precisions) {
      if (!is_16_bit(precision.model)) continue;
      for (const Asked& asked : asked_of_narrow) steps.emplace_back(shipped, precision, asked);
    }
  }
  return steps;
}

}  // namespace coconet::test
