// Writing traces. The format: "Trace Event Format", Google, complete and metadata events.
#include "cli/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "ir/json/text.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"

namespace coconet::cli {
namespace {

nlohmann::ordered_json name_event(const char* what, int rank, int lane, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

}  // namespace

std::string trace_json(Executable& step, const World& world) {
  const int rank = world.rank();
  auto events = nlohmann::ordered_json::array();
  events.push_back(name_event("process_name", rank, 0, fmt::format("rank {}", rank)));
  std::set<int> lanes;
  for (const TraceSpan& span : step.trace()) {
    lanes.insert(span.lane);
    events.push_back({{"name", span.name},
                      {"cat", span.kind},
                      {"ph", "X"},
                      {"ts", span.begin_us},
                      {"dur", span.end_us - span.begin_us},
                      {"pid", rank},
                      {"tid", span.lane},
                      {"args", {{"step", span.run}}}});
  }
  for (const int lane : lanes)
    events.push_back(name_event("thread_name", rank, lane, fmt::format("stream {}", lane)));
  auto all = nlohmann::ordered_json::array();
  for (const std::string& of_rank : jit::comm_of(world).all_gather(ir::json_text(events))) {
    if (rank != 0) return {};
    for (nlohmann::ordered_json& event : ir::json_of(of_rank)) all.push_back(std::move(event));
  }
  return ir::json_text({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(all)}}) + "\n";
}

}  // namespace coconet::cli
