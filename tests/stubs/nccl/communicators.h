// Communicators: the ranks of one process that came with the same unique id, where their
// collectives meet, and their messages.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "nccl_api.h"

namespace stub {

/// What a rank brings to a collective. Pointers are the host's.
struct Part {
  std::string function;
  const char* send = nullptr;
  char* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;  ///< of a message: the other rank
  bool send_in_window = false;
  bool receive_in_window = false;

  /// Whether the two belong together; buffers may differ.
  [[nodiscard]] bool matches(const Part& other) const;
};

struct Barrier {
  std::map<int, Part> parts;  ///< by rank
  bool done = false;
};

/// What one rank has sent to another.
struct Message {
  std::string bytes;
  ncclDataType_t type = ncclFloat32;
};

/// Memory that NCCL was told of: a device address and bytes.
struct OpenWindow {
  const char* data = nullptr;
  std::size_t bytes = 0;
};

struct Clique {
  std::size_t ranks = 0;
  std::map<int, int> devices;  ///< by rank, of those that are here
  std::map<std::uint64_t, std::shared_ptr<Barrier>> meetings;
  std::map<std::pair<int, int>, std::deque<Message>> messages;  ///< by sender and receiver
  std::map<std::size_t, std::set<std::size_t>> windows;  ///< by turn: the bytes that ranks gave
  std::string error;                                     ///< why its calls are wrong
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool aborted = false;
  std::uint64_t collectives = 0;  ///< that its streams have come to
  std::size_t registrations = 0;  ///< calls of ncclCommWindowRegister
  std::map<std::size_t, OpenWindow> windows;
  std::chrono::steady_clock::time_point deadline;

  /// ncclInProgress until all ranks are here, or late.
  [[nodiscard]] ncclResult_t state() const;
  [[nodiscard]] bool has_window(const char* data, std::size_t bytes) const;
};

/// One lock for all of it; operations wait for `changed`.
std::mutex& mutex();
std::condition_variable& changed();

/// Runs in a stream: brings `part` to the communicator's next meeting and stays until the result is
/// there, or the communicator is aborted.
void meet(Communicator& communicator, Part part);

/// Runs in a stream: leaves a message for rank `part.root`, without waiting for it.
void post(Communicator& communicator, const Part& part);
/// Runs in a stream: waits for the message of rank `part.root`, or until the communicator is
/// aborted.
void take(Communicator& communicator, const Part& part);

}  // namespace stub
