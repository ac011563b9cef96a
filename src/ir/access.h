// What the library sees of the handles that applications hold.
#pragma once

#include <memory>
#include <utility>

#include "coconet/program.h"

namespace coconet::ir {

struct Access {
  static const std::shared_ptr<Graph>& graph(const Program& program) { return program.graph_; }
  static const std::shared_ptr<Graph>& graph(const Value& value) { return value.graph_; }
  static int id(const Value& value) { return value.id_; }
  static Program program(std::shared_ptr<Graph> graph) { return Program(std::move(graph)); }
  static Value value(std::shared_ptr<Graph> graph, int id) { return {std::move(graph), id}; }
};

[[nodiscard]] inline const std::shared_ptr<Graph>& graph_of(const Program& program) {
  return Access::graph(program);
}
/// Null for a constant.
[[nodiscard]] inline const std::shared_ptr<Graph>& graph_of(const Value& value) {
  return Access::graph(value);
}
/// The number of `value`'s node; -1 for a constant.
[[nodiscard]] inline int id_of(const Value& value) {
  return Access::id(value);
}
[[nodiscard]] inline Program program_of(std::shared_ptr<Graph> graph) {
  return Access::program(std::move(graph));
}
[[nodiscard]] inline Value value_of(std::shared_ptr<Graph> graph, int id) {
  return Access::value(std::move(graph), id);
}

}  // namespace coconet::ir
