// The program graph: nodes in single-assignment form, in topological order, each fully typed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/mesh.h"
#include "coconet/program.h"
#include "coconet/schedule.h"
#include "ir/attributes.h"
#include "ir/indexed.h"
#include "ir/op.h"

namespace coconet::ir {

using ValueId = int;
using Placements = std::vector<Placement>;  ///< one per mesh axis

/// One value. `input` and `state` state their dtype, shape and layout; every other op gets its type
/// from `infer`.
struct Node {
  Op op = Op::constant;
  std::string name = {};               ///< unique in the graph
  bool user_named = false;             ///< named by the application or a schedule, not by the graph
  std::string origin = {};             ///< the schedule step that made it; empty: the application
  std::vector<ValueId> operands = {};  ///< each less than the node's own id
  Attributes attributes = {};
  DType dtype = DType::f64;
  Shape shape = {};
  Placements layout = {};
  /// A number rather than a tensor: computed once per run on the host, in double, and taking the
  /// dtype of the tensor that it is combined with. Constants, scalars, extents and arithmetic among
  /// them.
  bool weak = false;
};

/// A kernel that a schedule made.
struct Fusion {
  /// Pointwise computation alone, or beside a collective: what the kernel as a whole does.
  enum class Kind : std::uint8_t {
    computation,
    all_reduce,
    reduce_scatter,
    all_gather,
    reduce,
    broadcast,
    send
  };
  std::string name;
  std::vector<ValueId> members;  ///< sorted
  Knobs knobs = {};
  /// Sorted: values of another step that the kernel reads tile by tile while that step still runs.
  std::vector<ValueId> arriving = {};
  /// Of the members: a graph sets it (collective_halves.h).
  Kind kind = Kind::computation;
};
inline constexpr Fusion::Kind fusion_kinds[] = {
    Fusion::Kind::computation, Fusion::Kind::all_reduce, Fusion::Kind::reduce_scatter,
    Fusion::Kind::all_gather,  Fusion::Kind::reduce,     Fusion::Kind::broadcast,
    Fusion::Kind::send};
[[nodiscard]] std::string_view to_string(Fusion::Kind kind);

struct Output {
  std::string name;
  ValueId value = -1;
};

/// A whole program. Transformations make new graphs; only the building API appends to one. What is
/// asked of each value is known by indices, which what appends and sets keeps: a program may have
/// tens of thousands.
class Graph {
 public:
  std::string name;
  Mesh mesh{{{"world", 1}}};
  std::vector<Dim> dims;  ///< the symbols, in order of declaration
  /// What the names of values begin with that the building API makes now: nothing, or "layer3.".
  std::string scope;
  /// The scopes of the application that have not ended, each with a number of its own.
  std::vector<std::pair<int, std::string>> scopes;

  [[nodiscard]] const Indexed<Node>& nodes() const { return nodes_; }  ///< by ValueId
  [[nodiscard]] const std::vector<Output>& outputs() const { return outputs_; }
  [[nodiscard]] const std::vector<Fusion>& fusions() const { return fusions_; }
  [[nodiscard]] const Node& at(ValueId id) const { return nodes_.at(id); }
  [[nodiscard]] ValueId size() const { return nodes_.count(); }

  /// The value called `name`, or -1.
  [[nodiscard]] ValueId find(std::string_view name) const;
  /// The value of the output called `name`, or -1.
  [[nodiscard]] ValueId find_output(std::string_view name) const;
  /// Like `find`; throws ProgramError listing near names when there is none.
  [[nodiscard]] ValueId require(std::string_view name) const;
  /// The constant of the same bits as `number`, or -1.
  [[nodiscard]] ValueId find_constant(double number) const;
  /// The `update` of state `state`, or -1.
  [[nodiscard]] ValueId update_of(ValueId state) const { return update_of_[state]; }
  /// For each value the values that read it, in order.
  [[nodiscard]] const Indexed<std::vector<ValueId>>& users() const { return users_; }
  /// The fusion that `id` is a member of, or null.
  [[nodiscard]] const Fusion* fusion_of(ValueId id) const;
  /// Its place among `fusions()`; -1: none.
  [[nodiscard]] int fusion_index(ValueId id) const { return fusion_of_[id]; }
  /// Whether a kernel reads `id` tile by tile, while the step that makes it still runs.
  [[nodiscard]] bool arrives(ValueId id) const { return arrives_[id]; }
  /// Whether the application reads `id` after a step.
  [[nodiscard]] bool is_output(ValueId id) const { return is_output_[id]; }
  /// Whether `name` may still be given to a value.
  [[nodiscard]] bool name_free(std::string_view name) const;

  /// Makes room for so many values at once.
  void reserve(std::size_t values);
  void rename(ValueId id, std::string to);
  /// Drops `first` and all values after it, which no output and no fusion has.
  void drop_from(ValueId first);
  /// The node, of which all may be changed but the op, the name and the operands.
  [[nodiscard]] Node& edit(ValueId id) { return nodes_.at(id); }
  void add_output(Output output);
  void add_fusion(Fusion fusion);
  void set_fusions(std::vector<Fusion> fusions);

 private:
  friend ValueId append(Graph& graph, Node node);
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Names = std::unordered_map<std::string, ValueId, Hash, std::equal_to<>>;

  void add(Node node);
  void index(Fusion& fusion, int number);

  Indexed<Node> nodes_;
  std::vector<Output> outputs_;
  std::vector<Fusion> fusions_;
  Names id_of_name_, id_of_output_;
  std::unordered_map<std::uint64_t, ValueId> constants_;  ///< by the bits of the number
  Indexed<std::vector<ValueId>> users_;
  Indexed<ValueId> update_of_;  ///< by state; -1: none
  Indexed<int> fusion_of_;      ///< the first of `fusions_`; -1: none
  Indexed<char> arrives_, is_output_;
};

/// Sets what names begin with, until it goes.
class InScope {
 public:
  InScope(Graph& graph, std::string scope) : graph_(graph), outer_(std::move(graph.scope)) {
    graph_.scope = std::move(scope);
  }
  ~InScope() { graph_.scope = std::move(outer_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Graph& graph_;
  std::string outer_;
};

/// What the names of values begin with that are named as `node` is: "layer3." of "layer3.add_7".
[[nodiscard]] std::string scope_of(const Node& node);

/// The constant `number`: the one that there is, or a new one.
ValueId constant_of(Graph& graph, double number);

/// Infers the type of `node` in `graph` (dtype, shape, layout, weak), checking every rule, and
/// appends it. A node without a name gets one. Throws ProgramError with the rule that is broken.
ValueId append(Graph& graph, Node node);

/// Re-checks every node of a graph that came from elsewhere. Throws ProgramError.
void verify(const Graph& graph);

/// "g: f32[n] local" : dtype, shape and layout as the printer writes them.
[[nodiscard]] std::string describe(const Graph& graph, ValueId id);
[[nodiscard]] std::string to_string(const Shape& shape);
[[nodiscard]] std::string to_string(const Placements& layout, const Mesh& mesh);
/// What the node has beside its operands, each as the printer writes it, all that differ from what
/// they are where none are given.
[[nodiscard]] std::vector<std::string> attribute_texts(const Graph& graph, const Node& node);

/// One line per value, then outputs and kernels.
[[nodiscard]] std::string print(const Graph& graph);

/// The version of program JSON that `to_json` writes and `from_json` reads.
inline constexpr int program_json_version = 1;
[[nodiscard]] std::string to_json(const Graph& graph);
/// For `ranks` ranks; 0: a mesh that depends on their number is an error. Throws ProgramError with
/// the JSON pointer of what is wrong.
[[nodiscard]] Graph from_json(std::string_view text, int ranks = 0);

/// The known name nearest to `name` by edit distance, or empty when none is near.
[[nodiscard]] std::string nearest(std::string_view name, const std::vector<std::string>& known);
/// "; did you mean 'X'?" of the nearest; `otherwise` where none is near.
[[nodiscard]] std::string suggestion(std::string_view name, const std::vector<std::string>& known,
                                     const std::string& otherwise = "");

}  // namespace coconet::ir
