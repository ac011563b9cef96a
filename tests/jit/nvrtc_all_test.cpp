// Every kernel of the shipped programs compiles under NVRTC for the architectures we support, and spills nothing; and so
// does every kernel that any test emitted, for one of them in turn, as there are thousands.
//
// The tests leave complete sources in COCONET_DUMP_DIR. Their kernels are the same text for all
// targets: here they get the CUDA half of the prelude. Many go into one compilation, each in a
// namespace of its own.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coconet/coconet.h"
#include "jit/codegen/codegen.h"
#include "jit/compile/nvrtc.h"
#include "jit/kernel_unit.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;

namespace {

namespace fs = std::filesystem;

constexpr int skipped = 77;  // what tests/CMakeLists.txt takes for "skipped"
constexpr const char* architectures[] = {"sm_80", "sm_90", "sm_100", "sm_120"};
constexpr std::size_t kernels_in_a_compilation = 32;

/// Where kernels come from, by their text without prelude and comments: one of those that are equal
/// otherwise.
using Texts = std::map<std::string, std::string>;

/// The kernel after the prelude, from its line "// kernel NAME of program ..." on; empty when there
/// is none.
std::string kernel_part(const std::string& source) {
  const std::size_t at = source.rfind("\n// kernel ");
  return at == std::string::npos ? "" : source.substr(at + 1);
}

/// `text` without its comments, all of which start with two slashes.
std::string code_of(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find("//")));
    if (line.find_first_not_of(' ') != std::string::npos) code += line + "\n";
  }
  return code;
}

/// NAME of the line KERNEL_ENTRY(NAME).
std::string name_of(const std::string& code) {
  const std::string mark = "KERNEL_ENTRY(";
  const std::size_t begin = code.rfind(mark) + mark.size();
  return code.substr(begin, code.find(')', begin) - begin);
}

/// Those that are not among `known`.
void add_dumped(const Texts& known, Texts& texts) {
  const char* directory = std::getenv("COCONET_DUMP_DIR");
  if (directory == nullptr || !fs::is_directory(directory)) return;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".cu") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text = kernel_part({std::istreambuf_iterator<char>(file), {}});
    if (text.empty()) continue;
    std::string code = code_of(text);
    if (!known.contains(code)) texts.emplace(std::move(code), entry.path().string());
  }
}

/// The kernels of `program` under the schedule of `file`.
void add_kernels(const Program& program, const std::string& file, Texts& texts) {
  const sched::Plan plan = sched::lower(*Schedule::load(file).apply(program).back().graph());
  for (const sched::PlanStep& step : plan.steps) {
    const auto* kernel = std::get_if<sched::KernelStep>(&step);
    if (kernel == nullptr) continue;
    texts.emplace(code_of(jit::generate(plan, *kernel).source),
                  program.name() + " under " + file + " in " +
                      std::string(to_string(program.graph()->nodes.front().dtype)));
  }
}

void add_shipped(Texts& texts) {
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const std::string_view schedule : shipped.schedules) {
      for (const DType dtype : shipped.dtypes) {
        for (const auto build : {shipped.build, shipped.scattered}) {
          if (build == nullptr) continue;
          add_kernels(build(shipped.mesh(8), dtype),
                      std::string(shipped.name) + "-" + std::string(schedule) + ".json", texts);
        }
      }
    }
  }
}

struct Unit {
  KernelUnit kernels{"cuda"};
  std::map<std::string, std::string> from;  ///< by entry point
};

std::vector<Unit> make_units(const Texts& texts) {
  std::vector<Unit> units;
  for (const auto& [text, from] : texts) {
    if (units.empty() || units.back().from.size() == kernels_in_a_compilation) units.emplace_back();
    units.back().kernels.add(text, name_of(text));
    units.back().from[units.back().kernels.entries().back()] = from;
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

/// What is wrong with `unit` on `architecture`; empty when all is well.
std::string fault_of(const Unit& unit, const char* architecture) {
  const jit::CompileResult result = jit::NvrtcCompiler(architecture).compile(unit.kernels.source());
  if (!result.ok)
    return errors_in(result.log) + architecture + ", one of: " + unit.from.begin()->second +
           " ...\n";
  std::string faults;
  std::set<std::string> seen;
  for (const jit::KernelResources& kernel : result.kernels) {
    seen.insert(kernel.entry);
    if (kernel.spill_store_bytes == 0 && kernel.spill_load_bytes == 0) continue;
    faults += kernel.entry + " spills " + std::to_string(kernel.spill_store_bytes) + " bytes on " +
              architecture + ": " + unit.from.at(kernel.entry) + "\n";
  }
  for (const auto& [entry, from] : unit.from) {
    if (!seen.contains(entry)) faults += entry + " is not in the cubin: " + from + "\n";
  }
  return faults;
}

}  // namespace

TEST_CASE("every kernel that tests emit compiles and spills nothing") {
  if (!jit::nvrtc::is_available()) {
    std::cout << "skipped: NVRTC not available: " << jit::nvrtc::version() << std::endl;
    std::exit(skipped);
  }
  Texts shipped;
  Texts dumped;
  add_shipped(shipped);
  add_dumped(shipped, dumped);
  const std::vector<Unit> for_all = make_units(shipped);
  const std::vector<Unit> for_one = make_units(dumped);
  std::vector<std::pair<const Unit*, const char*>> jobs;
  for (const Unit& unit : for_all) {
    for (const char* architecture : architectures) jobs.emplace_back(&unit, architecture);
  }
  for (const Unit& unit : for_one)
    jobs.emplace_back(&unit, architectures[jobs.size() % std::size(architectures)]);

  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> faults;
  const auto work = [&] {
    for (std::size_t job = next++; job < jobs.size(); job = next++) {
      std::string fault = fault_of(*jobs[job].first, jobs[job].second);
      const std::lock_guard lock(mutex);
      if (!fault.empty()) faults.push_back(std::move(fault));
    }
  };
  std::thread other(work);
  work();
  other.join();
  for (const std::string& fault : faults) UNSCOPED_INFO(fault);
  CHECK(faults.empty());
  std::cout << shipped.size() << " kernels compiled with NVRTC " << jit::nvrtc::version()
            << " for sm_80, sm_90, sm_100 and sm_120, " << dumped.size() << " for one of them"
            << std::endl;
}
