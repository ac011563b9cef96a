// Compares what `gradients` computes with central differences of the reference.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/reference/reference.h"

namespace coconet::test {

/// Numbers for the elements of a tensor.
using Draw = std::function<double(std::mt19937&, const std::string& name)>;

inline double between_ones(std::mt19937& random, const std::string& /*name*/) {
  return std::uniform_real_distribution(-1.0, 1.0)(random);
}

/// Whether ranks `a` and `b` hold the same part of a value with `layout`.
inline bool are_replicas(const Mesh& mesh, const ir::Placements& layout, int a, int b) {
  for (int axis = 0; axis < static_cast<int>(layout.size()); ++axis) {
    if (layout[static_cast<std::size_t>(axis)] != replicated &&
        mesh.coordinate(a, axis) != mesh.coordinate(b, axis))
      return false;
  }
  return true;
}

/// All inputs and states of `graph`, drawn; replicas are alike.
inline std::map<std::string, ir::RankData> drawn_tensors(const ir::Graph& graph,
                                                         const ir::Reference& reference,
                                                         std::mt19937& random, const Draw& draw) {
  std::map<std::string, ir::RankData> tensors;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.at(id);
    if (!ir::states_type(node.op)) continue;
    ir::RankData& parts = tensors[node.name];
    for (int rank = 0; rank < graph.mesh.size(); ++rank) {
      int first = 0;
      while (!are_replicas(graph.mesh, node.layout, first, rank)) ++first;
      ir::Data data(static_cast<std::size_t>(reference.part(id, rank).count()));
      for (double& element : data) element = draw(random, node.name);
      parts.push_back(first < rank ? parts[first] : data);
    }
  }
  return tensors;
}

struct Comparison {
  double farthest = 0;  ///< relative to the larger of the gradient's largest element and 1
  int compared = 0, at_leaps = 0;  ///< elements; those where differences to both sides disagree
};

/// Compares the gradients of `loss` with respect to the inputs and states `of`, which the program
/// of f64 computes, with central differences: one element of one rank, or of all replicas, is
/// moved.
inline Comparison compare_with_differences(const Value& loss, const std::vector<Value>& of,
                                           const ir::Sizes& sizes, unsigned seed,
                                           const Draw& draw = between_ones) {
  const auto& graph = ir::graph_of(loss);
  // The loss alone, as it was without gradients.
  ir::Graph forward = *graph;
  const std::vector<Value> made = gradients(loss, of);
  Program program = ir::program_of(graph);
  for (const Value& gradient : made) program.output(gradient.name(), gradient);
  forward.add_output({"the loss", ir::id_of(loss)});

  ir::Reference with_gradients(*graph, sizes), loss_alone(forward, sizes);
  std::mt19937 random(seed);
  const auto tensors = drawn_tensors(forward, loss_alone, random, draw);
  for (const auto& [name, parts] : tensors) with_gradients.set(name, parts);
  with_gradients.run({});
  const auto loss_of = [&](const std::string& name, const ir::RankData& moved) {
    for (const auto& [other, parts] : tensors) loss_alone.set(other, other == name ? moved : parts);
    loss_alone.run({});
    return loss_alone.get("the loss").at(0).front();
  };

  const double here = loss_of("", {});
  Comparison result;
  for (std::size_t k = 0; k < of.size(); ++k) {
    const ir::Node node = graph->at(ir::id_of(of[k]));
    const ir::RankData& gradient = with_gradients.get(made[k].name());
    double scale = 1;
    for (const ir::Data& part : gradient) {
      for (const double element : part) scale = std::max(scale, std::fabs(element));
    }
    for (int rank = 0; rank < forward.mesh.size(); ++rank) {
      const ir::Data& part = tensors.at(node.name).at(rank);
      for (std::size_t i = 0; i < part.size(); ++i) {
        constexpr double step = 1e-5;
        double losses[4];  // at -2, -1, 1 and 2 steps
        for (const int side : {0, 1, 2, 3}) {
          ir::RankData moved = tensors.at(node.name);
          for (int other = 0; other < forward.mesh.size(); ++other) {
            if (are_replicas(forward.mesh, node.layout, rank, other))
              moved[other][i] += (side < 2 ? side - 2 : side - 1) * step;
          }
          losses[side] = loss_of(node.name, moved);
        }
        // A leap or a bend makes the slopes of the four steps differ, curvature hardly.
        const double slopes[] = {losses[1] - losses[0], here - losses[1], losses[2] - here,
                                 losses[3] - losses[2]};
        const auto [least, most] = std::ranges::minmax(slopes);
        constexpr double of_curvature = 1e-3;
        if (most - least > of_curvature * scale * step) {
          ++result.at_leaps;
          continue;
        }
        ++result.compared;
        const double difference =
            (8 * (losses[2] - losses[1]) - (losses[3] - losses[0])) / (12 * step);
        const double distance = std::fabs(difference - gradient.at(rank).at(i)) / scale;
        result.farthest = std::max(result.farthest, std::isnan(distance) ? HUGE_VAL : distance);
      }
    }
  }
  return result;
}

/// The same, where no element is at a leap: the distance.
inline double distance_from_differences(const Value& loss, const std::vector<Value>& of,
                                        const ir::Sizes& sizes, unsigned seed,
                                        const Draw& draw = between_ones) {
  const Comparison result = compare_with_differences(loss, of, sizes, seed, draw);
  return result.at_leaps > 0 ? HUGE_VAL : result.farthest;
}

}  // namespace coconet::test
