// What brings the ranks of a Bootstrap together in tests, where they are threads.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/world.h"

namespace coconet::test {

/// A gather among threads, round by round.
class Meeting {
 public:
  explicit Meeting(int ranks) : texts_(static_cast<std::size_t>(ranks)) {}

  Bootstrap of(int rank) {
    return {rank, static_cast<int>(texts_.size()),
            [this, rank](std::string_view mine) { return gather(rank, mine); }};
  }

 private:
  std::vector<std::string> gather(int rank, std::string_view mine) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return readers_ == 0; });
    texts_[rank] = mine;
    if (++writers_ == texts_.size()) {
      writers_ = 0;
      readers_ = texts_.size();
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return readers_ > 0; });
    std::vector<std::string> all = texts_;
    --readers_;
    changed_.notify_all();
    return all;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  std::size_t writers_ = 0, readers_ = 0;
};

}  // namespace coconet::test
