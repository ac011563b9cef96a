// Collective success: a step that fails on one rank fails on all of them.
#include <exception>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

void together(Comm& comm, const std::function<void()>& body) {
  std::exception_ptr mine;
  std::string status;  // empty: all is well
  try {
    body();
  } catch (const std::exception& e) {
    mine = std::current_exception();
    status = std::string("!") + e.what();
  } catch (...) {
    mine = std::current_exception();
    status = "!an exception that is no std::exception";
  }

  std::vector<std::string> statuses;
  try {
    statuses = comm.all_gather(status);
  } catch (const CommError&) {
    // The world itself is lost; an own error is nearer to the cause.
    if (mine) std::rethrow_exception(mine);
    throw;
  }
  if (mine) std::rethrow_exception(mine);
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    if (!statuses[rank].empty()) {
      throw PeerFailure("rank " + std::to_string(comm.number_of(static_cast<int>(rank))) + ": " +
                        statuses[rank].substr(1));
    }
  }
}

}  // namespace coconet::jit
