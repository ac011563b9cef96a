// `coconet doctor`: says what this machine offers, what is missing, what that turns off and how to
// get it.
#include <fmt/format.h>

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cli/cache_layers.h"
#include "cli/commands.h"
#include "cli/findings.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/cores.h"
#include "jit/config/build_info.h"
#include "jit/mpi/world.h"
#include "jit/platform/cuda/facts.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/host/compiler.h"
#include "jit/platform/host/process.h"
#include "jit/tune/tuning_file.h"

namespace coconet::cli {
namespace {

namespace fs = std::filesystem;

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

/// The first line that the compiler prints when asked for its version.
std::string version_of(const jit::HostCompiler& compiler, const Config& config) {
  const jit::Outcome outcome = jit::run_program(
      {.arguments = {compiler.path(), "--version"}, .timeout = config.compile_timeout});
  const std::string line = outcome.printed.substr(0, outcome.printed.find('\n'));
  return outcome.ok() && !outcome.printed.empty() ? line : "which does not tell its version";
}

/// The configuration, or nothing when a COCONET_* variable is malformed.
const Config* examine_config(Findings& findings) {
  try {
    return &config();
  } catch (const ConfigError& error) {
    findings.broken("environment", error.what(),
                    "set the variable to what it accepts, or unset it");
    return nullptr;
  }
}

void examine_host_compiler(const Config& config, Findings& findings) {
  const std::string cure = "install g++ or clang++ and name it with COCONET_CXX";
  try {
    const jit::HostCompiler compiler(config.cxx, config.cxx_flags, config.compile_timeout);
    const std::string function = "extern \"C\" int coconet_trial() { return 1; }\n";
    const std::string if_fused =
        "#if !defined(__FMA__) && !defined(__ARM_FEATURE_FMA)\n"
        "#error no fused multiply and add\n#endif\n";
    const bool is_fused = compiler.compile(if_fused + function).ok;
    if (!is_fused) {
      const auto trial = compiler.compile(function);
      if (!trial.ok) {
        findings.broken("host compiler",
                        compiler.path() + " cannot compile: " + trial.command + "\n" + trial.log,
                        cure);
        return;
      }
    }
    findings.here("host compiler", compiler.path() + ", " + version_of(compiler, config));
    const std::string isa = jit::HostCompiler::resolved_isa();
    const World self = World::self();
    findings.here("host kernels",
                  fmt::format("compiled for {}; a rank that is alone here spreads them over {} of "
                              "{} cores",
                              isa.substr(0, isa.find('\n')),
                              jit::agree_on_cores(jit::comm_of(self), config.cores).count,
                              std::thread::hardware_concurrency()));
    if (is_fused) {
      findings.here("host functions", "exp, log, sin and their like are vectors");
    } else {
      findings.below("host functions", "C's library computes them for one element at a time",
                     "exp, log, sin and their like take several times as long",
                     "name a processor with fused multiply and add in COCONET_CXXFLAGS, such as "
                     "-march=haswell, where this is one");
    }
  } catch (const Error& error) {
    findings.broken("host compiler", error.what(), cure);
  }
}

void examine_mpi(Findings& findings) {
  const std::string off = "no world of several processes; --world self and local:N remain";
  const jit::MpiFacts facts = jit::mpi_facts();
  if (!facts.built) {
    findings.missing("MPI", "this library was built without it", off,
                     "install libopenmpi-dev and openmpi-bin, then configure and build again");
    return;
  }
  if (const fs::path launcher = jit::find_program("mpirun"); !launcher.empty()) {
    findings.here("MPI", facts.version + ", " + launcher.string());
  } else {
    findings.missing("MPI", facts.version + ", and no mpirun on PATH", off,
                     "install openmpi-bin, or add it to PATH");
  }
}

void examine_nvrtc(Findings& findings) {
  if (jit::nvrtc::is_available()) {
    const std::vector<std::string> known = jit::nvrtc::architectures();
    findings.here("NVRTC",
                  jit::nvrtc::version() + ", " + jit::nvrtc::file() +
                      (known.empty() ? std::string()
                                     : ", compiles for " + known.front() + " to " + known.back()));
    return;
  }
  findings.missing(
      "NVRTC", jit::nvrtc::version(), "kernels are not compiled for GPUs",
      "install the CUDA toolkit, or pip install nvidia-cuda-nvrtc for the python3 on PATH, "
      "or name the directory of libnvrtc.so with COCONET_CUDA_PATH; the build needs nvrtc.h");
}

/// How kernels of one rank reach tensors of another.
void examine_peer_memory(const std::vector<jit::GpuFacts>& gpus, Findings& findings) {
  const auto lacking = std::ranges::find(gpus, false, &jit::GpuFacts::shares_memory);
  if (lacking == gpus.end()) {
    findings.here("peer memory",
                  "between threads by plain pointers, between processes by file descriptors");
    return;
  }
  findings.missing(
      "peer memory",
      fmt::format("GPU {} cannot share memory by file descriptors", lacking - gpus.begin()),
      "no fused kernels of several ranks on it; the schedule unfused remains",
      "use a bare Linux, or a container or virtual machine that passes the GPU through");
}

/// Whether a switch adds and copies for the kernels of several ranks.
void examine_multicast(const std::vector<jit::GpuFacts>& gpus, Findings& findings) {
  const auto lacking = std::ranges::find(gpus, false, &jit::GpuFacts::multicasts);
  if (lacking == gpus.end()) {
    findings.here("multicast", gpus.size() > 1
                                   ? "of all GPUs: the algorithm multimem runs with a rank a GPU"
                                   : "of the GPU: the algorithm multimem takes two or more");
    return;
  }
  findings.missing("multicast", fmt::format("GPU {} has none", lacking - gpus.begin()),
                   "no kernels with the algorithm multimem; direct, ring and tree remain",
                   "use GPUs of sm_90 or later that NVSwitches connect, and a driver of CUDA 12.1 "
                   "or later");
}

/// Returns whether kernels can run on some GPU.
bool examine_gpus(Findings& findings) {
  const std::string off = "no GPU is used; the host backend remains";
  const jit::DriverFacts driver = jit::driver_facts();
  if (driver.version.empty()) {
    findings.missing(
        "CUDA driver", driver.problem, off,
        "install NVIDIA's driver (libcuda.so.1); in a container, start it with --gpus all");
    return false;
  }
  bool loads = false;
  const std::string nvrtc = jit::nvrtc::is_available() ? jit::nvrtc::version() : "";
  if (!nvrtc.empty() && driver.major < std::atoi(nvrtc.c_str())) {
    const std::string major = std::to_string(driver.major);
    findings.missing(
        "CUDA driver", driver.version + ", which cannot load what NVRTC " + nvrtc + " makes", off,
        "install a newer driver, or pip install nvidia-cuda-nvrtc-cu" + major +
            " and name the directory of its libnvrtc.so." + major + " with COCONET_CUDA_PATH");
  } else if (!driver.problem.empty()) {
    findings.missing("CUDA driver", driver.version + "; " + driver.problem, off,
                     "install a newer driver");
  } else {
    findings.here("CUDA driver", driver.version + ", " + driver.file);
    loads = jit::nvrtc::is_available();
  }
  bool usable = false;
  for (const jit::GpuFacts& gpu : driver.gpus) {
    const jit::nvrtc::Target target = jit::nvrtc::target_for(gpu.arch);
    const std::string told = gpu.description + (target.why.empty() ? "" : "; NVRTC " + target.why);
    if (target.arch.empty() && !gpu.arch.empty()) {
      findings.missing("GPU", told, "this GPU is not used",
                       "name the directory of another libnvrtc with COCONET_CUDA_PATH");
    } else {
      findings.here("GPU", told);
      usable = loads;
    }
  }
  if (!driver.gpus.empty()) {
    examine_peer_memory(driver.gpus, findings);
    examine_multicast(driver.gpus, findings);
  } else if (driver.problem.empty()) {
    findings.missing("GPU", driver.no_gpu, off, "check CUDA_VISIBLE_DEVICES and nvidia-smi");
  }
  return usable;
}

void examine_library(const char* name, const jit::LibraryFacts& facts, const std::string& off,
                     const std::string& cure, Findings& findings) {
  if (facts.problem.empty()) {
    findings.here(name, facts.version + ", " + facts.file);
  } else {
    findings.missing(name, facts.problem, off, cure);
  }
}

void examine_cuda_libraries(Findings& findings) {
  examine_library("NCCL", jit::nccl_facts(),
                  "no library collectives on GPUs; on the host MPI's are used",
                  "install libnccl2, or pip install nvidia-nccl-cu13 (-cu12 for CUDA 12) for the "
                  "python3 on PATH, or name the directory of libnccl.so.2 with COCONET_CUDA_PATH",
                  findings);
  examine_library("cuBLASLt", jit::cublas_facts(), "programs with matmuls do not run on GPUs",
                  "install the CUDA toolkit, or pip install nvidia-cublas for the python3 on PATH, "
                  "or name the directory of libcublasLt.so with COCONET_CUDA_PATH",
                  findings);
}

/// The directories that are only read.
void examine_cache_path(const std::vector<Layer>& layers, Findings& findings) {
  for (const Layer& layer : layers) {
    if (!layer.read_only) continue;
    const std::string off = "kernels that it may have are compiled here";
    if (!layer.problem.empty()) {
      findings.missing("cache to read", layer.problem, off,
                       "mend that, or take it out of COCONET_CACHE_PATH");
    } else if (!layer.directory) {
      findings.missing("cache to read", "there is no directory " + layer.path.string(), off,
                       "make it, or take it out of COCONET_CACHE_PATH");
    } else {
      findings.here("cache to read", layer.path.string());
    }
  }
}

void examine_cache(const Config& config, Findings& findings) {
  const std::string off = "every process compiles its kernels anew";
  const std::string where = config.cache_dir.string();
  if (config.cache == "off") {
    findings.missing("cache", "switched off by COCONET_CACHE=off", off, "unset COCONET_CACHE");
    return;
  }
  const std::vector<Layer> layers = cache_layers();
  if (where.empty()) {
    findings.missing("cache",
                     "none of COCONET_CACHE_DIR, XDG_CACHE_HOME and HOME names a directory", off,
                     "name a writable directory with COCONET_CACHE_DIR");
    examine_cache_path(layers, findings);
    return;
  }
  std::error_code ignored;
  fs::path existing = config.cache_dir;
  while (!existing.empty() && !fs::exists(existing, ignored) &&
         existing != existing.parent_path()) {
    existing = existing.parent_path();
  }
  const bool there = existing == config.cache_dir;
  const bool writable =
      fs::is_directory(existing, ignored) && access(existing.c_str(), W_OK | X_OK) == 0;
  if (!layers.front().problem.empty()) {
    findings.missing("cache", layers.front().problem, off,
                     "mend that, or name another directory with COCONET_CACHE_DIR");
  } else if (!writable && !(there && config.cache == "ro")) {
    findings.missing(
        "cache",
        where + (there ? " is not writable"
                       : " cannot be made: " + existing.string() + " is not a writable directory"),
        off, "name a writable directory with COCONET_CACHE_DIR");
  } else {
    findings.here("cache", where + (there ? "" : ", made when needed") +
                               (config.cache == "ro" ? ", read only" : ""));
  }
  examine_cache_path(layers, findings);
}

void examine_tuning(const Config& config, Findings& findings) {
  const std::string where = config.tune_file.string();
  try {
    const World self = World::self();
    const jit::TuningFile file =
        jit::read_tuning(jit::comm_of(self), jit::platform_of(jit::comm_of(self)), config);
    if (!file.problem.empty()) {
      findings.missing("tuning", fmt::format("{} is ignored: {}", where, file.problem),
                       "what was tuned",
                       "mend or remove the file, or name another with COCONET_TUNE_FILE");
      return;
    }
    if (file.machines.empty() && file.programs.empty()) {
      findings.missing("tuning", "nothing was measured here, or it is not in " + where,
                       "what is predicted, and how collectives choose their way, is by figures of "
                       "another machine",
                       "mpirun -n 2 coconet calibrate, and coconet tune PROGRAM");
      return;
    }
    std::vector<int> ranks;
    for (const auto& [count, machine] : file.machines) ranks.push_back(count);
    findings.here("tuning", fmt::format("{}: measured with {} ranks, {} programs tuned", where,
                                        fmt::join(ranks, ", "), file.programs.size()));
  } catch (const Error& error) {
    findings.missing("tuning", error.what(), "what was tuned",
                     "make the backend work, as is said of it above");
  }
}

void examine_shared_memory(Findings& findings) {
  struct statvfs facts {};
  if (statvfs("/dev/shm", &facts) != 0) {
    findings.missing("shared memory", "there is no /dev/shm",
                     "ranks of an MPI world may get no memory in common",
                     "mount a tmpfs at /dev/shm");
    return;
  }
  const std::uint64_t total = std::uint64_t{facts.f_blocks} * facts.f_frsize;
  const std::uint64_t free = std::uint64_t{facts.f_bavail} * facts.f_frsize;
  const std::string fact = "/dev/shm has " + gigabytes(total) + ", " + gigabytes(free) + " free";
  // A container's default is 64 MiB: not enough for Adam on 2^20 f32 parameters and 8 ranks.
  if (free < (std::uint64_t{256} << 20)) {
    findings.missing(
        "shared memory", fact, "larger programs fail under mpirun, whose ranks share memory there",
        "mount -o remount,size=8G /dev/shm; for a container, start it with --shm-size=8g");
    return;
  }
  findings.here("shared memory", fact);
}

void list_environment() {
  bool any = false;
  for (const ConfigVariable& variable : config_variables()) {
    const std::string name(variable.name);
    const char* value = std::getenv(name.c_str());
    if (!value) continue;
    std::printf("%s  %s=%s\n", any ? "" : "COCONET_* variables set:\n", name.c_str(), value);
    any = true;
  }
  if (!any) std::printf("no COCONET_* variable is set\n");
}

}  // namespace

int doctor() {
  std::printf("coconet %s\n", std::string(jit::build_info::version).c_str());
  Findings findings;
  const Config* const config = examine_config(findings);
  if (config != nullptr) {
    examine_host_compiler(*config, findings);
    examine_cache(*config, findings);
    examine_tuning(*config, findings);
  }
  examine_shared_memory(findings);
  examine_mpi(findings);
  examine_matmuls(findings);
  bool gpus = false;
  if (config != nullptr) {
    examine_nvrtc(findings);
    gpus = examine_gpus(findings);
    examine_cuda_libraries(findings);
  }
  list_environment();
  std::printf("%s\n",
              findings.works() ? "The host path works." : "The host path does not work: see [!!].");
  std::printf("%s\n", gpus ? "The GPU path works, with COCONET_BACKEND=cuda."
                           : "The GPU path is off: see [--].");
  return findings.works() ? exit_ok : exit_failure;
}

}  // namespace coconet::cli
