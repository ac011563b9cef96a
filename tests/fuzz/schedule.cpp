// Schedule JSON: read, applied to the shipped programs that its first step is legal for, lowered
// and generated.
#include "coconet/schedule.h"

#include "coconet/error.h"
#include "fuzz/generated_text.h"
#include "fuzz/subjects.h"
#include "fuzz/targets.h"
#include "ir/access.h"
#include "sched/schedule.h"

namespace coconet::fuzz {

void fuzz_schedule(Bytes bytes) {
  const Schedule schedule = Schedule::parse(text_of(bytes));
  const std::string json = schedule.json();
  require(Schedule::parse(json).json() == json, "a schedule survives its JSON");
  if (schedule.is_automatic()) return;
  const sched::Steps& steps = sched::steps_of(schedule);
  bool was_applied = false;
  for (const Subject& subject : subjects()) {
    if (!steps.steps.empty() &&
        !sched::is_legal(*ir::graph_of(subject.program), steps.steps.front()))
      continue;
    check_kernels_of(schedule.apply(subject.program).back());
    was_applied = true;
  }
  if (!was_applied) (void)schedule.apply(subjects().front().program);
}

}  // namespace coconet::fuzz
