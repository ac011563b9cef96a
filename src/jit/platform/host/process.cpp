// Prepares what the supervisor needs, and says what became of its work.
#include "jit/platform/host/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <sstream>
#include <system_error>

#include "coconet/error.h"
#include "jit/config/build_info.h"
#include "jit/config/leftovers.h"
#include "jit/config/quiet_thread.h"
#include "jit/config/temporary_place.h"
#include "jit/platform/host/supervisor.h"

namespace coconet::jit {
namespace {

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// This process's, but with temporary files in `scratch`, which a killed compiler would leave
// behind, and messages in English.
std::vector<std::string> child_environment(const std::filesystem::path& scratch) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("TMPDIR=") && !text.starts_with("LC_ALL=")) result.emplace_back(text);
  }
  result.push_back("TMPDIR=" + scratch.string());
  result.emplace_back("LC_ALL=C");
  return result;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

std::string seconds(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? fmt::format("{} s", count / 1000) : fmt::format("{} ms", count);
}

// Empty when the program exited with status 0.
std::string failure_of(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("It was killed by signal {} ({}).", signal, strsignal(signal));
  }
  if (WEXITSTATUS(status) == 0) return {};
  return fmt::format("It exited with status {}.", WEXITSTATUS(status));
}

/// Memory with a descriptor above those of standard input and output, which are the program's.
OpenFile open_memory(const char* name) {
  constexpr int lowest = 3;
  OpenFile file(memfd_create(name, MFD_CLOEXEC));
  if (file.is_open() && file.number() < lowest)
    file = OpenFile(fcntl(file.number(), F_DUPFD_CLOEXEC, lowest));
  return file;
}

std::string content_of(const OpenFile& file) {
  struct stat status {};
  if (!file.is_open() || fstat(file.number(), &status) == -1) return {};
  return read_bytes(file.number(), static_cast<std::size_t>(status.st_size));
}

/// A value that other processes change, too.
template <class T>
std::unique_ptr<T, void (*)(T*)> make_shared_value() {
  void* const place =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw std::bad_alloc();
  return {new (place) T{}, [](T* value) { munmap(value, sizeof(T)); }};
}

/// ThreadSanitizer and Valgrind bear no second process in the memory of the first.
bool shares_memory() {
  const char* const preloaded = std::getenv("LD_PRELOAD");
  return build_info::sanitize != "thread" &&
         (preloaded == nullptr ||
          std::string_view(preloaded).find("vgpreload") == std::string::npos);
}

/// How the program failed; empty: it did not. Throws CompileError where it had no place.
std::string failure_of(const ProgramRun& run, const SupervisorReport& report) {
  const char* const error = std::strerror(report.error);
  switch (report.reached) {
    case Stage::making_directory:
      throw CompileError(
          fmt::format("There is no place for temporary files under '{}' ({}); TMPDIR names another "
                      "directory.",
                      run.directory.parent_path().string(), error));
    case Stage::writing_input:
      throw CompileError(
          fmt::format("The file '{}' cannot be written ({}); TMPDIR names another directory.",
                      (run.directory / run.input_name).string(), error));
    case Stage::beginning:
    case Stage::starting:
      return fmt::format("It cannot be started: {}.", error);
    case Stage::running:
      if (!report.timed_out) return failure_of(report.wait_status);
      return fmt::format(
          "It was stopped after {}, the longest time that COCONET_COMPILE_TIMEOUT_S allows.",
          seconds(run.timeout));
    case Stage::reading_output:
      return fmt::format("What it wrote cannot be read: {}.", error);
    case Stage::done:
      break;
  }
  return {};
}

/// What a supervisor would have done that was killed.
std::string clean_up_after(int signal, const ProgramRun& run, const SupervisorReport& report) {
  if (report.program > 0) kill(-report.program, SIGKILL);
  std::error_code ignored;
  std::filesystem::remove_all(run.directory, ignored);
  return fmt::format("The process that watches over it was killed by signal {} ({}).", signal,
                     strsignal(signal));
}

}  // namespace

std::filesystem::path find_program(const std::string& name) {
  namespace fs = std::filesystem;
  if (name.find('/') != std::string::npos)
    return is_program(name) ? fs::absolute(name) : fs::path();
  const char* variable = std::getenv("PATH");
  std::istringstream directories(variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    const fs::path candidate = fs::path(directory.empty() ? "." : directory) / name;
    if (!name.empty() && is_program(candidate)) return fs::absolute(candidate);
  }
  return {};
}

std::filesystem::path name_directory() {
  constexpr std::string_view prefix = "coconet-jit-scratch-";
  const std::filesystem::path parent = temporary_place();
  // What killed processes have left: they may be many, so once.
  static std::once_flag once;
  std::call_once(once, [&] { try_remove_leftovers(parent, prefix); });
  std::random_device random;
  return parent / fmt::format("{}{:08x}{:08x}", prefix, random(), random());
}

Outcome run_program(const ProgramRun& run) {
  const std::vector<std::string> environment = child_environment(run.directory);
  const std::vector<char*> arguments = pointers(run.arguments), variables = pointers(environment);
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);
  const auto report = make_shared_value<SupervisorReport>();
  const OpenFile printed = open_memory("coconet-printed");
  const bool has_output = !run.output_name.empty();
  const OpenFile output = has_output ? open_memory("coconet-output") : OpenFile();
  int error = !printed.is_open() || (has_output && !output.is_open()) ? errno : 0;
  if (error != 0) return {fmt::format("It cannot be started: {}.", std::strerror(error)), {}, {}};
  SupervisorTask task{run.directory.c_str(),
                      run.input_name.empty() ? nullptr : run.input_name.c_str(),
                      run.input.data(),
                      run.input.size(),
                      has_output ? run.output_name.c_str() : nullptr,
                      arguments.data(),
                      variables.data(),
                      printed.number(),
                      output.number(),
                      std::chrono::nanoseconds(std::min(run.timeout, longest)).count(),
                      shares_memory(),
                      report.get()};
  int ended_with = 0;
  try {
    start_without_signals([&] { error = supervise(task, ended_with); }).join();
  } catch (const std::system_error& none) {
    error = none.code().value();
  }
  if (error != 0) report->error = error;
  std::string failure = WIFSIGNALED(ended_with) ? clean_up_after(WTERMSIG(ended_with), run, *report)
                                                : failure_of(run, *report);
  const bool ok = failure.empty();
  return {std::move(failure), content_of(printed), ok ? content_of(output) : std::string()};
}

}  // namespace coconet::jit
