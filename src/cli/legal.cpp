// `coconet legal`: the steps that a schedule may take next.
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/program_spec.h"
#include "coconet/scheduler.h"

namespace coconet::cli {

int legal(const LegalOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const Program program = resolved.program(resolved.ranks_to_plan_for(options.ranks));
  const Scheduler scheduler(resolved.schedule().apply(program).back());
  const std::vector<std::string> steps = scheduler.legal();
  for (const std::string& step : steps) std::printf("%s\n", step.c_str());
  if (steps.empty()) std::printf("nothing: every value is in a kernel, or cannot move\n");
  return exit_ok;
}

}  // namespace coconet::cli
