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
#include "jit/platform/shared_library.h"

namespace coconet::jit {
namespace {

// The prelude is C++20, which NVRTC takes from 12.0 on.
constexpr int least_major = 12;

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
  FUNCTION(architecture_count, nvrtcGetNumSupportedArchs) \
  FUNCTION(architectures, nvrtcGetSupportedArchs)

// Null in a stand-in that makes no PTX.
#define COCONET_PTX_FUNCTIONS(FUNCTION) \
  FUNCTION(ptx_size, nvrtcGetPTXSize)   \
  FUNCTION(ptx, nvrtcGetPTX)

COCONET_FUNCTION_TABLE(NvrtcFunctions, COCONET_NVRTC_FUNCTIONS);
COCONET_FUNCTION_TABLE(PtxFunctions, COCONET_PTX_FUNCTIONS);

struct Library : NvrtcFunctions, PtxFunctions {
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

Library load() {
  Library nvrtc;
  const char* const first = located().empty() ? "libnvrtc.so.13" : located().c_str();
  const SharedLibrary file({first, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  nvrtc.unavailable = find_functions<NvrtcFunctions>(nvrtc, file, "libnvrtc");
  nvrtc.PtxFunctions::find_in(file);
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
  static const Library loaded = load();
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
  if (nvrtc.ptx_size == nullptr || nvrtc.ptx == nullptr) return {};
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

// Version and build, the same on all machines with this NVRTC; it is loaded only to be asked what
// the kernel cache does not remember.
const std::string& identity() {
  static const std::string text = [] {
    // Remembered of the file that is found first, if that is the one that is loaded.
    struct Another {};
    try {
      if (located().empty()) return identify();
      return remembered_of(located(), "NVRTC", [] {
        if (library().unavailable.empty() && library().file != located()) throw Another();
        return identify();
      });
    } catch (const Another&) {
      return identify();
    }
  }();
  return text;
}

void require_known(std::string_view arch) {
  const std::vector<std::string> known = nvrtc::architectures();
  // sm_90a and sm_100f are variants of the architecture that their number names.
  const std::string_view plain = arch.substr(0, arch.find_last_of("0123456789") + 1);
  if (arch.size() <= plain.size() + 1 && std::ranges::find(known, plain) != known.end()) return;
  throw CompileError(fmt::format("NVRTC {} does not know the architecture '{}'; it knows {}.",
                                 nvrtc::version(), arch, fmt::join(known, ", ")));
}

}  // namespace

// ptxas reports, for each kernel,
//   ptxas info    : Compiling entry function 'adam' for 'sm_90'
//   ptxas info    : Function properties for adam
//   ptxas         .     96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 48 registers, used 0 barriers, 96 bytes cumulative stack size
// Functions that were not inlined have properties too; they count with the kernel that they follow.
std::vector<KernelResources> nvrtc::resources(std::string_view log) {
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

bool nvrtc::is_available() {
  return library().unavailable.empty();
}

std::string nvrtc::version() {
  const Library& nvrtc = library();
  return nvrtc.unavailable.empty() ? nvrtc.version() : nvrtc.unavailable;
}

std::vector<std::string> nvrtc::architectures() {
  const Library& nvrtc = library();
  int count = 0;
  if (!nvrtc.unavailable.empty() || nvrtc.architecture_count(&count) != NVRTC_SUCCESS) return {};
  std::vector<int> numbers(count);
  if (nvrtc.architectures(numbers.data()) != NVRTC_SUCCESS) return {};
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back("sm_" + std::to_string(number));
  return names;
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
  facts_.identity = identity();
  facts_.arch = arch;
  facts_.abi = "cubin";
}

CompileResult NvrtcCompiler::compile(std::string_view source) const {
  const Library& nvrtc = require_library();
  if (nvrtc.file != located() && identify() != facts_.identity)
    throw CompileError("NVRTC in '" + located().string() + "' does not load any more.");
  require_known(facts_.arch);
  const Program program = make_program(nvrtc, source);
  CompileResult result;
  std::vector<const char*> options;
  result.command = "nvrtc";
  for (const std::string& option : facts_.options) {
    options.push_back(option.c_str());
    result.command += " " + option;
  }
  const nvrtcResult compiled =
      nvrtc.compile_program(program.get(), static_cast<int>(options.size()), options.data());

  result.log = fetch(program, nvrtc.log_size, nvrtc.log);
  if (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  result.kernels = nvrtc::resources(result.log);
  if (compiled == NVRTC_SUCCESS) result.binary = fetch(program, nvrtc.cubin_size, nvrtc.cubin);
  result.ok = !result.binary.empty();
  if (!result.ok) result.log += "NVRTC for " + facts_.arch + ": " + nvrtc.error_string(compiled);
  return result;
}

}  // namespace coconet::jit
