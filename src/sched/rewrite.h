// Builds the graph after a transformation from the one before it, node by node, with every node
// checked again.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "sched/value_set.h"

namespace coconet::sched {

class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& from);

  /// What stands for the old value `id` in the new graph; -1 while nothing does.
  [[nodiscard]] ir::ValueId map(ir::ValueId id) const { return map_[id]; }
  void set(ir::ValueId old_id, ir::ValueId new_id) { map_[old_id] = new_id; }
  /// Appends old node `id` with mapped operands.
  ir::ValueId copy(ir::ValueId id);
  /// Appends a new node; its operands are ids of the new graph.
  ir::ValueId add(ir::Node node);
  /// `stem`, or `stem`_2 and so on when the old or the new graph has it.
  [[nodiscard]] std::string fresh_name(const std::string& stem);
  [[nodiscard]] const ir::Graph& graph() const { return to_; }
  /// Makes value `id` of the new graph a member of kernel `fusion`, an index of the old graph's.
  void join(int fusion, ir::ValueId id) { joining_.emplace(fusion, id); }
  /// The new graph, with outputs and fusions mapped; members of fusions that have no counterpart
  /// are gone.
  [[nodiscard]] ir::Graph finish();

 private:
  const ir::Graph& from_;
  ir::Graph to_;
  Indexed<ir::ValueId> map_;
  std::multimap<int, ir::ValueId> joining_;
  std::map<std::string, int, std::less<>> numbers_;  ///< by stem: the last that was given
};

/// The values that `ids` depend on, `ids` included.
[[nodiscard]] ValueSet ancestors(const ir::Graph& graph, const std::set<ir::ValueId>& ids);
/// The values that depend on `ids`, `ids` included.
[[nodiscard]] ValueSet descendants(const ir::Graph& graph, const std::set<ir::ValueId>& ids);
/// The values that updates and outputs need; states and inputs count as needed always.
[[nodiscard]] ValueSet live_values(const ir::Graph& graph);
/// `graph` without the values that are not live.
[[nodiscard]] ir::Graph drop_dead(const ir::Graph& graph);

}  // namespace coconet::sched
