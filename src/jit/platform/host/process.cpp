// posix_spawn, in a process group of its own, watched until it ends or its time is over.
#include "jit/platform/host/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>

#include "coconet/error.h"
#include "jit/config/temporary_place.h"

namespace coconet::jit {
namespace {

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// How a child is started: its output goes to `log`; in a process group of its own, so that a
/// timeout reaches its children; with default signals, whatever the application has blocked.
struct SpawnSettings {
  explicit SpawnSettings(const std::filesystem::path& log) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // Not a pipe, which a server left behind by a compiler launcher would hold open.
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    sigset_t none;
    sigset_t ordinary;
    sigemptyset(&none);
    sigemptyset(&ordinary);
    for (const int signal : {SIGPIPE, SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXFSZ, SIGALRM})
      sigaddset(&ordinary, signal);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &ordinary);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

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

// Starts a program and waits for its end; returns how it failed.
std::string run(const std::vector<std::string>& arguments, const std::filesystem::path& log,
                const std::filesystem::path& scratch, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::vector<std::string> environment = child_environment(scratch);
  const SpawnSettings settings(log);
  pid_t child = -1;
  const int error =
      posix_spawn(&child, arguments.front().c_str(), &settings.actions, &settings.attributes,
                  pointers(arguments).data(), pointers(environment).data());
  if (error != 0) return fmt::format("It cannot be started: {}.", std::strerror(error));

  // Polling works with threads and foreign SIGCHLD handlers, and is short beside a compilation.
  constexpr std::chrono::microseconds longest_pause{1000};
  std::chrono::microseconds pause{50};
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return failure_of(status);
    if (ended == -1 && errno != EINTR) {
      return "How it ended is unknown: the application ignores SIGCHLD or waits for any child.";
    }
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
  kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) == -1 && errno == EINTR) continue;
  return fmt::format(
      "It was stopped after {}, the longest time that COCONET_COMPILE_TIMEOUT_S allows.",
      seconds(timeout));
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

TemporaryDirectory::TemporaryDirectory() {
  constexpr std::string_view prefix = "coconet-jit-scratch-";
  const std::filesystem::path parent = temporary_place();
  // What killed processes have left: they may be many, so once.
  static std::once_flag once;
  std::call_once(once, [&] { try_remove_leftovers(parent, prefix); });
  const auto make = [&] {
    std::string name = (parent / (std::string(prefix) + "XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr) {
      throw CompileError(
          fmt::format("A kernel cannot be compiled: there is no place for temporary files under "
                      "'{}' ({}); TMPDIR names another directory.",
                      parent.string(), std::strerror(errno)));
    }
    return std::filesystem::path(name);
  };
  path_ = make_locked(make, lock_);
  if (path_.empty()) {
    throw CompileError(
        fmt::format("A kernel cannot be compiled: temporary directories under '{}' vanish at once; "
                    "TMPDIR names another directory.",
                    parent.string()));
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Outcome run_program(const std::vector<std::string>& arguments, const std::filesystem::path& scratch,
                    std::chrono::milliseconds timeout) {
  const std::filesystem::path log = scratch / "log";
  std::string failure = run(arguments, log, scratch, timeout);
  return {std::move(failure), read_file(log)};
}

}  // namespace coconet::jit
