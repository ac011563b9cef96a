// Collective success: a step that fails on one rank fails on all of them.
#include <exception>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

std::vector<std::string> gather_together(Comm& comm, const std::function<std::string()>& body) {
  // Success or failure in the first byte.
  constexpr char success = '+';
  constexpr char failure = '!';
  std::exception_ptr mine;
  std::string message;
  try {
    message = success + body();
  } catch (const std::exception& e) {
    mine = std::current_exception();
    message = failure + std::string(e.what());
  } catch (...) {
    mine = std::current_exception();
    message = failure + std::string("an exception that is no std::exception");
  }

  std::vector<std::string> messages;
  try {
    messages = comm.all_gather(message);
  } catch (const CommError&) {
    // The world itself is lost; an own error is nearer to the cause.
    if (mine) std::rethrow_exception(mine);
    throw;
  }
  if (mine) std::rethrow_exception(mine);
  int rank = 0;
  for (std::string& other : messages) {
    const bool failed = other.front() == failure;
    other.erase(0, 1);
    if (failed) throw PeerFailure("rank " + std::to_string(comm.number_of(rank)) + ": " + other);
    ++rank;
  }
  return messages;
}

void together(Comm& comm, const std::function<void()>& body) {
  (void)gather_together(comm, [&] {
    body();
    return std::string();
  });
}

}  // namespace coconet::jit
