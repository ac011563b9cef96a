// NVRTC behind a table of functions, found at run time: the library links nothing of CUDA and runs without it.
#include "jit/compile/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "coconet/error.h"

namespace coconet::jit::nvrtc {
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
  int major = 0;
  int minor = 0;
  std::string unavailable;  ///< why nothing above is set; empty when all is
};

void* open_library() {
  constexpr auto names =
      std::to_array<const char*>({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& root :
       {std::string(home != nullptr ? home : ""), std::string("/usr/local/cuda")}) {
    if (root.empty()) continue;
    for (const char* name : names) {
      const std::string path = root + "/lib64/" + name;
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    }
  }
  return nullptr;
}

template <class Function>
void look_up(void* handle, const char* name, Function& into, std::string& missing) {
  into = reinterpret_cast<Function>(dlsym(handle, name));
  if (into == nullptr) missing = name;
}

// The handle is never closed: NVRTC keeps threads and tables until the process ends.
Library load() {
  Library nvrtc;
  void* handle = open_library();
  if (handle == nullptr) {
    nvrtc.unavailable =
        "there is no libnvrtc on the library path, in $CUDA_HOME/lib64 or in /usr/local/cuda/lib64";
    return nvrtc;
  }
  std::string missing;
  look_up(handle, "nvrtcVersion", nvrtc.version, missing);
  look_up(handle, "nvrtcGetErrorString", nvrtc.error_string, missing);
  look_up(handle, "nvrtcCreateProgram", nvrtc.create_program, missing);
  look_up(handle, "nvrtcDestroyProgram", nvrtc.destroy_program, missing);
  look_up(handle, "nvrtcCompileProgram", nvrtc.compile_program, missing);
  look_up(handle, "nvrtcGetProgramLogSize", nvrtc.log_size, missing);
  look_up(handle, "nvrtcGetProgramLog", nvrtc.log, missing);
  look_up(handle, "nvrtcGetCUBINSize", nvrtc.cubin_size, missing);
  look_up(handle, "nvrtcGetCUBIN", nvrtc.cubin, missing);
  if (!missing.empty()) {
    nvrtc.unavailable = "libnvrtc has no function " + missing;
  } else if (nvrtc.version(&nvrtc.major, &nvrtc.minor) != NVRTC_SUCCESS ||
             nvrtc.major < least_major) {
    nvrtc.unavailable = "libnvrtc is " + std::to_string(nvrtc.major) + "." +
                        std::to_string(nvrtc.minor) + ", and 12.0 or later is needed";
  }
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

// The number that ends right before `unit`, as in "96 bytes stack frame"; 0 when `line` has no such thing.
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
std::vector<KernelResources> parse_resources(std::string_view log) {
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
  }
  return kernels;
}

}  // namespace

bool is_available() {
  return library().unavailable.empty();
}

std::string version() {
  const Library& nvrtc = library();
  if (!nvrtc.unavailable.empty()) return nvrtc.unavailable;
  return std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
}

Result compile(std::string_view source, std::string_view arch) {
  const Library& nvrtc = library();
  if (!nvrtc.unavailable.empty())
    throw CompileError("NVRTC is not available: " + nvrtc.unavailable + ".");
  const CudaProgram program(nvrtc, std::string(source));
  const std::string architecture = "--gpu-architecture=" + std::string(arch);
  // No contraction: every schedule and every target must give the same bits. Lambdas with template parameters, which
  // the dialect has, are functions of the host unless functions are the device's by default.
  const auto options = std::to_array<const char*>({architecture.c_str(), "--std=c++20",
                                                   "--device-as-default-execution-space",
                                                   "--fmad=false", "--ptxas-options=-v"});
  const nvrtcResult compiled =
      nvrtc.compile_program(program.get(), static_cast<int>(options.size()), options.data());

  Result result;
  result.log = program.fetch(nvrtc.log_size, nvrtc.log);
  if (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  result.kernels = parse_resources(result.log);
  if (compiled == NVRTC_SUCCESS) result.cubin = program.fetch(nvrtc.cubin_size, nvrtc.cubin);
  result.ok = !result.cubin.empty();
  if (!result.ok)
    result.log +=
        std::string("NVRTC for ") + std::string(arch) + ": " + nvrtc.error_string(compiled);
  return result;
}

}  // namespace coconet::jit::nvrtc
