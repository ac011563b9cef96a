// Lookup tables for scattered tensors: buckets, which cut what a kernel runs over where buffers
// end, and the addresses of the buffers, on this rank and on those that it reaches.
//
// A bucket takes 24 bytes and stands for up to `bucket_elements`, an address 8. Tensors of the same
// lengths share buckets; addresses are copied again when memory is bound.
#pragma once

#include <tuple>

#include "jit/bind/tensors.h"

namespace coconet::jit {

/// Of f16, 8 KiB: a row is 0.3 % of it, and beginning a loop costs less than 1 %.
inline constexpr std::int64_t bucket_elements = 4096;

/// The buckets of elements [begin, begin + count) of buffers of `lengths`, one after the other.
/// Their own `begin` counts from there. Buckets but the first of a buffer begin at a multiple of
/// `bucket_elements` in it.
[[nodiscard]] std::vector<abi::Bucket> make_buckets(std::span<const std::int64_t> lengths,
                                                    std::int64_t begin, std::int64_t count);

class BucketTables {
 public:
  BucketTables(const Platform& platform, const RankPlan& plan);

  /// The buckets of elements [begin, begin + count) along `dim`.
  [[nodiscard]] abi::Buckets buckets(const std::string& dim, std::int64_t begin,
                                     std::int64_t count);
  /// For each buffer of `dim` its first of these buckets, and then their number.
  [[nodiscard]] const abi::index_t* first_buckets(const std::string& dim, std::int64_t begin,
                                                  std::int64_t count);
  /// The addresses of the scattered tensor `id` on `rank`, this one if no other reaches it.
  [[nodiscard]] std::byte* addresses(sched::BufferId id, int rank) const;
  /// Puts copies of the addresses into `queue` if tensors have moved since the last call.
  void refresh(const Tensors& tensors, Queue& queue);
  /// Of all buckets and addresses on this rank.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Rows {
    std::shared_ptr<Memory> memory;
    std::size_t count = 0;
    std::shared_ptr<Memory> first;  ///< null where nobody asked
  };
  [[nodiscard]] Rows& rows(const std::string& dim, std::int64_t begin, std::int64_t count);
  template <class T>
  [[nodiscard]] std::shared_ptr<Memory> copy_of(const std::vector<T>& table) const;

  const Platform& platform_;
  const RankPlan& plan_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Rows> rows_;
  /// The addresses of a scattered tensor's buffers, on each rank or on this one alone.
  struct Places {
    std::size_t first = 0;  ///< in `addresses_`
    std::size_t length = 0;
    bool of_ranks = false;
  };
  std::map<sched::BufferId, Places> places_;
  std::vector<std::byte*> addresses_;  ///< of all tensors, as they are in `memory_`
  std::shared_ptr<Memory> memory_;
  std::uint64_t version_ = 0;
};

}  // namespace coconet::jit
