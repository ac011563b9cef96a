// The tables through which kernels find scattered tensors: buckets, which cut what a kernel runs over where buffers end,
// and for each tensor a list of where its buffers are, on this rank and on those that it reaches.
//
// A bucket's row is 24 bytes and stands for up to `bucket_elements`; a buffer's entry in a list is 8 bytes. Rows are the
// same for all tensors of one list of lengths, and do not change; lists are copied again when memory is bound.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "jit/bind/tensors.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// The prelude's Bucket: elements [begin, begin + length) of a part of a tensor, which lie in one buffer.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t start = 0;  ///< the buffer's first element in the whole
  std::uint32_t length = 0;
  std::uint32_t buffer = 0;
  bool operator==(const Bucket&) const = default;
};

/// Of f16, 8 KiB: a row is then 0.3 % of what it stands for, and what a loop costs to begin is less than 1 % of it.
inline constexpr std::int64_t bucket_elements = 4096;

/// The buckets of elements [begin, begin + count) of buffers of `lengths`, one after the other. Their own `begin` counts
/// from there. Buckets but the first of a buffer begin at a multiple of `bucket_elements` in it.
[[nodiscard]] std::vector<Bucket> make_buckets(std::span<const std::int64_t> lengths,
                                               std::int64_t begin, std::int64_t count);

class BucketTables {
 public:
  BucketTables(const Platform& platform, const RankPlan& plan);

  /// The prelude's Buckets of elements [begin, begin + count) along `dim`.
  [[nodiscard]] std::vector<std::uint64_t> rows_words(const std::string& dim, std::int64_t begin,
                                                      std::int64_t count);
  /// Where the list of the scattered `buffer` of `rank` is, which must be this rank where others do not reach it.
  [[nodiscard]] std::uint64_t list_word(sched::BufferId buffer, int rank) const;
  /// Puts copies of the lists into `queue` if tensors have moved since the last call.
  void refresh(const Tensors& tensors, Queue& queue);
  /// Of all rows and lists on this rank.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Rows {
    std::shared_ptr<Memory> memory;
    std::size_t count = 0;
  };
  const Platform& platform_;
  const RankPlan& plan_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Rows> rows_;
  /// Of a scattered tensor: for each rank that kernels reach, or this one alone, a word for each of its buffers.
  struct Places {
    std::size_t first = 0;  ///< in `words_`
    std::size_t length = 0;
    bool of_ranks = false;
  };
  std::map<sched::BufferId, Places> places_;
  std::vector<std::uint64_t> words_;  ///< of all lists, as they are in `memory_`
  std::shared_ptr<Memory> memory_;
  std::uint64_t version_ = 0;
};

}  // namespace coconet::jit
