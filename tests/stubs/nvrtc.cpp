// An NVRTC that compiles for this machine: it puts the host half of the prelude in the place of
// CUDA's, and what it calls a cubin is a shared object, which the stub of the driver loads, and PTX
// is that in digits. COCONET_SOURCE_DIR is where the prelude is, STUB_CXX the compiler, unless the
// environment's says otherwise.
#pragma GCC visibility push(default)
#include <nvrtc.h>
#pragma GCC visibility pop

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

extern char** environ;

struct _nvrtcProgram {
  std::string source;
  std::string log;
  std::string cubin;
  std::string ptx;
};

namespace {

namespace fs = std::filesystem;

// STUB_NVRTC_ARCHS, such as "75 80", or what some real one knows.
std::vector<int> architectures() {
  const char* const text = std::getenv("STUB_NVRTC_ARCHS");
  std::istringstream words(text == nullptr ? "75 80 90 100 120" : text);
  return {std::istream_iterator<int>(words), std::istream_iterator<int>()};
}

// As the library compiles for the host, with less optimization: kernels compile in half the time.
// Without contraction results are those of every other target.
constexpr auto compiler_options = std::to_array<const char*>(
    {STUB_CXX, "-std=c++20", "-O1", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
     "-fwrapv", "-fPIC", "-shared", "-w", "-o", "kernel.so", "kernel.cpp"});

/// A directory of its own, gone afterwards.
class Workplace {
 public:
  Workplace() {
    std::string name = (fs::temp_directory_path() / "stub_nvrtc.XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Workplace() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Where the line that starts with `start` begins; npos without one.
std::size_t line_that_starts(std::string_view text, std::string_view start) {
  if (text.starts_with(start)) return 0;
  const std::size_t at = text.find("\n" + std::string(start));
  return at == std::string_view::npos ? at : at + 1;
}

constexpr std::string_view declarations =
    "extern \"C\" {\n"
    "__attribute__((visibility(\"default\"))) void* (*stub_alias)(const void*);\n"
    "__attribute__((visibility(\"default\"))) void (*stub_give_way)();\n"
    "}\n";

// `source` with `to` for `from`, which it must have; empty otherwise.
std::string with(std::string source, std::string_view from, std::string_view to) {
  const std::size_t at = source.find(from);
  return at == std::string::npos ? std::string() : source.replace(at, from.size(), to);
}

// Addresses that kernels find in memory are device addresses, of which cuda/kernels.h knows the
// aliases.
std::string with_aliases(const std::string& source) {
  const std::string other = with(source, "  return buffers[buffer];\n",
                                 "  return static_cast<T*>(stub_alias(buffers[buffer]));\n");
  return other.empty() ? source : other;  // only some have scattered tensors
}

// Headers of host/ for those of the same name that are for threads.
std::string with_lanes(std::string source) {
  const fs::path prelude = COCONET_SOURCE_DIR "/src/jit/prelude";
  for (const char* const name : {"columns.h", "rows.h"}) {
    const std::string lanes = read_file(prelude / "host" / name);
    std::string other = with(source, read_file(prelude / name), lanes);
    if (!other.empty()) source = std::move(other);  // only some reduce to many results
  }
  return source;
}

// Blocks that wait take turns on a thread: cuda/turns.h.
std::string with_turns(const std::string& source) {
  constexpr std::string_view relax = "DEVICE void relax(u64 looks, u64 spin_limit) {\n";
  return with(source, relax, std::string(relax) + "  return stub_give_way();\n");
}

// The source with the host half of the prelude for CUDA's; empty when it has none, or blocks would
// not take turns.
std::string for_host(const std::string& source) {
  const std::size_t begin = line_that_starts(source, "// Prelude, CUDA half");
  const std::size_t abi = line_that_starts(source, "// ABI, ");
  const std::size_t threads = line_that_starts(source, "// Prelude, what the halves share");
  const std::size_t end = line_that_starts(source, "// Prelude, the half that host and CUDA share");
  for (const std::size_t place : {begin, abi, threads, end}) {
    if (place == std::string::npos) return {};
  }
  const fs::path prelude = COCONET_SOURCE_DIR "/src/jit/prelude";
  const std::string halves =
      with_turns(read_file(prelude / "host/host.h") + read_file(prelude / "host/vectors.h") + "\n" +
                 source.substr(abi, threads - abi) + read_file(prelude / "host/lane.h") + "\n");
  if (halves.empty()) return {};
  return std::string(declarations) + source.substr(0, begin) + halves +
         with_aliases(with_lanes(source.substr(end)));
}

// The names in lines KERNEL_ENTRY(name).
std::vector<std::string> entries_of(std::string_view source) {
  constexpr std::string_view mark = "KERNEL_ENTRY(";
  std::vector<std::string> names;
  for (std::size_t at = line_that_starts(source, mark); at != std::string_view::npos;
       at = line_that_starts(source, mark)) {
    source.remove_prefix(at + mark.size());
    names.emplace_back(source.substr(0, source.find(')')));
  }
  return names;
}

bool run_compiler(const fs::path& directory) {
  std::vector<char*> arguments;
  std::vector<std::string> words(compiler_options.begin(), compiler_options.end());
  if (const char* const other = std::getenv("STUB_CXX")) words.front() = other;
  for (std::string& word : words) {
    if (word.starts_with("kernel.")) word = (directory / word).string();
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string log = (directory / "log").string();
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = -1;
  const int started =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (started != 0) return false;
  while (waitpid(child, &status, 0) == -1) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Text that names its target as PTX does, with the shared object in hexadecimal digits.
std::string ptx_of(const std::string& code, const std::string& number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string ptx = "//\n.version 9.0\n.target sm_" + number + "\n";
  for (const char byte : code) {
    ptx += digits[static_cast<unsigned char>(byte) / 16];
    ptx += digits[static_cast<unsigned char>(byte) % 16];
  }
  return ptx;
}

nvrtcResult compile(_nvrtcProgram& program, const std::string& arch) {
  std::string text = for_host(program.source);
  if (text.empty()) {
    program.log =
        "the stub of NVRTC finds no CUDA prelude in this source, or no relax in the host's\n";
    return NVRTC_ERROR_COMPILATION;
  }
  const std::vector<std::string> entries = entries_of(text);
  for (const std::string& entry : entries) {
    text += "\nextern \"C\" __attribute__((visibility(\"default\"))) const unsigned long long " +
            entry + "_bytes = sizeof(Args);\n";
  }
  const bool to_ptx = arch.starts_with("compute_");
  const std::string number = arch.substr(arch.find('_') + 1);
  text += "\nextern \"C\" __attribute__((visibility(\"default\"))) const int stub_arch = " +
          std::to_string(std::atoi(number.c_str())) + ";\n";
  const Workplace workplace;
  std::ofstream(workplace.path() / "kernel.cpp", std::ios::binary) << text;
  const bool compiled = run_compiler(workplace.path());
  program.log = read_file(workplace.path() / "log");
  if (!compiled) return NVRTC_ERROR_COMPILATION;
  std::string code = read_file(workplace.path() / "kernel.so");
  if (to_ptx) {
    program.ptx = ptx_of(code, number);
    return NVRTC_SUCCESS;
  }
  program.cubin = std::move(code);
  for (const std::string& entry : entries) {
    program.log += "ptxas info    : Compiling entry function '" + entry + "' for '" + arch +
                   "'\nptxas info    : Used 32 registers, used 1 barriers\n";
  }
  return NVRTC_SUCCESS;
}

nvrtcResult copy_text(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}

}  // namespace

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    default:
      return "NVRTC_ERROR_INTERNAL_ERROR";
  }
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(architectures().size());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* numbers) {
  std::ranges::copy(architectures(), numbers);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int,
                               const char* const*, const char* const*) {
  *program = std::make_unique<_nvrtcProgram>(_nvrtcProgram{source, {}, {}, {}}).release();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  const std::unique_ptr<_nvrtcProgram> owned(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  constexpr std::string_view arch_option = "--gpu-architecture=";
  std::string arch = "sm_75";
  for (int i = 0; i < count; ++i) {
    const std::string_view option = options[i];
    if (option.starts_with(arch_option)) arch = option.substr(arch_option.size());
  }
  return compile(*program, arch);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  return copy_text(program->log, log);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes) {
  *bytes = program->cubin.size();
  return program->cubin.empty() ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  std::copy(program->cubin.begin(), program->cubin.end(), cubin);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, std::size_t* bytes) {
  *bytes = program->ptx.size() + 1;
  return program->ptx.empty() ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  return copy_text(program->ptx, ptx);
}
