// Finds the program and the schedule that a command line names, among those that ship and among
// files.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "coconet/programs.h"
#include "coconet/schedule.h"
#include "ir/json/mesh.h"

namespace coconet::ir {
class Graph;
}

namespace coconet::cli {

/// A program and a schedule that exist, before the ranks are known.
class ResolvedSpec {
 public:
  /// Throws UsageError when `spec` names something that does not ship and is no file,
  /// ProgramError or ScheduleError when a file is malformed.
  explicit ResolvedSpec(const ProgramSpec& spec);

  /// The program for `ranks` ranks. Throws UsageError when it comes from a file whose mesh has
  /// another size, ProgramError when it has stages, nodes or axes that do not divide them.
  [[nodiscard]] Program program(int ranks) const;
  /// Ranks of a program file's mesh; nothing where an axis has those that are left, and for a
  /// shipped program, which has one for any number, or any multiple of its stages.
  [[nodiscard]] std::optional<int> ranks() const;
  /// Ranks to plan for: the file's, or those asked for, or 2 of each stage or node, or along the
  /// axis that has those that are left. Throws UsageError when `asked` contradicts the file.
  [[nodiscard]] int ranks_to_plan_for(std::optional<int> asked) const;
  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  /// The schedules that ship with the program, for a mesh of nodes if it is on one.
  [[nodiscard]] std::vector<Schedule> shipped_schedules() const;
  /// The schedule as the command line called it, or "none".
  [[nodiscard]] const std::string& schedule_name() const { return schedule_name_; }

 private:
  std::string asked_;
  const programs::Shipped* shipped_ = nullptr;
  bool scattered_ = false;
  programs::TrainingOptions training_;
  programs::Hyperparameters hyperparameters_;
  std::optional<int> nodes_;
  std::optional<int> layers_;
  std::optional<Program> file_;          ///< a file whose mesh is fixed
  std::optional<ir::OpenProgram> open_;  ///< a file that is read when the ranks are known
  programs::Precision precision_ = DType::f32;
  Schedule schedule_{"none"};
  std::string schedule_name_ = "none";
};

/// The two sides of `option` NAME=VALUE. Throws UsageError, which calls the second one `value`.
[[nodiscard]] std::pair<std::string, std::string> assignment(const std::string& option,
                                                             const std::string& text,
                                                             const std::string& value = "VALUE");
/// `--sizes [NAME=]FROM..TO` or `[NAME=]SIZE,SIZE`: a dimension, which may be left out where there
/// is one only, and its extents. FROM..TO doubles from FROM on. Throws UsageError.
[[nodiscard]] std::pair<std::string, std::vector<std::int64_t>> parse_sizes(
    const std::string& text);
/// The dimension of `--sizes` and its extents; no dimension and one extent where there is none.
struct SizesToTry {
  std::string dim;
  std::vector<std::int64_t> extents;
};
/// Throws UsageError when `graph` has no such dimension, or several and none is named.
[[nodiscard]] SizesToTry sizes_to_try(const ir::Graph& graph,
                                      const std::vector<std::string>& asked);
/// `value` of `--set NAME=VALUE`: an integer, or a power such as 2^20. Throws UsageError.
[[nodiscard]] std::pair<std::string, std::int64_t> parse_size(const std::string& text);
/// `--list NAME=LENGTH,LENGTH`, each as of `--set`. Throws UsageError.
[[nodiscard]] std::pair<std::string, std::vector<std::int64_t>> parse_list(const std::string& text);
/// `--master-weights KEPT`: copy, remainders or none. Throws UsageError.
[[nodiscard]] std::string_view to_string(programs::MasterWeights kept);
[[nodiscard]] programs::MasterWeights parse_master_weights(const std::string& text);
/// `option` NAME=NUMBER, such as `--scalar lr=1e-3`. Throws UsageError.
[[nodiscard]] std::pair<std::string, double> parse_number(const std::string& option,
                                                          const std::string& text);

}  // namespace coconet::cli
