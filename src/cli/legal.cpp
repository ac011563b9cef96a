// `coconet legal`: the steps that a schedule may take next.
#include <cstdio>

#include "cli/commands.h"
#include "cli/program_spec.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "sched/transform.h"

namespace coconet::cli {
int legal(const LegalOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const Program program = resolved.program(resolved.ranks_to_plan_for(options.ranks));
  const Program scheduled = resolved.schedule().apply(program).back();
  for (const sched::Step& step : sched::candidate_steps(*ir::graph_of(scheduled)))
    std::printf("%s\n", to_string(step).c_str());
  return exit_ok;
}

}  // namespace coconet::cli
