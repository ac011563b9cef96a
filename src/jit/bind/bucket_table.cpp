// Making and refreshing bucket tables.
#include "jit/bind/bucket_table.h"

#include <algorithm>

namespace coconet::jit {

std::vector<Bucket> make_buckets(std::span<const std::int64_t> lengths, std::int64_t begin,
                                 std::int64_t count) {
  std::vector<Bucket> buckets;
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
  const auto ranks = static_cast<std::size_t>(plan.mesh().size());
  for (std::size_t i = 0; i < plan.plan().buffers.size(); ++i) {
    const auto id = static_cast<sched::BufferId>(i);
    const sched::PlanBuffer& buffer = plan.buffer(id);
    if (!buffer.scattered) continue;
    const std::size_t length = plan.lengths(id).size();
    places_[id] = {words_.size(), length, buffer.peer_access};
    words_.resize(words_.size() + length * (buffer.peer_access ? ranks : 1));
  }
  if (!words_.empty()) memory_ = platform.allocate(words_.size() * sizeof(std::uint64_t));
}

std::vector<std::uint64_t> BucketTables::rows_words(const std::string& dim, std::int64_t begin,
                                                    std::int64_t count) {
  const auto [found, added] = rows_.try_emplace({dim, begin, count});
  Rows& rows = found->second;
  if (added) {
    const std::vector<Bucket> buckets = make_buckets(plan_.lengths(dim), begin, count);
    rows.count = buckets.size();
    rows.memory = platform_.allocate(buckets.size() * sizeof(Bucket));
    const std::unique_ptr<Queue> queue = platform_.make_queue();
    queue->copy(rows.memory->data(), buckets.data(), buckets.size() * sizeof(Bucket));
    queue->finish();
  }
  return {reinterpret_cast<std::uint64_t>(rows.memory->data()), rows.count};
}

std::uint64_t BucketTables::list_word(sched::BufferId buffer, int rank) const {
  const Places& places = places_.at(buffer);
  const std::size_t list = places.of_ranks ? static_cast<std::size_t>(rank) : 0;
  const std::size_t word = places.first + list * places.length;
  return reinterpret_cast<std::uint64_t>(memory_->data() + word * sizeof(std::uint64_t));
}

void BucketTables::refresh(const Tensors& tensors, Queue& queue) {
  if (words_.empty() || version_ == tensors.version()) return;
  for (const auto& [id, places] : places_) {
    const Tensors::Tensor& tensor = tensors[id];
    for (std::size_t i = 0; i < places.length; ++i) {
      const Tensors::Piece& piece = tensor.pieces[i];
      const auto put = [&](std::size_t list, const std::byte* data) {
        words_[places.first + list * places.length + i] = reinterpret_cast<std::uint64_t>(data);
      };
      if (!places.of_ranks) put(0, piece.data);
      for (std::size_t rank = 0; rank < piece.peers.size(); ++rank) put(rank, piece.peers[rank]);
    }
  }
  queue.copy(memory_->data(), words_.data(), words_.size() * sizeof(std::uint64_t));
  version_ = tensors.version();
}

std::uint64_t BucketTables::bytes() const {
  std::uint64_t bytes = words_.size() * sizeof(std::uint64_t);
  for (const auto& [key, rows] : rows_) bytes += rows.count * sizeof(Bucket);
  return bytes;
}

}  // namespace coconet::jit
