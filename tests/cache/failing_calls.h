// System calls that fail on demand: a full disk, or a file system without locks, where neither is
// at hand.
#pragma once

#include <cstddef>

namespace coconet::jit {

enum class SystemCall { write, sync, lock, rename_without_replacing };

/// While the object lives, `call` fails with `error` in this process, on all files but standard
/// output and error. Calls of `write` first take `bytes` bytes in all. One object at a time.
class FailingCalls {
 public:
  FailingCalls(SystemCall call, int error, std::size_t bytes = 0);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
};

}  // namespace coconet::jit
