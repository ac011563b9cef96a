// Collectives: the last rank to come computes what all ranks get.
#include <cstring>

#include "arithmetic.h"
#include "communicators.h"

namespace stub {
namespace {

using Parts = std::map<int, Part>;

std::vector<const char*> sources(const Parts& parts, std::size_t offset) {
  std::vector<const char*> from;
  for (const auto& [rank, part] : parts) from.push_back(part.send + offset);
  return from;
}

// Results are complete before any is written: buffers may be the same.
std::vector<std::string> results(const Parts& parts) {
  const Part& first = parts.begin()->second;
  const std::size_t bytes = first.count * width_of(first.type);
  std::vector<std::string> of_rank;
  if (first.function == "ncclAllGather") {
    std::string all;
    for (const auto& [rank, part] : parts) all.append(part.send, bytes);
    of_rank.assign(parts.size(), all);
  } else if (first.function == "ncclBroadcast") {
    of_rank.assign(parts.size(), std::string(parts.at(first.root).send, bytes));
  } else if (first.function == "ncclReduceScatter") {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      of_rank.emplace_back(bytes, '\0');
      reduce(of_rank.back().data(), sources(parts, rank * bytes), first.count, first.type,
             first.op);
    }
  } else {
    std::string sum(bytes, '\0');
    reduce(sum.data(), sources(parts, 0), first.count, first.type, first.op);
    of_rank.assign(parts.size(), sum);
    if (first.function == "ncclReduce") {
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        if (static_cast<int>(rank) != first.root) of_rank[rank].clear();
      }
    }
  }
  return of_rank;
}

void finish(Clique& clique, const Parts& parts) {
  const Part& first = parts.begin()->second;
  for (const auto& [rank, part] : parts) {
    if (first.matches(part)) continue;
    clique.error = "rank 0 is in " + first.function + " of " + std::to_string(first.count) +
                   " elements and rank " + std::to_string(rank) + " in " + part.function + " of " +
                   std::to_string(part.count) +
                   ", or with another type, operation, root or memory in windows";
    return;
  }
  const std::vector<std::string> of_rank = results(parts);
  for (const auto& [rank, part] : parts) {
    const std::string& result = of_rank[static_cast<std::size_t>(rank)];
    if (!result.empty()) std::memcpy(part.receive, result.data(), result.size());
  }
}

}  // namespace

bool Part::matches(const Part& other) const {
  return function == other.function && count == other.count && type == other.type &&
         op == other.op && root == other.root && send_in_window == other.send_in_window &&
         receive_in_window == other.receive_in_window;
}

void meet(Communicator& communicator, Part part) {
  std::unique_lock<std::mutex> lock(mutex());
  if (communicator.aborted) return;
  Clique& clique = *communicator.clique;
  const std::uint64_t number = communicator.collectives++;
  std::shared_ptr<Barrier>& place = clique.meetings[number];
  if (place == nullptr) place = std::make_shared<Barrier>();
  const std::shared_ptr<Barrier> meeting = place;
  meeting->parts[communicator.rank] = std::move(part);
  if (meeting->parts.size() == clique.ranks) {
    finish(clique, meeting->parts);
    meeting->done = true;
    clique.meetings.erase(number);
    changed().notify_all();
  }
  changed().wait(lock, [&] { return meeting->done || communicator.aborted; });
}

}  // namespace stub
