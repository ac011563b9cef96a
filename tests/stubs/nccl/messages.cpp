// Messages from one rank to another, in the order in which they were sent.
#include <cstring>

#include "arithmetic.h"
#include "communicators.h"

namespace stub {

void post(Communicator& communicator, const Part& part) {
  const std::unique_lock<std::mutex> lock(mutex());
  if (communicator.aborted) return;
  const std::string bytes(part.send, part.count * width_of(part.type));
  communicator.clique->messages[{communicator.rank, part.root}].push_back({bytes, part.type});
  changed().notify_all();
}

void take(Communicator& communicator, const Part& part) {
  std::unique_lock<std::mutex> lock(mutex());
  Clique& clique = *communicator.clique;
  auto& messages = clique.messages[{part.root, communicator.rank}];
  changed().wait(lock, [&] { return !messages.empty() || communicator.aborted; });
  if (communicator.aborted) return;
  const Message message = std::move(messages.front());
  messages.pop_front();
  if (message.type == part.type && message.bytes.size() == part.count * width_of(part.type)) {
    std::memcpy(part.receive, message.bytes.data(), message.bytes.size());
    return;
  }
  clique.error = "rank " + std::to_string(communicator.rank) + " waits for " +
                 std::to_string(part.count) + " elements, and rank " + std::to_string(part.root) +
                 " sent " + std::to_string(message.bytes.size()) + " bytes, or another type";
}

}  // namespace stub
