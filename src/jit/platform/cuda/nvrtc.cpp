// NVRTC behind a table of functions, found at run time: the library links nothing of CUDA and runs
// without it.
#include "jit/platform/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "coconet/error.h"
#include "jit/platform/cuda/library_path.h"
#include "jit/platform/identity.h"
#include "jit/platform/shared_library.h"

namespace coconet::jit {
namespace {

// The prelude is C++20, which NVRTC takes from 12.0 on.
constexpr int least_major = 12;

struct Library {
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcGetErrorString) error_string = nullptr;
  decltype(&nvrtcCreateProgram) create_program = nullptr;
  decltype(&nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&nvrtcCompileProgram) compile_program = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetPTXSize) ptx_size = nullptr;  ///< null in a stand-in that makes none
  decltype(&nvrtcGetPTX) ptx = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) architecture_count = nullptr;
  decltype(&nvrtcGetSupportedArchs) architectures = nullptr;
  int major = 0;
  int minor = 0;
  std::filesystem::path file;  ///< that it was loaded from
  std::string unavailable;     ///< why nothing above is set; empty when all is
};

std::filesystem::path file_of(const void* symbol) {
  Dl_info info{};
  std::error_code error;
  if (dladdr(symbol, &info) == 0) return {};
  return std::filesystem::canonical(info.dli_fname, error);
}

constexpr const char* names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// The file that is loaded, and by whose state NVRTC's identity is remembered; empty when only the
// system's loader knows.
const std::filesystem::path& located() {
  static const std::filesystem::path file = [] {
    std::error_code error;
    const auto found = locate_library({names[0], names[1], names[2]});
    return found.empty() ? found : std::filesystem::canonical(found, error);
  }();
  return file;
}

Library load() {
  Library nvrtc;
  const char* const first = located().empty() ? names[0] : located().c_str();
  const SharedLibrary file({first, names[0], names[1], names[2]});
  if (!file.is_open()) {
    nvrtc.unavailable = file.problem();
    return nvrtc;
  }
  std::vector<std::string> missing;
  file.find("nvrtcVersion", nvrtc.version, missing);
  file.find("nvrtcGetErrorString", nvrtc.error_string, missing);
  file.find("nvrtcCreateProgram", nvrtc.create_program, missing);
  file.find("nvrtcDestroyProgram", nvrtc.destroy_program, missing);
  file.find("nvrtcCompileProgram", nvrtc.compile_program, missing);
  file.find("nvrtcGetProgramLogSize", nvrtc.log_size, missing);
  file.find("nvrtcGetProgramLog", nvrtc.log, missing);
  file.find("nvrtcGetCUBINSize", nvrtc.cubin_size, missing);
  file.find("nvrtcGetCUBIN", nvrtc.cubin, missing);
  file.find("nvrtcGetPTXSize", nvrtc.ptx_size);
  file.find("nvrtcGetPTX", nvrtc.ptx);
  file.find("nvrtcGetNumSupportedArchs", nvrtc.architecture_count, missing);
  file.find("nvrtcGetSupportedArchs", nvrtc.architectures, missing);
  if (!missing.empty()) {
    nvrtc.unavailable = "libnvrtc has no function " + missing.front();
  } else if (nvrtc.version(&nvrtc.major, &nvrtc.minor) != NVRTC_SUCCESS ||
             nvrtc.major < least_major) {
    nvrtc.unavailable = "libnvrtc is " + std::to_string(nvrtc.major) + "." +
                        std::to_string(nvrtc.minor) + ", and 12.0 or later is needed";
  }
  nvrtc.file = file_of(reinterpret_cast<const void*>(nvrtc.version));
  return nvrtc;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

class CudaProgram {
 public:
  CudaProgram(const Library& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
    const nvrtcResult result =
        nvrtc.create_program(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
    if (result != NVRTC_SUCCESS) {
      throw CompileError(std::string("NVRTC cannot start on a program: ") +
                         nvrtc.error_string(result) + ".");
    }
  }
  ~CudaProgram() { nvrtc_.destroy_program(&program_); }
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  [[nodiscard]] nvrtcProgram get() const { return program_; }

  /// What a pair of NVRTC functions for a size and for that many bytes gives; empty when they fail.
  template <class Size, class Bytes>
  [[nodiscard]] std::string fetch(Size size_of, Bytes bytes_of) const {
    std::size_t size = 0;
    if (size_of(program_, &size) != NVRTC_SUCCESS) return {};
    std::string bytes(size, '\0');
    if (bytes_of(program_, bytes.data()) != NVRTC_SUCCESS) return {};
    return bytes;
  }

 private:
  const Library& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// The number that ends right before `unit`, as in "96 bytes stack frame"; 0 when `line` has no such
// thing.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  const std::size_t blank = line.substr(0, at).find_last_not_of("0123456789");
  const std::size_t begin = blank == std::string_view::npos ? 0 : blank + 1;
  int number = 0;
  std::from_chars(line.data() + begin, line.data() + at, number);
  return number;
}

std::string_view quoted(std::string_view line) {
  const std::size_t open = line.find('\'');
  if (open == std::string_view::npos) return {};
  return line.substr(open + 1, line.find('\'', open + 1) - open - 1);
}

// ptxas reports, for each kernel,
//   ptxas info    : Compiling entry function 'adam' for 'sm_90'
//   ptxas info    : Function properties for adam
//   ptxas         .     96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 48 registers, used 0 barriers, 96 bytes cumulative stack size
// Functions that were not inlined have properties too; they count with the kernel that they follow.
std::vector<KernelResources> read_resources(std::string_view log) {
  std::vector<KernelResources> kernels;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (line.find("Compiling entry function '") != std::string_view::npos) {
      kernels.push_back({.entry = std::string(quoted(line))});
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

// NVRTC tells its version, but its build only in what it writes: the comments at the start of every
// PTX.
std::string build_of(const Library& nvrtc) {
  if (nvrtc.ptx_size == nullptr || nvrtc.ptx == nullptr) return {};
  const CudaProgram program(nvrtc, "extern \"C\" __global__ void empty() {}");
  if (nvrtc.compile_program(program.get(), 0, nullptr) != NVRTC_SUCCESS) return {};
  std::istringstream ptx(program.fetch(nvrtc.ptx_size, nvrtc.ptx));
  std::string build;
  for (std::string line; std::getline(ptx, line) && line.starts_with("//");) {
    if (const std::size_t text = line.find_first_not_of("/ "); text != std::string::npos)
      build += line.substr(text) + "\n";
  }
  return build;
}

std::string identify() {
  const Library& nvrtc = library();
  if (!nvrtc.unavailable.empty())
    throw CompileError("NVRTC is not available: " + nvrtc.unavailable + ".");
  std::string build = build_of(nvrtc);
  if (build.empty()) build = "file " + sha256_of_file(nvrtc.file) + "\n";
  return "NVRTC " + nvrtc::version() + "\n" + build;
}

void require_known(const std::string& arch) {
  const std::vector<std::string> known = nvrtc::architectures();
  // sm_90a and sm_100f are variants of the architecture that their number names.
  const std::string plain = arch.substr(0, arch.find_last_of("0123456789") + 1);
  if (arch.size() <= plain.size() + 1 && std::ranges::find(known, plain) != known.end()) return;
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  throw CompileError("NVRTC " + nvrtc::version() + " does not know the architecture '" + arch +
                     "'; it knows " + all + ".");
}

}  // namespace

const std::string& nvrtc::identity() {
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

std::vector<KernelResources> nvrtc::resources(std::string_view log) {
  return read_resources(log);
}

bool nvrtc::is_available() {
  return library().unavailable.empty();
}

std::string nvrtc::version() {
  const Library& nvrtc = library();
  if (!nvrtc.unavailable.empty()) return nvrtc.unavailable;
  return std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
}

std::vector<std::string> nvrtc::architectures() {
  const Library& nvrtc = library();
  int count = 0;
  if (!nvrtc.unavailable.empty() || nvrtc.architecture_count(&count) != NVRTC_SUCCESS) return {};
  std::vector<int> numbers(static_cast<std::size_t>(count));
  if (nvrtc.architectures(numbers.data()) != NVRTC_SUCCESS) return {};
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back("sm_" + std::to_string(number));
  return names;
}

NvrtcCompiler::NvrtcCompiler(std::string_view arch, bool line_info, int ranks) : arch_(arch) {
  // No contraction: every schedule and every target must give the same bits. Lambdas with template
  // parameters, which the dialect has, are functions of the host unless functions are the device's
  // by default.
  facts_.options = {"--gpu-architecture=" + arch_,
                    "--std=c++20",
                    "--device-as-default-execution-space",
                    "--fmad=false",
                    "--ptxas-options=-v",
                    "--define-macro=RANKS_PER_LAUNCH=" + std::to_string(ranks)};
  if (line_info) facts_.options.emplace_back("--generate-line-info");
  facts_.identity = nvrtc::identity();
  facts_.arch = arch_;
  facts_.abi = "cubin";
}

CompileResult NvrtcCompiler::compile(std::string_view source) const {
  const Library& nvrtc = library();
  if (!nvrtc.unavailable.empty())
    throw CompileError("NVRTC is not available: " + nvrtc.unavailable + ".");
  if (nvrtc.file != located() && identify() != facts_.identity)
    throw CompileError("NVRTC in '" + located().string() + "' does not load any more.");
  require_known(arch_);
  const CudaProgram program(nvrtc, std::string(source));
  CompileResult result;
  std::vector<const char*> options;
  result.command = "nvrtc";
  for (const std::string& option : facts_.options) {
    options.push_back(option.c_str());
    result.command += " " + option;
  }
  const nvrtcResult compiled =
      nvrtc.compile_program(program.get(), static_cast<int>(options.size()), options.data());

  result.log = program.fetch(nvrtc.log_size, nvrtc.log);
  if (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  result.kernels = read_resources(result.log);
  if (compiled == NVRTC_SUCCESS) result.binary = program.fetch(nvrtc.cubin_size, nvrtc.cubin);
  result.ok = !result.binary.empty();
  if (!result.ok) result.log += "NVRTC for " + arch_ + ": " + nvrtc.error_string(compiled);
  return result;
}

}  // namespace coconet::jit
