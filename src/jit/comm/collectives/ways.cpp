// Choosing the ways of a group's collectives, and the times that they are chosen by.
#include "jit/comm/collectives/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "jit/comm/collectives/direct_collectives.h"
#include "jit/config/log.h"

namespace coconet::jit {

namespace {

constexpr std::string_view name_in_errors = "collectives";

}  // namespace

CollectiveWays ways_for(const HandOver& took) {
  constexpr double clearly = 1.5;
  if (took.cached > clearly * (took.local + took.past_caches))
    return {CollectiveWays::always, std::size_t{4} << 10};
  return {};
}

// What is in use later: the copies of the boards, whose lines the neighbour had when they were last
// read.
void DirectCollectives::find_ways() {
  constexpr std::size_t bytes = std::size_t{64} << 10;
  constexpr int rounds = 5;
  const std::vector<std::byte> mine(bytes);
  std::vector<std::byte> taken(bytes);
  Board& own = *boards_[rank()];
  const Board& next = *boards_[(rank() + 1) % size()];
  const auto microseconds = [](const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count();
  };
  const auto hand_over = [&](bool past_caches) {
    barrier_->wait(name_in_errors);
    return microseconds([&] {
      copy_to({own.copies[0].data(), past_caches}, mine.data(), bytes);
      barrier_->wait(name_in_errors);
      copy_to({taken.data()}, next.copies[0].data(), bytes);
    });
  };
  // The least of each: what takes longer was interrupted.
  constexpr double unmeasured = std::numeric_limits<double>::infinity();
  HandOver least{unmeasured, unmeasured, unmeasured};
  for (int round = 0; round < rounds; ++round) {
    least.cached = std::min(least.cached, hand_over(false));
    least.past_caches = std::min(least.past_caches, hand_over(true));
    least.local =
        std::min(least.local, microseconds([&] { copy_to({taken.data()}, mine.data(), bytes); }));
  }
  std::memcpy(own.copies[1].data(), &least, sizeof least);  // the others may read copy 0 yet
  barrier_->wait(name_in_errors);
  HandOver slowest;
  for (const Board* const board : boards_) {
    HandOver one;
    std::memcpy(&one, board->copies[1].data(), sizeof one);
    slowest = {std::max(slowest.cached, one.cached), std::max(slowest.past_caches, one.past_caches),
               std::max(slowest.local, one.local)};
  }
  barrier_->wait(name_in_errors);
  found_ = ways_for(slowest);
  if (rank() == 0) {
    log_debug(fmt::format(
        "collectives of {} ranks: 64 KiB take {:.1f} us from another core's caches and {:.1f} us "
        "past them, a copy {:.1f} us; so {} in reach are copied, past the caches from {} bytes on",
        size(), slowest.cached, slowest.past_caches, slowest.local,
        found_.copied_bytes == CollectiveWays::always
            ? "all tensors"
            : fmt::format("tensors of up to {} bytes", found_.copied_bytes),
        found_.streamed_bytes));
  }
}

}  // namespace coconet::jit
