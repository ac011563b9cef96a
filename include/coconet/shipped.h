// The table of the programs that ship with the library, for those that find them by name.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/export.h"
#include "coconet/program.h"
#include "coconet/training.h"

namespace coconet::programs {

/// Values of hyperparameters by the names of their fields, such as {"beta2", 0.95}; a flag is 0
/// or 1.
using Hyperparameters = std::map<std::string, double, std::less<>>;

/// A hyperparameter of a shipped optimizer.
struct HyperparameterInfo {
  std::string_view name;   ///< of its field, "beta2"
  double value = 0;        ///< where it is not set
  std::string_view range;  ///< what it must be, "in [0, 1)"
};

/// A shipped program and its schedules. `Schedule::load(name + "-" + schedule + ".json")` loads
/// one.
struct Shipped {
  std::string_view name;                    ///< "adam"
  std::string_view summary;                 ///< what it computes, in a few words
  std::vector<std::string_view> schedules;  ///< their names, "fused"
  /// What `build` takes, the usual one first; those in mixed precision, of an optimizer, with
  /// copies of the master weights.
  std::vector<Precision> precisions;
  /// Makes the program. Throws ProgramError for what is no optimizer in mixed precision.
  Program (*build)(const Mesh& mesh, Precision precision);
  Program (*scattered)(const Mesh& mesh, Precision precision) =
      nullptr;  ///< the same with Storage::scattered, of an optimizer
  /// An optimizer that is asked for more, with its defaults for the hyperparameters that are not
  /// named. Throws ProgramError for one that it does not have or that is out of its range.
  Program (*with)(const Mesh& mesh, Precision precision, const TrainingOptions& options,
                  Storage storage, const Hyperparameters& hyperparameters) = nullptr;
  /// Of a model: with as many layers. Throws ProgramError for less than one.
  Program (*with_layers)(const Mesh& mesh, Precision precision, int layers) = nullptr;
  int stages = 1;  ///< of a pipeline, each of as many ranks
  /// Schedules for a mesh of nodes, of an optimizer.
  std::vector<std::string_view> across_nodes = {};
  /// Of an optimizer, but for TrainingOptions.
  std::vector<HyperparameterInfo> hyperparameters = {};

  /// Whether its stages divide the ranks.
  [[nodiscard]] bool runs_on(int ranks) const { return ranks >= 1 && ranks % stages == 0; }
  /// The usual mesh over `ranks` ranks: {world: ranks}, or for a pipeline {pp: stages, tp: ranks /
  /// stages}. Throws ProgramError when the stages do not divide the ranks.
  [[nodiscard]] COCONET_API Mesh mesh(int ranks) const;
  /// {node: nodes, gpu: ranks / nodes}. Throws ProgramError when the nodes do not divide the ranks,
  /// or the program has no schedules for such a mesh.
  [[nodiscard]] COCONET_API Mesh mesh_of_nodes(int ranks, int nodes) const;
};
/// All of them.
[[nodiscard]] COCONET_API const std::vector<Shipped>& shipped();

/// The shipped program called `name`, or null.
[[nodiscard]] COCONET_API const Shipped* find(std::string_view name);

}  // namespace coconet::programs
