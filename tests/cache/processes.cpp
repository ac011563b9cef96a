// Forking, waiting, killing.
#include "cache/processes.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

namespace coconet::jit {

Child::Child(const std::function<void()>& body) {
  process_ = fork();
  if (process_ == -1) throw std::runtime_error("cannot fork");
  if (process_ != 0) return;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a child says: %s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

Child::~Child() {
  if (process_ == -1) return;
  signal(SIGKILL);
  (void)finish();
}

void Child::signal(int number) const {
  ::kill(process_, number);
}

bool Child::finish() {
  int status = 0;
  while (waitpid(process_, &status, 0) == -1 && errno == EINTR) {
  }
  process_ = -1;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

StepSync::StepSync() {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  read_end_ = ends[0];
  write_end_ = ends[1];
}

StepSync::~StepSync() {
  if (write_end_ != -1) close(write_end_);
  close(read_end_);
}

void StepSync::open() {
  close(write_end_);
  write_end_ = -1;
}

void StepSync::pass() {
  open();
  char nothing = 0;
  while (read(read_end_, &nothing, 1) == -1 && errno == EINTR) {
  }
}

int failures_of(int count, const std::function<void(int)>& body) {
  StepSync gate;
  std::vector<Child> children;
  children.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    children.emplace_back([&, i] {
      gate.pass();
      body(i);
    });
  }
  gate.open();
  int failures = 0;
  for (Child& child : children) {
    if (!child.finish()) ++failures;
  }
  return failures;
}

std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  Child child([&] {
    close(ends[0]);
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = error.what();
    }
    if (write(ends[1], text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
  });
  close(ends[1]);
  std::string text;
  char block[4096];
  for (ssize_t got = 0; (got = read(ends[0], block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(got));
  close(ends[0]);
  return child.finish() ? text : "died";
}

void* map_shared(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot share memory");
  return memory;
}

void unmap_shared(void* memory, std::size_t bytes) {
  munmap(memory, bytes);
}

}  // namespace coconet::jit
