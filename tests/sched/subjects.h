// Programs that the tests of transformations rewrite, and how they apply steps to them.
#pragma once

#include <string>
#include <vector>

#include "coconet/program.h"
#include "coconet/schedule.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "refusal.h"
#include "sched/transform.h"

namespace coconet {

inline Mesh two_ranks() {
  return Mesh({{"world", 2}});
}

/// An optimizer in small: w -= lr * m1, m1 = 0.9 m + avg, on the average gradient.
struct Momentum {
  Program p{"step", two_ranks()};
  Dim n = p.dim("n", 8);
  Value g = p.input("g", f32, {n}, local);
  Value w = p.state("w", f32, {n}, replicated);
  Value m = p.state("m", f32, {n}, replicated);
  Value lr = p.scalar("lr");
  Value avg = all_reduce(g, mean).named("avg");
  Value m1 = update(m, 0.9 * m + avg);
  Value w1 = update(w, w - lr * m1);
};

/// Of it: all computation on slices.
inline Schedule m_on_slices() {
  return Schedule().split("avg").reorder("avg.all_gather", {"m.new", "w.new"}).as_slice("m").dead();
}

/// One kernel of these.
inline Schedule kernel(const std::vector<std::string>& ops, const char* kind = "computation") {
  return Schedule().fuse("k", kind, ops);
}

/// The program after `schedule`.
inline Program after(const Program& program, const Schedule& schedule) {
  return schedule.apply(program).back();
}

/// What the schedule's refusal says after "schedule 'unnamed', step I (...): ".
inline std::string reason(const Program& program, const Schedule& schedule) {
  const std::string message = refusal<ScheduleError>([&] { (void)schedule.apply(program); });
  const auto end_of_step = message.find("): ");
  return end_of_step == std::string::npos ? message : message.substr(end_of_step + 3);
}

inline const ir::Node& node(const Program& program, const std::string& name) {
  return ir::graph_of(program)->at(ir::graph_of(program)->require(name));
}

/// The names of the operands of value `name`.
inline std::vector<std::string> operands(const Program& program, const std::string& name) {
  std::vector<std::string> names;
  for (const ir::ValueId id : node(program, name).operands)
    names.push_back(ir::graph_of(program)->at(id).name);
  return names;
}

/// "y: f32[n] sliced(0)"
inline std::string type_of(const Program& program, const std::string& name) {
  return ir::describe(*ir::graph_of(program), ir::graph_of(program)->require(name));
}

/// The members of kernel `name` that are tensors.
inline std::vector<std::string> members(const Program& program, const std::string& name) {
  std::vector<std::string> names;
  for (const ir::Fusion& fusion : ir::graph_of(program)->fusions()) {
    if (fusion.name != name) continue;
    for (const ir::ValueId id : fusion.members) names.push_back(ir::graph_of(program)->at(id).name);
  }
  return names;
}

/// Checks that every candidate of the transformation is legal, and returns the candidates as text.
inline std::vector<std::string> legal_candidates(const Program& program,
                                                 std::string_view transformation) {
  std::vector<std::string> texts;
  for (const sched::Step& step :
       sched::find_transformation(transformation)->candidates(*ir::graph_of(program))) {
    const std::string why = sched::legal(*ir::graph_of(program), step);
    texts.push_back(why.empty() ? to_string(step) : "illegal: " + why);
  }
  return texts;
}

/// Calls `f(whole, own)` for each element of `part` of a tensor with `extents`: its index in the
/// whole tensor and in the part, both row-major.
template <class F>
void for_each_element(const ir::Extents& extents, const ir::Part& part, const F& f) {
  const std::int64_t count = part.count();
  for (std::int64_t own = 0; own < count; ++own) {
    std::int64_t rest = own, whole = 0, stride = 1;
    for (std::size_t dim = extents.size(); dim-- > 0;) {
      whole += (part.begin[dim] + rest % part.extent[dim]) * stride;
      rest /= part.extent[dim];
      stride *= extents[dim];
    }
    f(whole, own);
  }
}

}  // namespace coconet
