// Making and refreshing bucket tables.
#include "jit/bind/bucket_table.h"

#include <algorithm>

namespace coconet::jit {

std::vector<abi::Bucket> make_buckets(std::span<const std::int64_t> lengths, std::int64_t begin,
                                      std::int64_t count) {
  std::vector<abi::Bucket> buckets;
  const std::int64_t end = begin + count;
  std::int64_t start = 0;  // of the buffer
  for (std::size_t buffer = 0; buffer < lengths.size(); start += lengths[buffer++]) {
    const std::int64_t last = std::min(end, start + lengths[buffer]);
    for (std::int64_t at = std::max(begin, start); at < last;) {
      const std::int64_t next = start + ((at - start) / bucket_elements + 1) * bucket_elements;
      const std::int64_t stop = std::min(last, next);
      buckets.push_back({at - begin, start, static_cast<std::uint32_t>(stop - at),
                         static_cast<std::uint32_t>(buffer)});
      at = stop;
    }
  }
  return buckets;
}

BucketTables::BucketTables(const Platform& platform, const RankPlan& plan)
    : platform_(platform), plan_(plan) {
  for (sched::BufferId id = 0; id < plan.plan().buffers.count(); ++id) {
    const sched::PlanBuffer& buffer = plan.buffer(id);
    if (!buffer.scattered) continue;
    const std::size_t length = plan.lengths(id).size();
    places_[id] = {addresses_.size(), length, buffer.peer_access};
    addresses_.resize(addresses_.size() + length * (buffer.peer_access ? plan.mesh().size() : 1));
  }
  if (!addresses_.empty()) memory_ = platform.allocate(addresses_.size() * sizeof(std::byte*));
}

template <class T>
std::shared_ptr<Memory> BucketTables::copy_of(const std::vector<T>& table) const {
  const std::size_t bytes = table.size() * sizeof(T);
  std::shared_ptr<Memory> memory = platform_.allocate(bytes);
  const std::unique_ptr<Queue> queue = platform_.make_queue();
  queue->copy(memory->data(), table.data(), bytes);
  queue->finish();
  return memory;
}

BucketTables::Rows& BucketTables::rows(const std::string& dim, std::int64_t begin,
                                       std::int64_t count) {
  const auto [found, added] = rows_.try_emplace({dim, begin, count});
  if (added) {
    const std::vector<abi::Bucket> buckets = make_buckets(plan_.lengths(dim), begin, count);
    found->second = {copy_of(buckets), buckets.size(), nullptr};
  }
  return found->second;
}

abi::Buckets BucketTables::buckets(const std::string& dim, std::int64_t begin, std::int64_t count) {
  const Rows& found = rows(dim, begin, count);
  return {.rows = reinterpret_cast<const abi::Bucket*>(found.memory->data()),
          .count = static_cast<abi::index_t>(found.count)};
}

const abi::index_t* BucketTables::first_buckets(const std::string& dim, std::int64_t begin,
                                                std::int64_t count) {
  Rows& found = rows(dim, begin, count);
  if (!found.first) {
    const std::vector<std::int64_t>& lengths = plan_.lengths(dim);
    std::vector<abi::index_t> first;
    abi::index_t row = 0;
    const std::vector<abi::Bucket> buckets = make_buckets(lengths, begin, count);
    for (std::size_t buffer = 0; buffer <= lengths.size(); ++buffer) {
      while (row < std::ssize(buckets) && buckets[static_cast<std::size_t>(row)].buffer < buffer)
        ++row;
      first.push_back(row);
    }
    found.first = copy_of(first);
  }
  return reinterpret_cast<const abi::index_t*>(found.first->data());
}

std::byte* BucketTables::addresses(sched::BufferId id, int rank) const {
  const Places& places = places_.at(id);
  const std::size_t before = places.of_ranks ? rank : 0;
  return memory_->data() + (places.first + before * places.length) * sizeof(std::byte*);
}

void BucketTables::refresh(const Tensors& tensors, Queue& queue) {
  if (addresses_.empty() || version_ == tensors.version()) return;
  for (const auto& [id, places] : places_) {
    for (std::size_t i = 0; i < places.length; ++i) {
      const Tensors::Piece& piece = tensors[id].pieces[i];
      std::byte** const of_first = &addresses_[places.first + i];
      if (!places.of_ranks) *of_first = piece.data;
      for (std::size_t rank = 0; rank < piece.peers.size(); ++rank)
        of_first[rank * places.length] = piece.peers[rank];
    }
  }
  queue.copy(memory_->data(), addresses_.data(), addresses_.size() * sizeof(std::byte*));
  version_ = tensors.version();
}

std::uint64_t BucketTables::bytes() const {
  std::uint64_t bytes = addresses_.size() * sizeof(std::byte*);
  for (const auto& [key, rows] : rows_) {
    bytes += rows.count * sizeof(abi::Bucket);
    if (rows.first) bytes += (plan_.lengths(std::get<0>(key)).size() + 1) * sizeof(abi::index_t);
  }
  return bytes;
}

}  // namespace coconet::jit
