// Collective work on disks; see disk_wait.h.
#include "jit/run/disk_wait.h"

#include <exception>

#include "coconet/error.h"

namespace coconet::jit {

void together_on_disk(Comm& comm, std::uint64_t bytes, const std::function<void()>& body) {
  constexpr std::uint64_t slow_disk = 10'000;              // bytes in a millisecond
  constexpr std::chrono::milliseconds least{10 * 60'000};  // names and syncs may wait for others
  std::exception_ptr mine;
  try {
    body();
  } catch (...) {
    mine = std::current_exception();
  }
  try {
    comm.barrier(least + std::chrono::milliseconds(bytes / slow_disk));
  } catch (const CommError&) {
    if (!mine) throw;  // an own error is nearer to the cause
  }
  together(comm, [&] {
    if (mine) std::rethrow_exception(mine);
  });
}

}  // namespace coconet::jit
