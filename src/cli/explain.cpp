// `coconet explain`: shows what a schedule makes of a program, after each step, as a plan, or as
// generated source.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/diff.h"
#include "cli/dot.h"
#include "cli/program_spec.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "jit/codegen/codegen.h"
#include "jit/exchange/slices.h"
#include "jit/kernels/binary_request.h"
#include "jit/platform/platform.h"
#include "jit/tune/tuning_file.h"
#include "sched/cost/cluster.h"
#include "sched/cost/estimate.h"
#include "sched/cost/work.h"
#include "sched/knobs.h"
#include "sched/plan.h"

namespace coconet::cli {
namespace {

void print_text(std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  std::fputs(text.c_str(), stdout);
}

/// On a terminal unchanged lines are dim, removed ones red and added ones green; elsewhere the
/// marks say it all.
void print_diff(const std::string& before, const std::string& after) {
  const bool colors = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  for (const DiffLine& line : diff_lines(before, after)) {
    const char* color = line.mark == '+' ? "\x1b[32m" : line.mark == '-' ? "\x1b[31m" : "\x1b[2m";
    std::printf("%s%c %s%s\n", colors ? color : "", line.mark, line.text.c_str(),
                colors ? "\x1b[0m" : "");
  }
}

void show_ir(const Schedule& schedule, const std::vector<Program>& programs) {
  std::printf("the program as written\n");
  print_diff(programs[0].str(), programs[0].str());
  for (std::size_t step = 1; step < programs.size(); ++step) {
    std::printf("\nstep %zu of %zu: %s\n", step, schedule.size(), schedule.step(step - 1).c_str());
    const std::string before = programs[step - 1].str();
    const std::string after = programs[step].str();
    if (before == after) {
      std::printf("  (unchanged)\n");
    } else {
      print_diff(before, after);
    }
  }
}

/// The machine to predict for: the one named, this one where it was measured with as many ranks, or
/// the host that ships, with that many.
sched::Cluster machine_for(const ExplainOptions& options, const Mesh& mesh) {
  if (!options.cluster.empty()) return sched::load_cluster(options.cluster);
  if (auto known = jit::known_machine(mesh.size())) return *known;
  sched::Cluster shipped = sched::load_cluster("host-2rank");
  shipped.nodes = options.spec.nodes.value_or(1);
  shipped.ranks_per_node = mesh.size() / shipped.nodes;
  return shipped;
}

/// The steps, and where all extents are known what each moves and calculates on the first rank, how
/// long that is predicted to take, and what binds it.
void show_plan(const Program& program, const ExplainOptions& options) {
  const sched::Plan plan = sched::lower(*ir::graph_of(program));
  print_text(sched::print(plan));
  Sizes extents;
  try {
    extents = ir::resolve_sizes(*ir::graph_of(program), options.spec.sizes);
  } catch (const ProgramError& error) {
    std::printf("\nbytes, operations and times are not known: %s\n", error.what());
    return;
  }
  const sched::PlanWork work = sched::work_of(plan, extents);
  const std::vector<sched::Moved> traffic = sched::traffic_of(plan, work);
  const sched::Cluster machine = machine_for(options, program.mesh());
  const sched::Estimate estimate = sched::estimate(plan, extents, machine);
  const auto row = [](const std::string& name, const sched::Moved& moved, double operations,
                      double us, std::string_view bound) {
    std::printf("%-32s %16.0f %16.0f %16.0f %14.4g  %s\n", name.c_str(), moved.all, moved.remote,
                operations, us / 1000, std::string(bound).c_str());
  };
  std::printf("\n%-32s %16s %16s %16s %14s  %s\n", "a rank", "bytes", "of peers", "operations",
              "predicted ms", "bound");
  sched::Moved all;
  double operations = 0;
  std::map<std::string_view, double> us_by_bound;
  for (std::size_t i = 0; i < work.steps.size(); ++i) {
    const sched::StepEstimate& step = estimate.steps[i];
    row(work.steps[i].name, traffic[i], work.steps[i].operations, step.total(), step.bound());
    all.all += traffic[i].all;
    all.remote += traffic[i].remote;
    operations += work.steps[i].operations;
    us_by_bound[step.bound()] += step.total();
  }
  const auto most =
      std::ranges::max_element(us_by_bound, {}, [](const auto& one) { return one.second; });
  if (work.steps.size() > 1) row("whole step", all, operations, estimate.us, most->first);
  std::string with;
  for (const auto& [name, extent] : extents)
    with += fmt::format("{}{} = {}", with.empty() ? "with " : ", ", name, extent);
  std::printf("%s%spredicted for %s\n", with.c_str(), with.empty() ? "" : "; ",
              machine.name.c_str());
  if (!estimate.problem.empty()) std::printf("it cannot run there: %s\n", estimate.problem.c_str());
}

/// The kernels as they are generated, without the prelude that goes before every one of them.
void show_source(const Program& program) {
  bool any = false;
  for (const jit::KernelText& kernel : jit::generate(sched::lower(*ir::graph_of(program)))) {
    std::string headers;
    for (const std::string& header : kernel.headers) headers += ", " + header;
    std::printf("%s// prelude: types.h, the target's half, common.h, ranks.h%s\n", any ? "\n" : "",
                headers.c_str());
    print_text(kernel.source);
    any = true;
  }
  if (!any) std::printf("// no kernel: every step is a collective of the library\n");
}

/// Bytes of the mailboxes of `step` on a GPU that runs as many blocks at once as they have room
/// for.
std::int64_t most_mailbox_bytes(const sched::Plan& plan, const sched::KernelStep& step) {
  const int ranks = plan.graph.mesh.axes()[step.axis].size;
  const int blocks =
      step.knobs.channels > 0 ? step.knobs.channels : jit::blocks_in_budget(plan, step, ranks);
  return jit::mailbox_bytes(plan, step, ranks, blocks);
}

/// What each kernel takes of a GPU, as the assembler for `arch` says.
void show_kernels(const Program& program, const std::string& arch) {
  const jit::Target& target = jit::target_of(arch);
  if (target.immediate)
    throw UsageError("--show kernels is of GPUs; --arch is an architecture such as sm_90.");
  const std::unique_ptr<jit::Compiler> compiler = target.make_compiler(arch, config(), 1);
  std::printf("%-32s %-8s %10s %14s %13s %13s %14s\n", "kernel", "arch", "registers",
              "shared bytes", "spilled bytes", "stack bytes", "mailbox bytes");
  const sched::Plan plan = sched::lower(*ir::graph_of(program));
  for (const sched::PlanStep& planned : plan.steps) {
    const auto* step = std::get_if<sched::KernelStep>(&planned);
    if (step == nullptr) continue;
    for (const jit::KernelResources& kernel :
         jit::BinaryRequest(*compiler, jit::generate(plan, *step), config()).compile().kernels) {
      std::printf("%-32s %-8s %10d %14d %13d %13d %14lld\n", step->name.c_str(), arch.c_str(),
                  kernel.registers, kernel.shared_bytes,
                  kernel.spill_store_bytes + kernel.spill_load_bytes, kernel.stack_bytes,
                  static_cast<long long>(most_mailbox_bytes(plan, *step)));
    }
  }
  std::printf(
      "registers, spills and stack are per thread, shared memory is per block, and mailboxes are "
      "per rank with as many blocks as there can be\n");
}

}  // namespace

int explain(const ExplainOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const Program program = resolved.program(resolved.ranks_to_plan_for(options.ranks));
  if (!options.spec.sizes.empty())
    (void)ir::resolve_sizes(*ir::graph_of(program), options.spec.sizes);
  const std::vector<Program> programs = resolved.schedule().apply(program);
  const Program planned = sched::with_knobs(programs.back(), config().knobs);
  if (options.show == "plan") {
    show_plan(planned, options);
  } else if (options.show == "source") {
    show_source(planned);
  } else if (options.show == "kernels") {
    const std::string& arch = options.arch.empty() ? config().arch : options.arch;
    show_kernels(planned, arch.empty() ? "sm_90" : arch);
  } else if (options.show == "dot") {
    print_text(dot(programs.front(), programs.back()));
  } else if (options.show == "svg") {
    print_text(svg(dot(programs.front(), programs.back())));
  } else {
    show_ir(resolved.schedule(), programs);
  }
  return exit_ok;
}

}  // namespace coconet::cli
