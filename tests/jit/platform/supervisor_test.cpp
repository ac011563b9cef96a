// Programs that are run for an application: whatever it does about SIGCHLD the answer is right, and
// nothing of them outlives it.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "child_process.h"
#include "jit/config/leftovers.h"
#include "jit/platform/host/process.h"

using namespace coconet;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// Shell scripts, and a directory for temporary files that only the test uses.
struct Place {
  test::ScratchDirectory scratch;
  std::string temporary_before = fs::temp_directory_path();

  Place() {
    fs::create_directory(temporary());
    setenv("TMPDIR", temporary().c_str(), 1);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { setenv("TMPDIR", temporary_before.c_str(), 1); }

  [[nodiscard]] fs::path temporary() const { return scratch.path() / "tmp"; }
  [[nodiscard]] std::string file(const std::string& name) const {
    return (scratch.path() / name).string();
  }
  [[nodiscard]] std::string script(const std::string& body) const {
    const std::string path = file("program");
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }
};

jit::Outcome run(const std::string& program) {
  jit::ProgramRun asked{
      .timeout = 60s, .input_name = "question", .input = "6 * 7", .output_name = "answer"};
  asked.arguments = {program, asked.directory.string()};
  return jit::run_program(asked);
}

/// Waits for `holds`, which it is sooner or later; else CTest's limit ends the test.
template <class Holds>
void await(Holds holds) {
  while (!holds()) std::this_thread::sleep_for(1ms);
}

bool is_running(pid_t process) {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), line);
  const std::size_t at = line.rfind(')');
  return at != std::string::npos && line.substr(at + 2, 1) != "Z";
}

std::vector<pid_t> numbers_in(const std::string& file) {
  std::ifstream text(file);
  return {std::istream_iterator<pid_t>(text), std::istream_iterator<pid_t>()};
}

std::atomic<int> signals = 0;
std::atomic<int> reaped = 0;

void reap_all(int) {
  ++signals;
  while (waitpid(-1, nullptr, WNOHANG) > 0) ++reaped;
}

}  // namespace

TEST_CASE_METHOD(Place, "a program's answer is right whatever the application does about SIGCHLD") {
  const std::string way = GENERATE("default", "ignored", "without zombies", "reaped");
  INFO(way);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = way == "ignored" ? SIG_IGN : way == "reaped" ? reap_all : SIG_DFL;
  action.sa_flags = SA_RESTART | (way == "without zombies" ? SA_NOCLDWAIT : 0);
  signals = reaped = 0;
  sigaction(SIGCHLD, &action, &before);
  const jit::Outcome good = run(script("cat \"$1/question\" > \"$1/answer\"; echo printed"));
  const jit::Outcome bad = run(script("echo half > \"$1/answer\"; exit 3"));
  const jit::Outcome killed = run(script("kill -KILL $$"));
  const jit::Outcome missing = run(file("nowhere"));
  const pid_t other = waitpid(-1, nullptr, WNOHANG | __WALL);
  sigaction(SIGCHLD, &before, nullptr);
  CHECK(good.failure.empty());
  CHECK(good.output == "6 * 7");
  CHECK(good.printed == "printed\n");
  CHECK(bad.failure == "It exited with status 3.");
  CHECK(bad.output.empty());
  CHECK(killed.failure == "It was killed by signal 9 (Killed).");
  CHECK(missing.failure == "It cannot be started: No such file or directory.");
  CHECK(other == -1);  // no zombie
  CHECK(signals == 0);
  CHECK(reaped == 0);
  CHECK(fs::is_empty(temporary()));
}

TEST_CASE_METHOD(Place, "a program that a killed process has started ends, with all that it has") {
  const std::string body = "echo $$ > '" + file("pids") + "'; sleep 600 & echo $! >> '" +
                           file("pids") + "'; mkdir -p \"$TMPDIR/a/b\"; touch \"$TMPDIR/a/b/c\"; ";
  const pid_t job = fork();
  if (job == 0) {
    (void)run(script(body + "kill -KILL " + std::to_string(getpid()) + "; sleep 600"));
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(job, &status, 0) == job);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  const std::vector<pid_t> pids = numbers_in(file("pids"));
  REQUIRE(pids.size() == 2);
  await([&] { return !is_running(pids[0]) && !is_running(pids[1]); });
  await([&] { return fs::is_empty(temporary()); });
}

TEST_CASE_METHOD(Place, "nothing is left at whatever moment a process is killed") {
  const std::string program = script("cat \"$1/question\" > \"$1/answer\"");
  for (int moment = 0; moment < 40; ++moment) {
    const pid_t job = fork();
    if (job == 0) {
      for (;;) (void)run(program);
    }
    std::this_thread::sleep_for(moment * 211us);
    kill(job, SIGKILL);
    REQUIRE(waitpid(job, nullptr, 0) == job);
  }
  await([&] { return fs::is_empty(temporary()); });
}

TEST_CASE_METHOD(Place,
                 "a running program's directory is no leftover, and where its watcher is "
                 "killed it ends and the directory goes") {
  const std::string program =
      script("echo $$ $PPID > '" + file("pids") + "'; sleep 600 & echo $! >> '" + file("pids") +
             "'; mv '" + file("pids") + "' '" + file("ready") + "'; wait");
  jit::Outcome outcome;
  std::thread running([&] { outcome = run(program); });
  await([&] { return fs::exists(file("ready")); });
  jit::try_remove_leftovers(temporary(), "coconet-jit-scratch-");
  const bool is_there = !fs::is_empty(temporary());
  const std::vector<pid_t> pids = numbers_in(file("ready"));
  if (pids.size() == 3) kill(pids[1], SIGKILL);
  running.join();
  CHECK(is_there);
  REQUIRE(pids.size() == 3);
  CHECK(outcome.failure == "The process that watches over it was killed by signal 9 (Killed).");
  await([&] { return !is_running(pids[0]) && !is_running(pids[2]); });
  CHECK(fs::is_empty(temporary()));
}

TEST_CASE_METHOD(Place, "where the watcher of a program that has ended is killed, nobody else is") {
  // The watcher cannot remove folders so deep, and tries for a second.
  const std::string program =
      script("mkdir -p \"$1/1/2/3/4/5/6/7/8/9/10\"; sleep 600 & echo $$ $PPID $! > '" +
             file("pids") + "'; mv '" + file("pids") + "' '" + file("ready") + "'");
  jit::Outcome outcome;
  std::thread running([&] { outcome = run(program); });
  await([&] { return fs::exists(file("ready")); });
  const std::vector<pid_t> pids = numbers_in(file("ready"));
  if (pids.size() == 3) {
    await([&] { return kill(pids[0], 0) == -1; });
    kill(pids[1], SIGKILL);
  }
  running.join();
  REQUIRE(pids.size() == 3);
  CHECK(is_running(pids[2]));  // in the program's group, which may be anybody's by now
  kill(pids[2], SIGKILL);
  CHECK(fs::is_empty(temporary()));
}

TEST_CASE_METHOD(Place, "a program gets no descriptor of the application's") {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);  // without O_CLOEXEC
  struct stat status {};
  REQUIRE(fstat(pipe_ends[0], &status) == 0);
  const jit::Outcome outcome = run(script("ls -l /proc/$$/fd > $1/list; grep -c 'pipe:.'" +
                                          std::to_string(status.st_ino) + " $1/list; true"));
  CHECK(outcome.printed == "0\n");
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_CASE_METHOD(Place,
                 "without descriptors or a place for files there is a sentence, and no file") {
  const std::string program = script("exit 0");
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  jit::ProgramRun asked{.timeout = 60s};
  asked.arguments = {program};
  setrlimit(RLIMIT_NOFILE, &none);
  const jit::Outcome outcome = jit::run_program(asked);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(outcome.failure == "It cannot be started: Too many open files.");
  CHECK(fs::is_empty(temporary()));
  asked.directory = scratch.path() / "nowhere" / "directory";
  CHECK_THROWS_WITH(jit::run_program(asked),
                    "There is no place for temporary files under '" + file("nowhere") +
                        "' (No such file or directory); TMPDIR names another directory.");
}
