// coconet::Schedule: building a list of steps, loading one, applying it to a program.
#include "sched/schedule.h"

#include <fmt/format.h>

#include "coconet/error.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "ir/knobs.h"
#include "ir/read_file.h"
#include "sched/shipped.h"

namespace coconet {

Schedule::Schedule(std::string name)
    : steps_(std::make_unique<sched::Steps>(sched::Steps{std::move(name), {}, {}})) {}
Schedule::~Schedule() = default;
Schedule::Schedule(const Schedule& other) : steps_(std::make_unique<sched::Steps>(*other.steps_)) {}
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(const Schedule& other) {
  steps_ = std::make_unique<sched::Steps>(*other.steps_);
  return *this;
}
Schedule& Schedule::operator=(Schedule&&) noexcept = default;

Schedule Schedule::parse(std::string_view json) {
  Schedule schedule;
  *schedule.steps_ = sched::parse_schedule(json);
  return schedule;
}

Schedule Schedule::automatic() {
  Schedule schedule("automatic");
  schedule.steps_->is_automatic = true;
  return schedule;
}

Schedule Schedule::load(const std::filesystem::path& file) {
  const ir::FileText read = ir::read_file(file);
  if (read.is_missing) {
    if (const auto text = sched::find_shipped_schedule(file.string())) return parse(*text);
    throw ScheduleError("there is no schedule file '" + file.string() +
                        "', and none of that name ships" +
                        ir::suggestion(file.string(), sched::shipped_schedule_files()));
  }
  return ir::parse_file<ScheduleError>(file, read, "schedule", parse);
}

std::string Schedule::json() const {
  return sched::to_json(*steps_);
}
const std::string& Schedule::name() const {
  return steps_->name;
}
std::size_t Schedule::size() const {
  return steps_->steps.size();
}
std::string Schedule::step(std::size_t index) const {
  return to_string(steps_->steps.at(index));
}

Schedule& Schedule::split(std::string op, std::string into, int dim) {
  steps_->steps.push_back(sched::complete(
      {"split", {{"op", std::move(op)}, {"into", std::move(into)}, {"dim", std::int64_t{dim}}}}));
  return *this;
}

Schedule& Schedule::reorder(std::string all_gather, std::vector<std::string> before) {
  steps_->steps.push_back(sched::complete(
      {"reorder", {{"all_gather", std::move(all_gather)}, {"before", std::move(before)}}}));
  return *this;
}

Schedule& Schedule::as_slice(std::string state) {
  steps_->steps.push_back(sched::complete({"as_slice", {{"state", std::move(state)}}}));
  return *this;
}

Schedule& Schedule::dead() {
  steps_->steps.push_back(sched::complete({"dead", {}}));
  return *this;
}

Schedule& Schedule::fuse(std::string kernel, std::string kind, std::vector<std::string> ops,
                         Knobs knobs) {
  sched::Step step{
      "fuse", {{"kernel", std::move(kernel)}, {"kind", std::move(kind)}, {"ops", std::move(ops)}}};
  for (const ir::KnobRow& row : ir::knob_table()) {
    step.arguments.emplace(row.name, row.text != nullptr ? sched::Argument(knobs.*row.text)
                                                         : std::int64_t{knobs.*row.number});
  }
  steps_->steps.push_back(sched::complete(std::move(step)));
  return *this;
}

Schedule& Schedule::overlap(std::vector<std::string> steps) {
  steps_->steps.push_back(sched::complete({"overlap", {{"steps", std::move(steps)}}}));
  return *this;
}

bool Schedule::is_automatic() const {
  return steps_->is_automatic;
}

std::vector<Program> Schedule::apply(const Program& program) const {
  if (is_automatic()) {
    throw ScheduleError("schedule '" + name() +
                        "' is automatic: it has no steps until compile() chooses them for ranks, a "
                        "machine and sizes");
  }
  std::vector<Program> programs = {program};
  for (std::size_t index = 0; index < size(); ++index)
    programs.push_back(sched::apply_step(programs.back(), *steps_, index));
  return programs;
}

const sched::Steps& sched::steps_of(const Schedule& schedule) {
  return *schedule.steps_;
}

Program sched::apply_step(const Program& program, const Steps& steps, std::size_t index) {
  const Step& step = steps.steps[index];
  try {
    const ir::Graph& before = *ir::graph_of(program);
    auto after = std::make_shared<ir::Graph>(transform(before, step));
    const std::string origin = to_string(step);
    for (ir::ValueId id = 0; id < after->size(); ++id) {
      if (before.find(after->at(id).name) < 0) after->edit(id).origin = origin;
    }
    return ir::program_of(std::move(after));
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    throw ScheduleError(fmt::format("schedule '{}', step {} ({}): {}", steps.name, index + 1,
                                    to_string(step), error.what()));
  }
}

}  // namespace coconet
