// A pipe holds the jobs' numbers: whoever is free takes the next. Each process has a file for what
// it says.
#include "jit/platform/forked_jobs.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>

namespace coconet::test {

namespace {

constexpr std::size_t most_jobs = 4096;  // 32 KiB, which a pipe takes before anyone reads

struct Child {
  pid_t pid;
  std::unique_ptr<std::FILE, decltype(&std::fclose)> said;
};

/// A pipe with the numbers below `count`, and its end: what to read them from.
int queue_of(std::size_t count) {
  std::array<int, 2> ends{};
  if (count > most_jobs || pipe(ends.data()) != 0)
    throw std::runtime_error("cannot queue " + std::to_string(count) + " jobs; at most " +
                             std::to_string(most_jobs) + " fit a pipe");
  for (std::size_t job = 0; job < count; ++job) {
    if (write(ends[1], &job, sizeof job) != sizeof job)
      throw std::runtime_error("cannot write to a pipe");
  }
  close(ends[1]);
  return ends[0];
}

/// A child's whole life; the exit code.
int work(int queue, std::FILE* said, const std::function<std::string(std::size_t)>& job) {
  const auto say = [&](const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), said) == text.size() && std::fflush(said) == 0;
  };
  try {
    std::size_t next = 0;
    ssize_t got = 0;
    while ((got = read(queue, &next, sizeof next)) == sizeof next) {
      if (!say(job(next))) return 1;
    }
    return got == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    (void)say(error.what());
    return 1;
  }
}

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 4096> block{};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file))
    text.append(block.data(), got);
  return text;
}

}  // namespace

std::vector<std::string> run_forked(std::size_t count, int processes,
                                    const std::function<std::string(std::size_t)>& job) {
  const int queue = queue_of(count);
  std::vector<Child> children;
  for (int process = 0; process < processes; ++process) {
    Child child{-1, {std::tmpfile(), &std::fclose}};
    if (child.said == nullptr) throw std::runtime_error("cannot make a temporary file");
    child.pid = fork();
    if (child.pid < 0) throw std::runtime_error("cannot fork");
    if (child.pid == 0) _exit(work(queue, child.said.get(), job));
    children.push_back(std::move(child));
  }
  close(queue);
  std::vector<std::string> said;
  for (const Child& child : children) {
    int status = 0;
    if (waitpid(child.pid, &status, 0) != child.pid) throw std::runtime_error("cannot wait");
    if (std::string text = text_of(child.said.get()); !text.empty())
      said.push_back(std::move(text));
    if (status != 0)
      said.push_back("a process ended before its jobs, " +
                     (WIFEXITED(status) ? "with code " + std::to_string(WEXITSTATUS(status))
                                        : "by signal " + std::to_string(WTERMSIG(status))));
  }
  return said;
}

}  // namespace coconet::test
