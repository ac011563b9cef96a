// Kernels are the same text for all targets: here they get the CUDA half of the prelude. Many go
// into one compilation, each in a namespace of its own.
#include "jit/platform/gpu_kernels.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "jit/kernels/kernel_unit.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/forked_jobs.h"
#include "sample.h"
#include "sched/plan.h"
#include "shipped.h"

namespace coconet::test {

namespace {

constexpr int skipped = 77;  // what tests/CMakeLists.txt takes for "skipped"
// More at a time make NVRTC slower than linear; fewer repeat the prelude.
constexpr std::size_t kernels_in_a_compilation = 2;

bool is_part_of_word(char c) {
  return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// Hands `text` to `put` in pieces: words, which begin with a letter, numbers, which begin with a
/// digit, and single others.
template <class Put>
void split(std::string_view text, const Put& put) {
  while (!text.empty()) {
    std::size_t length = 1;
    while (is_part_of_word(text[0]) && length < text.size() && is_part_of_word(text[length]))
      ++length;
    put(text.substr(0, length));
    text.remove_prefix(length);
  }
}

/// `text` without its comments, all of which start with two slashes.
std::string without_comments(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find("//")));
    if (line.find_first_not_of(' ') != std::string::npos) code += line + "\n";
  }
  return code;
}

const std::set<std::string, std::less<>>& words_of_prelude() {
  static const std::set<std::string, std::less<>> words = [] {
    std::set<std::string, std::less<>> found;
    split(without_comments(unit_with_all_headers("cuda").source()),
          [&](std::string_view piece) { found.emplace(piece); });
    return found;
  }();
  return words;
}

struct Unit {
  jit::KernelBatch batch = unit_with_all_headers("cuda");
  std::map<std::string, GpuKernel> kernels;  ///< by entry point

  void add(const GpuKernel& kernel) {
    batch.add(kernel.text, name_of(kernel.text));
    kernels[batch.entries().back()] = kernel;
  }
};

std::vector<Unit> make_units(const GpuKernels& kernels, std::size_t in_a_compilation) {
  std::vector<Unit> units;
  for (const auto& [key, kernel] : kernels) {
    if (units.empty() || units.back().kernels.size() == in_a_compilation) units.emplace_back();
    units.back().add(kernel);
  }
  return units;
}

/// The log without its warnings, which are about parts of the prelude that a kernel does not use.
std::string errors_in(const std::string& log) {
  std::string errors;
  bool wanted = false;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("kernel.cu(")) wanted = line.find(" error") != std::string::npos;
    if (wanted) errors += line + "\n";
  }
  return errors;
}

/// What is wrong with `unit` on `architecture`, and what `inspect` says of its binary.
std::string fault_of(const Unit& unit, const char* architecture, const Inspection& inspect) {
  const jit::CompileResult result = jit::NvrtcCompiler(architecture).compile(unit.batch.source());
  if (!result.ok)
    return errors_in(result.log) + architecture + ", one of: " + unit.kernels.begin()->second.from +
           " ...\n";
  std::string faults;
  GpuBinary binary{architecture, result.binary, unit.kernels, {}};
  for (const jit::KernelResources& kernel : result.kernels) {
    binary.resources[kernel.entry] = kernel;
    if (kernel.spill_store_bytes == 0 && kernel.spill_load_bytes == 0) continue;
    faults += kernel.entry + " spills " + std::to_string(kernel.spill_store_bytes) + " bytes on " +
              architecture + ": " + unit.kernels.at(kernel.entry).from + "\n";
  }
  for (const auto& [entry, kernel] : unit.kernels) {
    if (!binary.resources.contains(entry))
      faults += entry + " is not in the cubin: " + kernel.from + "\n";
  }
  return inspect ? faults + inspect(binary) : faults;
}

}  // namespace

void add_kernels(const Program& program, const Schedule& schedule, GpuKernels& kernels) {
  const sched::Plan plan = sched::lower(*ir::graph_of(schedule.apply(program).back()));
  for (const sched::PlanStep& step : plan.steps) {
    const auto* kernel = std::get_if<sched::KernelStep>(&step);
    if (kernel == nullptr) continue;
    const std::string text = kernel_in("\n" + jit::generate(plan, *kernel).source);
    kernels.try_emplace(
        without_names(text),
        GpuKernel{text,
                  program.name() + " under " + schedule.name() + " in " +
                      std::string(to_string(ir::graph_of(program)->nodes().front().dtype)),
                  std::ranges::any_of(plan.graph.at(kernel->domain).shape, &Dim::symbolic)});
  }
}

std::string name_of(const std::string& text) {
  const std::string mark = "KERNEL_ENTRY(";
  const std::size_t begin = text.rfind(mark) + mark.size();
  return text.substr(begin, text.find(')', begin) - begin);
}

std::string kernel_in(const std::string& source) {
  const std::size_t at = source.rfind("\n// kernel ");  // NAME of program ...
  return at == std::string::npos ? "" : without_comments(source.substr(at));
}

std::string without_names(const std::string& text) {
  std::string key;
  std::map<std::string, std::string, std::less<>> numbered;
  split(text, [&](std::string_view piece) {
    const bool own = std::isdigit(static_cast<unsigned char>(piece[0])) == 0 &&
                     is_part_of_word(piece[0]) && !words_of_prelude().contains(piece);
    if (!own) {
      key += piece;
      return;
    }
    const auto [at, is_new] = numbered.try_emplace(std::string(piece));
    if (is_new) at->second = "?n" + std::to_string(numbered.size());
    key += at->second;
  });
  return key;
}

std::string without_numbers(const std::string& text) {
  std::string key;
  split(without_names(text), [&](std::string_view piece) {
    if (std::isdigit(static_cast<unsigned char>(piece[0])) != 0) piece = "#";
    key += piece;
  });
  return key;
}

GpuKernels shipped_kernels() {
  GpuKernels kernels;
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const std::string_view schedule : shipped.schedules) {
      for (const programs::Precision& precision : shipped.precisions) {
        for (const auto build : {shipped.build, shipped.scattered}) {
          if (build == nullptr) continue;
          add_kernels(build(shipped.mesh(8), precision), shipped_schedule(shipped, schedule),
                      kernels);
        }
      }
    }
  }
  // Other master weights than copies: with one pass, and with two.
  using programs::MasterWeights;
  using programs::Storage;
  for (const char* name : {"adamw", "lamb"}) {
    const programs::Shipped& shipped = *programs::find(name);
    for (const std::string_view schedule : shipped.schedules) {
      for (const MasterWeights kept : {MasterWeights::remainders, MasterWeights::none}) {
        for (const Storage storage : {Storage::whole, Storage::scattered}) {
          add_kernels(
              shipped.with(shipped.mesh(8), programs::mixed(DType::bf16, kept), {}, storage, {}),
              shipped_schedule(shipped, schedule), kernels);
        }
      }
    }
  }
  return kernels;
}

void require_nvrtc() {
  if (jit::nvrtc::is_available()) return;
  std::cout << "skipped: NVRTC not available: " << jit::nvrtc::version() << std::endl;
  std::exit(skipped);
}

std::vector<std::string> faults_of(const GpuKernels& kernels, Architectures which,
                                   const Inspection& inspect) {
  // What is looked at is compiled alone: registers depend on the kernels beside it.
  const std::vector<Unit> units = make_units(kernels, inspect ? 1 : kernels_in_a_compilation);
  std::vector<std::pair<const Unit*, const char*>> jobs;
  for (const Unit& unit : units) {
    if (which == Architectures::all) {
      for (const char* architecture : gpu_architectures) jobs.emplace_back(&unit, architecture);
    } else {
      jobs.emplace_back(&unit,
                        gpu_architectures[(seed() + jobs.size()) % std::size(gpu_architectures)]);
    }
  }
  return run_forked(jobs.size(), 2, [&](std::size_t job) {
    return fault_of(*jobs[job].first, jobs[job].second, inspect);
  });
}

}  // namespace coconet::test
