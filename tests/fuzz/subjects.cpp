// Makes the programs once.
#include "fuzz/subjects.h"

#include <string>

#include "sched/shipped.h"

namespace coconet::fuzz {
namespace {

Subject make(const std::string& name, bool on_nodes = false) {
  constexpr int ranks = 4, nodes = 2;
  const programs::Shipped& shipped = *programs::find(name);
  Subject subject{
      shipped.build(on_nodes ? shipped.mesh_of_nodes(ranks, nodes) : shipped.mesh(ranks), f32), {}};
  for (const std::string_view schedule : on_nodes ? shipped.across_nodes : shipped.schedules) {
    subject.schedules.push_back(
        *sched::find_shipped_schedule(name + "-" + std::string(schedule) + ".json"));
  }
  return subject;
}

}  // namespace

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = {make("adam"), make("sgd", true), make("lamb"),
                                           make("mlp_block"), make("pipeline_block")};
  return all;
}

}  // namespace coconet::fuzz
