// Finding the C++ compiler, choosing its options, and compiling kernels to shared objects.
#include "jit/platform/host/compiler.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "coconet/error.h"
#include "jit/config/build_info.h"
#include "jit/platform/host/process.h"
#include "jit/platform/host/shared_object.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

// Why each: vectors as wide as the machine has them; tuned for no model, because a compiler takes
// one that it does not know for another, and g++ 12 then moves vectors of 64 bytes by halves
// through memory, which made fused Adam take three times as long; no errno from sqrt and no
// trapping comparisons, which would both keep loops scalar and change no value; no contraction and
// no fast-math, because every schedule and every compiler must give the same bits; signed overflow
// wraps, as the program's integers do; and no warnings, because the log is for errors in generated
// text.
constexpr auto base_options = std::to_array<std::string_view>({
  "-std=c++20", "-O3", "-march=native",
#if defined(__x86_64__)
      "-mprefer-vector-width=512", "-mtune=generic",
#endif
      "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared",
      "-w",
});

// Kernels call the C library only; linking libstdc++ takes a tenth of a small kernel's compilation.
constexpr auto lean_link =
    std::to_array<std::string_view>({"-nodefaultlibs", "-Wl,--no-as-needed", "-lm", "-lc"});

// Other compilers and processors may need the compiler's own library, and some options add theirs.
bool links_lean(const std::string& identity, const std::vector<std::string>& extra) {
#if !defined(__x86_64__)
  return false;
#endif
  constexpr auto with_libraries = std::to_array<std::string_view>(
      {"-fopenmp", "-fopenacc", "-fsanitize", "-fprofile", "--coverage", "-pg"});
  const bool is_gcc = identity.find("\ncc1plus ") != std::string::npos;
  return is_gcc && build_info::sanitize.empty() &&
         std::ranges::none_of(extra, [&](const std::string& flag) {
           return std::ranges::any_of(
               with_libraries, [&](std::string_view start) { return flag.starts_with(start); });
         });
}

[[noreturn]] void no_compiler(const std::string& asked) {
  constexpr std::string_view advice = "a C++20 compiler such as g++ or clang++";
  if (asked == build_info::default_cxx) {
    throw CompileError(
        fmt::format("There is no '{}' on this machine, the compiler that built coconet-jit; set "
                    "COCONET_CXX to {}.",
                    asked, advice));
  }
  const bool is_path = asked.find('/') != std::string::npos;
  const bool has_options = asked.find(' ') != std::string::npos;
  throw CompileError(fmt::format("COCONET_CXX is '{}'; there is no such program{}, set it to {}{}.",
                                 asked, is_path ? "" : " on PATH", advice,
                                 has_options ? "; options belong in COCONET_CXXFLAGS" : ""));
}

// A script or a launcher, whose file says nothing about the compiler that it starts.
bool stands_for_another(const fs::path& program) {
  constexpr auto launchers =
      std::to_array<std::string_view>({"ccache", "sccache", "distcc", "icecc"});
  const std::string name = program.filename().string();
  if (std::ranges::find(launchers, name) != launchers.end()) return true;
  std::array<char, 2> start{};
  std::ifstream file(program, std::ios::binary);
  return file.read(start.data(), start.size()) && start[0] == '#' && start[1] == '!';
}

std::vector<std::string> split_at_blanks(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

// What gcc, clang and their linkers read beside their command line.
std::string environment() {
  constexpr auto names =
      std::to_array<const char*>({"CCC_OVERRIDE_OPTIONS", "COMPILER_PATH", "CPATH",
                                  "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "LD_RUN_PATH"});
  std::string text;
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) text += std::string(name) + "=" + value + "\n";
  }
  return text;
}

// What the compiler at `path`, for which the user gave `asked`, prints when it is run with
// `option`, to the end of the first line.
std::string answer(const std::string& path, const std::string& asked, const std::string& option,
                   std::chrono::milliseconds timeout) {
  const Outcome outcome = run_program({.arguments = {path, option}, .timeout = timeout});
  const std::string line = outcome.printed.substr(0, outcome.printed.find('\n'));
  if (outcome.ok() && !line.empty()) return line;
  throw CompileError(
      fmt::format("COCONET_CXX is '{}'; it does not answer to {}, as a C++ compiler such as g++ or "
                  "clang++ does. {}",
                  asked, option, outcome.failure));
}

std::string digest_of(const fs::path& file) {
  return remembered_of(file, "SHA-256", [&] { return sha256_of_file(file); });
}

// Two builds of a version differ in the driver or, where that is another program, in cc1plus.
std::string identify(const std::string& path, const std::string& asked,
                     std::chrono::milliseconds timeout) {
  std::error_code error;
  const fs::path driver = fs::canonical(path, error);
  if (error) no_compiler(asked);
  const auto ask = [&](const char* option) { return answer(path, asked, option, timeout); };
  const auto ask_driver = [&] {
    const std::string version = ask("--version");
    return fmt::format("{}\ntarget {}\n", version, ask("-dumpmachine"));
  };
  const auto ask_all = [&] {
    const std::string version = ask_driver();
    return version + ask("-print-prog-name=cc1plus");
  };
  std::string said = stands_for_another(driver)
                         ? ask_driver()
                         : remembered_of(driver, "C++ compiler\n" + environment(), ask_all);
  const std::size_t last = said.rfind('\n') + 1;
  const fs::path proper = said.substr(last);
  said.resize(last);
  said += "driver " + digest_of(driver) + "\n";
  if (proper.is_absolute()) said += "cc1plus " + digest_of(proper) + "\n";
  return said;
}

// The contents of files that options name, which may change while the options do not.
std::string named_files(const std::vector<std::string>& flags) {
  std::string text;
  for (const std::string& flag : flags) {
    for (const std::size_t begin : {std::size_t{0}, flag.find('=') + 1, flag.find('@') + 1}) {
      const std::string name = flag.substr(begin);
      std::error_code ignored;
      if (name.empty() || (begin == 0 && flag.starts_with('-')) ||
          !fs::is_regular_file(name, ignored))
        continue;
      text += fmt::format("file {} {}\n", name, sha256_of_file(name));
      break;
    }
  }
  return text;
}

// Kernels call the C library; their entry points are C functions.
std::string abi() {
  std::string text = std::to_string(8 * sizeof(void*)) + " bits";
#if defined(__GLIBC__)
  text += ", glibc " + std::string(gnu_get_libc_version());
#endif
#if defined(__GXX_ABI_VERSION)
  text += ", C++ ABI " + std::to_string(__GXX_ABI_VERSION);
#endif
  return text;
}

// As one would type it in a shell; for people, never executed.
std::string typed(const std::vector<std::string>& arguments) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() && argument.find_first_not_of(plain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace

HostCompiler::HostCompiler(const std::string& compiler, const std::string& extra_flags,
                           std::chrono::milliseconds timeout, int threads)
    : path_(find_program(compiler).string()), timeout_(timeout) {
  if (path_.empty()) no_compiler(compiler);
  std::vector<std::string> options(base_options.begin(), base_options.end());
  if constexpr (!build_info::sanitize.empty()) {
    // Kernels are checked as the library is.
    options.push_back("-fsanitize=" + std::string(build_info::sanitize));
    options.insert(options.end(), {"-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"});
  }
  const std::vector<std::string> extra = split_at_blanks(extra_flags);
  std::string identity = identify(path_, compiler, timeout_);
  if (links_lean(identity, extra))
    options.insert(options.end(), lean_link.begin(), lean_link.end());
  options.insert(options.end(), extra.begin(), extra.end());
  facts_ = {threads > 1 ? "host_threads" : "host",
            std::move(identity),
            resolved_isa(),
            abi(),
            std::move(options),
            environment() + named_files(extra)};
}

std::string HostCompiler::resolved_isa() {
  // What -march=native looks at: the model for tuning, the flags for instructions. A list of the
  // flags that matter would miss the next machine's, so all count; their order does not.
  utsname machine{};
  std::string name = uname(&machine) == 0 ? machine.machine : "unknown";
  std::string flags;
  // The first processor's lines only: a large machine has hundreds, written as they are read.
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string field = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    std::vector<std::string> words = split_at_blanks(line.substr(colon + 1));
    if (field == "flags" || field == "Features") {
      std::ranges::sort(words);
      for (const std::string& word : words) flags += (flags.empty() ? "" : " ") + word;
    } else if (!words.empty() &&
               (field == "vendor_id" || field == "cpu family" || field == "model" ||
                field == "CPU implementer" || field == "CPU part" || field == "CPU variant")) {
      name += " " + words.front();
    }
  }
  // Nothing tells processors of a name apart, so only this machine is like this one.
  if (flags.empty()) name += fmt::format(" of {}", machine.nodename);
  return name + "\n" + flags;
}

CompileResult HostCompiler::compile(std::string_view source,
                                    std::chrono::milliseconds limit) const {
  ProgramRun run{.timeout = limit.count() > 0 ? limit : timeout_,
                 .input_name = "kernel.cpp",
                 .input = source,
                 .output_name = "kernel.so"};
  const std::string inside = run.directory.string() + "/";
  std::vector<std::string> arguments{path_};
  arguments.insert(arguments.end(), options().begin(), options().end());
  CompileResult result;
  result.command = typed(arguments) + " -o kernel.so kernel.cpp";
  // Neither debug information nor the log may mention the directory, which differs in every run.
  arguments.insert(arguments.end(), {"-ffile-prefix-map=" + inside + "=", "-o",
                                     inside + run.output_name, inside + run.input_name});
  run.arguments = std::move(arguments);
  Outcome outcome = run_program(run);
  result.log = outcome.printed;
  for (std::size_t at; (at = result.log.find(inside)) != std::string::npos;)
    result.log.erase(at, inside.size());
  std::string problem = outcome.failure;
  if (outcome.ok()) {
    result.binary = std::move(outcome.output);
    problem = shared_object_problem(result.binary);
    result.ok = problem.empty();
    if (result.ok) return result;
    problem =
        result.binary.empty()
            ? "It ended well but wrote no shared object."
            : fmt::format("It ended well but wrote a shared object that cannot be loaded: {}.",
                          problem);
    result.binary.clear();
  }
  if (!result.log.empty() && result.log.back() != '\n') result.log += '\n';
  result.log += problem;
  return result;
}

}  // namespace coconet::jit
