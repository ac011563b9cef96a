// NVRTC behind a table of functions, found at run time.
#include "jit/platform/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <sstream>

#include "coconet/error.h"
#include "jit/platform/platform.h"
#include "jit/platform/shared_library.h"

namespace coconet::jit {
namespace {

// The prelude is C++20, which NVRTC takes from 12.0 on.
constexpr int least_major = 12;

// The oldest whose loads acquire and whose stores release.
constexpr int least_arch = 70;

// compute_90 is what sm_90 can do, as PTX.
constexpr std::string_view virtual_prefix = "compute_";

bool is_ptx(std::string_view arch) {
  return arch.starts_with(virtual_prefix);
}

#define COCONET_NVRTC_FUNCTIONS(FUNCTION)                 \
  FUNCTION(get_version, nvrtcVersion)                     \
  FUNCTION(error_string, nvrtcGetErrorString)             \
  FUNCTION(create_program, nvrtcCreateProgram)            \
  FUNCTION(destroy_program, nvrtcDestroyProgram)          \
  FUNCTION(compile_program, nvrtcCompileProgram)          \
  FUNCTION(log_size, nvrtcGetProgramLogSize)              \
  FUNCTION(log, nvrtcGetProgramLog)                       \
  FUNCTION(cubin_size, nvrtcGetCUBINSize)                 \
  FUNCTION(cubin, nvrtcGetCUBIN)                          \
  FUNCTION(ptx_size, nvrtcGetPTXSize)                     \
  FUNCTION(ptx, nvrtcGetPTX)                              \
  FUNCTION(architecture_count, nvrtcGetNumSupportedArchs) \
  FUNCTION(architectures, nvrtcGetSupportedArchs)

COCONET_FUNCTION_TABLE(NvrtcFunctions, COCONET_NVRTC_FUNCTIONS);

struct Library : NvrtcFunctions {
  int major = 0;
  int minor = 0;
  std::filesystem::path file;  ///< that it was loaded from
  std::string unavailable;     ///< why the table is not whole, or NVRTC too old; or empty
  [[nodiscard]] std::string version() const { return fmt::format("{}.{}", major, minor); }
};

// The file that is loaded, and keys NVRTC's identity; empty when only the system's loader knows.
const std::filesystem::path& located() {
  static const std::filesystem::path file = [] {
    std::error_code error;
    const auto found = locate_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
    return found.empty() ? found : std::filesystem::canonical(found, error);
  }();
  return file;
}

Library load_nvrtc() {
  Library nvrtc;
  const char* const first = located().empty() ? "libnvrtc.so.13" : located().c_str();
  const SharedLibrary file({first, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  nvrtc.unavailable = find_functions<NvrtcFunctions>(nvrtc, file, "libnvrtc");
  if (nvrtc.unavailable.empty() &&
      (nvrtc.get_version(&nvrtc.major, &nvrtc.minor) != NVRTC_SUCCESS ||
       nvrtc.major < least_major)) {
    nvrtc.unavailable = "libnvrtc is " + nvrtc.version() + ", and 12.0 or later is needed";
  }
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(nvrtc.get_version), &info) != 0)
    nvrtc.file = std::filesystem::canonical(info.dli_fname, error);
  return nvrtc;
}

const Library& library() {
  static const Library loaded = load_nvrtc();
  return loaded;
}

const Library& require_library() {
  if (const std::string& problem = library().unavailable; !problem.empty())
    throw CompileError("NVRTC is not available: " + problem + ".");
  return library();
}

using Program = std::shared_ptr<_nvrtcProgram>;

Program make_program(const Library& nvrtc, std::string_view source) {
  nvrtcProgram made = nullptr;
  const nvrtcResult result =
      nvrtc.create_program(&made, std::string(source).c_str(), "kernel.cu", 0, nullptr, nullptr);
  if (result == NVRTC_SUCCESS)
    return {made, [&nvrtc](nvrtcProgram program) { nvrtc.destroy_program(&program); }};
  throw CompileError(
      fmt::format("NVRTC cannot start on a program: {}.", nvrtc.error_string(result)));
}

// What two NVRTC functions, for a size and for the bytes, give; empty when they fail.
template <class Size, class Bytes>
std::string fetch(const Program& program, Size size_of, Bytes bytes_of) {
  std::size_t size = 0;
  if (size_of(program.get(), &size) != NVRTC_SUCCESS) return {};
  std::string bytes(size, '\0');
  return bytes_of(program.get(), bytes.data()) == NVRTC_SUCCESS ? bytes : std::string();
}

// The number before `unit`, as in "96 bytes stack frame"; 0 when there is none.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  const std::size_t begin = line.substr(0, at).find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  int number = 0;
  std::from_chars(line.data() + begin, line.data() + at, number);
  return number;
}

// NVRTC tells its build only in the comments at the start of every PTX.
std::string build_of(const Library& nvrtc) {
  const Program program = make_program(nvrtc, "extern \"C\" __global__ void empty() {}");
  if (nvrtc.compile_program(program.get(), 0, nullptr) != NVRTC_SUCCESS) return {};
  std::istringstream ptx(fetch(program, nvrtc.ptx_size, nvrtc.ptx));
  std::string build;
  for (std::string line; std::getline(ptx, line) && line.starts_with("//");) {
    if (const std::size_t text = line.find_first_not_of("/ "); text != std::string::npos)
      build += line.substr(text) + "\n";
  }
  return build;
}

std::string identify() {
  const Library& nvrtc = require_library();
  std::string build = build_of(nvrtc);
  if (build.empty()) build = "file " + sha256_of_file(nvrtc.file) + "\n";
  return fmt::format("NVRTC {}\n{}", nvrtc.version(), build);
}

// What `ask` answers about NVRTC, which is loaded only for what the kernel cache does not remember:
// of the file that is found first, if that is the one that is loaded.
template <class Ask>
std::string remembered(std::string_view what, const Ask& ask) {
  struct Another {};
  try {
    if (located().empty()) return ask();
    return remembered_of(located(), what, [&] {
      if (library().unavailable.empty() && library().file != located()) throw Another();
      return ask();
    });
  } catch (const Another&) {
    return ask();
  }
}

// Counts the changes of how `compile` bounds registers, which decides what a kernel's binary is.
constexpr std::string_view bounds = "register bounds 1\n";

// Version and build, the same on all machines with this NVRTC.
const std::string& identity() {
  static const std::string text = remembered("NVRTC", identify);
  return text;
}

// "75 80 90": the numbers of the architectures, ascending.
const std::string& known_numbers() {
  static const std::string text = remembered("architectures of NVRTC", [] {
    const Library& nvrtc = require_library();
    int count = 0;
    if (nvrtc.architecture_count(&count) != NVRTC_SUCCESS) return std::string();
    std::vector<int> numbers(count);
    if (nvrtc.architectures(numbers.data()) != NVRTC_SUCCESS) return std::string();
    std::ranges::sort(numbers);
    return fmt::format("{}", fmt::join(numbers, " "));
  });
  return text;
}

// 103 of "sm_103"; -1 where it is no such name.
int number_of(std::string_view arch) {
  int number = -1;
  if (arch.starts_with("sm_")) std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}

void require_known(std::string_view arch) {
  const std::vector<std::string> known = nvrtc::architectures();
  // sm_90a and sm_100f are variants of the architecture that their number names.
  const std::size_t length = arch.find_last_of("0123456789") + 1;
  std::string plain(arch.substr(0, length));
  if (is_ptx(arch)) plain.replace(0, virtual_prefix.size(), "sm_");
  if (arch.size() <= length + 1 && std::ranges::find(known, plain) != known.end()) return;
  throw CompileError(fmt::format("NVRTC {} does not know the architecture '{}'; it knows {}.",
                                 nvrtc::version(), arch, fmt::join(known, ", ")));
}

// CUDA's occupancy formula (cuda_occupancy.h) for compute capabilities 5.0 to 12.x, as far as it is
// about registers: each quarter of a multiprocessor has 16384, and gives them to warps by 256.
constexpr int warps_at_once(int registers) {
  constexpr int quarters = 4, of_quarter = 16384, unit = 256, lanes = 32;
  return of_quarter / ((registers * lanes + unit - 1) / unit * unit) * quarters;
}
constexpr int warps_of_block = default_threads / 32;

// ptxas reports, for each kernel,
//   ptxas info    : Compiling entry function 'adam' for 'sm_90'
//   ptxas info    : Function properties for adam
//   ptxas         .     96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 48 registers, used 0 barriers, 96 bytes cumulative stack size
// Functions that were not inlined have properties too; they count with the kernel that they follow.
std::vector<KernelResources> resources_in(std::string_view log) {
  std::vector<KernelResources> kernels;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (line.find("Compiling entry function '") != std::string_view::npos) {
      const std::string_view quoted = line.substr(line.find('\'') + 1);
      kernels.push_back({.entry = std::string(quoted.substr(0, quoted.find('\'')))});
    }
    if (kernels.empty()) continue;
    KernelResources& kernel = kernels.back();
    kernel.registers = std::max(kernel.registers, number_before(line, " registers"));
    kernel.stack_bytes += number_before(line, " bytes stack frame");
    kernel.spill_store_bytes += number_before(line, " bytes spill stores");
    kernel.spill_load_bytes += number_before(line, " bytes spill loads");
    kernel.shared_bytes = std::max(kernel.shared_bytes, number_before(line, " bytes smem"));
  }
  return kernels;
}

CompileResult compile_once(const Library& nvrtc, std::string_view source,
                           const std::vector<std::string>& options, const std::string& arch) {
  const Program program = make_program(nvrtc, source);
  CompileResult result;
  std::vector<const char*> given;
  result.command = "nvrtc";
  for (const std::string& option : options) {
    given.push_back(option.c_str());
    result.command += " " + option;
  }
  const nvrtcResult compiled =
      nvrtc.compile_program(program.get(), static_cast<int>(given.size()), given.data());

  result.log = fetch(program, nvrtc.log_size, nvrtc.log);
  if (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  result.kernels = resources_in(result.log);
  if (compiled == NVRTC_SUCCESS) {
    result.binary = is_ptx(arch) ? fetch(program, nvrtc.ptx_size, nvrtc.ptx)
                                 : fetch(program, nvrtc.cubin_size, nvrtc.cubin);
  }
  result.ok = !result.binary.empty();
  if (!result.ok) result.log += "NVRTC for " + arch + ": " + nvrtc.error_string(compiled);
  return result;
}

bool keeps_in_registers(const CompileResult& bounded, const CompileResult& free) {
  if (!bounded.ok || bounded.kernels.size() != 1) return false;
  const KernelResources& kernel = bounded.kernels.front();
  return kernel.spill_store_bytes == 0 && kernel.spill_load_bytes == 0 &&
         kernel.stack_bytes <= free.kernels.front().stack_bytes;
}

}  // namespace

int nvrtc::register_bound(int registers) {
  constexpr int enough_warps = 32;  // of 64; more hide no latency that these do not
  constexpr int few = 8;            // one of so many is given up, at most
  if (registers <= 0) return 0;     // not reported
  const int warps = warps_at_once(registers);
  if (warps >= enough_warps) return 0;
  int bound = registers;
  while (bound > 0 && warps_at_once(bound) / warps_of_block == warps / warps_of_block) --bound;
  return (registers - bound) * few <= registers ? bound : 0;
}

bool nvrtc::is_available() {
  return library().unavailable.empty();
}

std::string nvrtc::version() {
  const Library& nvrtc = library();
  return nvrtc.unavailable.empty() ? nvrtc.version() : nvrtc.unavailable;
}

std::string nvrtc::file() {
  return library().file.string();
}

std::vector<std::string> nvrtc::architectures() {
  std::vector<std::string> names;
  try {
    std::istringstream words(known_numbers());
    for (int number = 0; words >> number;) names.push_back("sm_" + std::to_string(number));
  } catch (const CompileError&) {  // there is no NVRTC
  }
  return names;
}

// A GPU runs binaries for its own architecture and for older ones of the same major number, and the
// driver compiles PTX of any older one.
nvrtc::Target nvrtc::target_for(std::string_view arch, const std::vector<std::string>& known) {
  const int wanted = number_of(arch);
  int best = -1;
  for (const std::string& name : known) {
    if (const int number = number_of(name); number <= wanted) best = std::max(best, number);
  }
  if (known.empty() || best == wanted) return {.arch = std::string(arch), .why = {}};
  if (best < 0) {
    return {.arch = {},
            .why = fmt::format("compiles for {} and newer; {}", known.front(),
                               wanted >= least_arch
                                   ? "that of CUDA 12 compiles for it: pip install "
                                     "nvidia-cuda-nvrtc-cu12 and name the directory of its "
                                     "libnvrtc.so.12 with COCONET_CUDA_PATH"
                                   : fmt::format("kernels need sm_{} or newer", least_arch))};
  }
  if (best / 10 == wanted / 10) {
    return {.arch = fmt::format("sm_{}", best),
            .why = fmt::format("does not know {}; kernels are those for sm_{}", arch, best)};
  }
  return {.arch = fmt::format("{}{}", virtual_prefix, best),
          .why = fmt::format("does not know {}; kernels are PTX for compute_{}, which the driver "
                             "compiles when it loads them",
                             arch, best)};
}

NvrtcCompiler::NvrtcCompiler(std::string_view arch, bool line_info, int ranks) {
  // No contraction: every schedule and every target must give the same bits. Lambdas are functions
  // of the host unless the device is the default.
  facts_.target = "cuda";
  facts_.options = {"--gpu-architecture=" + std::string(arch),
                    "--std=c++20",
                    "--device-as-default-execution-space",
                    "--fmad=false",
                    "--ptxas-options=-v",
                    "--define-macro=RANKS_PER_LAUNCH=" + std::to_string(ranks)};
  if (line_info) facts_.options.emplace_back("--generate-line-info");
  facts_.identity = identity() + std::string(bounds);
  facts_.arch = arch;
  facts_.abi = is_ptx(arch) ? "ptx" : "cubin";
}

CompileResult NvrtcCompiler::compile(std::string_view source, std::chrono::milliseconds) const {
  const Library& nvrtc = require_library();
  if (nvrtc.file != located() && identify() != identity())
    throw CompileError("NVRTC in '" + located().string() + "' does not load any more.");
  require_known(facts_.arch);
  CompileResult free = compile_once(nvrtc, source, facts_.options, facts_.arch);
  const int bound =
      free.kernels.size() == 1 ? nvrtc::register_bound(free.kernels.front().registers) : 0;
  if (bound == 0) return free;
  std::vector<std::string> options = facts_.options;
  options.push_back("--maxrregcount=" + std::to_string(bound));
  CompileResult bounded = compile_once(nvrtc, source, options, facts_.arch);
  return keeps_in_registers(bounded, free) ? bounded : free;
}

std::vector<KernelResources> NvrtcCompiler::resources(std::string_view log) const {
  return resources_in(log);
}

}  // namespace coconet::jit
