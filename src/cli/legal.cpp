// `coconet legal`: the steps that a schedule may take next.
#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/program_spec.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "sched/transform.h"

namespace coconet::cli {
namespace {

/// What the list of `legal` may hold beside what it does; empty where that is nothing.
std::string others(const sched::LegalStep& legal) {
  if (legal.any_of.empty()) return "";
  const char* const list = legal.step.transformation == "reorder" ? "before" : "ops";
  if (legal.step.list(list).size() >= legal.any_of.size()) return "";
  std::string names;
  for (const std::string& name : legal.any_of) names += (names.empty() ? "" : ", ") + name;
  return legal.step.transformation == "reorder"
             ? "    before: any of " + names
             : "    ops: any of " + names + ", by the rules of kernels";
}

}  // namespace

int legal(const LegalOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const Program program = resolved.program(resolved.ranks_to_plan_for(options.ranks));
  const Program scheduled = resolved.schedule().apply(program).back();
  for (const sched::LegalStep& legal : sched::legal_steps(*ir::graph_of(scheduled))) {
    std::printf("%s\n", to_string(legal.step).c_str());
    if (const std::string text = others(legal); !text.empty()) std::printf("%s\n", text.c_str());
  }
  return exit_ok;
}

}  // namespace coconet::cli
