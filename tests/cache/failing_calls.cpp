// The C library's functions of the same names, for the whole program.
#include "cache/failing_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>

namespace coconet::jit {
namespace {

std::atomic<int> failing{-1};  // a SystemCall
std::atomic<int> failure{0};
std::atomic<std::size_t> room{0};

bool fails(SystemCall call) {
  if (failing != static_cast<int>(call)) return false;
  errno = failure;
  return true;
}

}  // namespace

FailingCalls::FailingCalls(SystemCall call, int error, std::size_t bytes) {
  failure = error;
  room = bytes;
  failing = static_cast<int>(call);
}

FailingCalls::~FailingCalls() {
  failing = -1;
}

}  // namespace coconet::jit

using coconet::jit::SystemCall;

extern "C" ssize_t write(int file, const void* bytes, size_t count) {
  if (file > STDERR_FILENO && coconet::jit::fails(SystemCall::write)) {
    size_t left = coconet::jit::room;
    while (left != 0 &&
           !coconet::jit::room.compare_exchange_weak(left, left - std::min(left, count))) {
    }
    if (left == 0) {
      errno = coconet::jit::failure;
      return -1;
    }
    count = std::min(left, count);
  }
  return syscall(SYS_write, file, bytes, count);
}

extern "C" int fsync(int file) {
  if (coconet::jit::fails(SystemCall::sync)) return -1;
  return static_cast<int>(syscall(SYS_fsync, file));
}

extern "C" int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command == F_OFD_SETLK && coconet::jit::fails(SystemCall::lock)) return -1;
  return static_cast<int>(syscall(SYS_fcntl, file, command, argument));
}

extern "C" int renameat2(int from, const char* old_name, int to, const char* new_name,
                         unsigned flags) noexcept {
  if (coconet::jit::fails(SystemCall::rename_without_replacing)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, from, old_name, to, new_name, flags));
}
