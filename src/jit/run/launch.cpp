// Filling argument blocks.
#include "jit/run/launch.h"

#include <algorithm>
#include <bit>

#include "jit/bind/grid.h"
#include "jit/config/build_info.h"

namespace coconet::jit {

namespace {

// The prelude's VECTORIZE and STREAMING.
constexpr std::uint64_t vectorize_mode = 1;
constexpr std::uint64_t streaming_mode = 2;
constexpr std::size_t widest_vector = 64;

/// From this size of a rank's slice on, stores to other ranks go past the caches: the lines are in the other rank's
/// cache or in none, and fetching them to overwrite them costs more than it saves. Measured on 2 ranks of one socket:
/// 10 to 40 % of a step from 512 KiB to 32 MiB, a loss below 64 KiB, mixed between.
constexpr std::uint64_t streaming_bytes = 512 << 10;

std::int64_t product_of(const ir::Extents& extents, const std::vector<int>& dims, bool listed) {
  std::int64_t product = 1;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (std::binary_search(dims.begin(), dims.end(), static_cast<int>(d)) == listed)
      product *= extents[d];
  }
  return product;
}

}  // namespace

KernelLaunch::KernelLaunch(const RankPlan& plan, const sched::KernelStep& step, KernelText text,
                           std::shared_ptr<const Kernel> kernel, const Grid& grid,
                           std::size_t number, KernelMemory memory, StepSync& sync,
                           BucketTables& tables, const AllTileCounts& tiles)
    : text_(std::move(text)),
      kernel_(std::move(kernel)),
      grid_(grid),
      axis_(step.axis),
      group_(plan.group(step.axis)),
      in_rows_(!text_.linear),
      in_place_(step.in_place),
      memory_(std::move(memory)) {
  const ir::Part& part = plan.domain(step);
  const std::vector<int> reduced = step.is_reduction()
                                       ? plan.graph().at(step.reductions().front()).attributes.dims
                                       : std::vector<int>{};
  const auto view_of_argument = [&](const KernelArgument& argument) {
    return argument.buffer >= 0 ? plan.view(step, argument.buffer)
                                : plan.view_of_whole(step, argument.value);
  };
  for (const KernelArgument& argument : text_.arguments) {
    const auto push = [&](std::int64_t word) {
      words_.push_back(static_cast<std::uint64_t>(word));
    };
    const auto append = [&](const std::vector<std::uint64_t>& words) {
      words_.insert(words_.end(), words.begin(), words.end());
    };
    const auto dim = static_cast<std::size_t>(argument.dim);
    const bool is_list = argument.buffer >= 0 && plan.buffer(argument.buffer).scattered;
    switch (argument.kind) {
      case KernelArgument::Kind::pointer:
        if (is_list) {
          append({tables.list_word(argument.buffer, plan.rank())});
          break;
        }
        pointers_.push_back({words_.size(), argument.buffer, false, false});
        push(0);
        break;
      case KernelArgument::Kind::pointers:
        if (is_list) {
          for (const int peer : group_) append({tables.list_word(argument.buffer, peer)});
          break;
        }
        pointers_.push_back({words_.size(), argument.buffer, true, false});
        words_.resize(words_.size() + group_.size());
        break;
      case KernelArgument::Kind::multicast:
        pointers_.push_back({words_.size(), argument.buffer, true, true});
        words_.resize(words_.size() + group_.size() + 1);
        break;
      case KernelArgument::Kind::offset:
        push(view_of_argument(argument).offset);
        break;
      case KernelArgument::Kind::stride:
        push(view_of_argument(argument).strides[dim]);
        break;
      case KernelArgument::Kind::extent:
        push(part.extent[dim]);
        break;
      case KernelArgument::Kind::count:
        push(part.count());
        break;
      case KernelArgument::Kind::rows:
        push(part.extent.empty() || part.count() == 0 ? 0 : part.count() / part.extent.back());
        break;
      case KernelArgument::Kind::outputs:
        push(product_of(part.extent, reduced, false));
        break;
      case KernelArgument::Kind::inner:
        push(product_of(part.extent, reduced, true));
        break;
      case KernelArgument::Kind::number:
        numbers_.push_back({words_.size(), argument.value});
        push(0);
        break;
      case KernelArgument::Kind::mode:
        mode_at_ = words_.size();
        push(vectorize_mode);
        break;
      case KernelArgument::Kind::tiles:
        append(tiles.at(argument.buffer).words());
        tile_runs_.push_back(words_.size() - 1);
        break;
      case KernelArgument::Kind::sync:
        append(sync.sync_words(axis_, number));
        epoch_at_ = words_.size() - StepSync::epoch_word_from_end;
        break;
      case KernelArgument::Kind::totals:
        append(memory_.totals_words(group_));
        turn_at_ = words_.size() - 1;
        break;
      case KernelArgument::Kind::slices:
        append(memory_.slices_words());
        break;
      case KernelArgument::Kind::mail:
        first_chunk_at_ = words_.size() + group_.size();
        append(memory_.mail_words(group_));
        break;
      case KernelArgument::Kind::buckets:
        append(tables.rows_words(plan.graph().at(step.domain).shape.front().name,
                                 part.begin.front(), part.extent.front()));
        break;
    }
  }
  const auto bytes_of = [&](sched::BufferId id, bool on_all_ranks) {
    const View seen = plan.view(step, id);
    std::uint64_t count = 1;
    for (std::size_t d = 0; d < part.extent.size(); ++d) {
      if (seen.strides[d] != 0) count *= static_cast<std::uint64_t>(part.extent[d]);
    }
    return count * plan.element_size(id) * (on_all_ranks ? group_.size() : 1);
  };
  const std::size_t lanes = lanes_of(plan.plan(), step);
  const auto add_access = [&](sched::BufferId id, bool of_peers) {
    const View seen = plan.view(step, id);
    const std::size_t size = plan.element_size(id);
    const std::size_t alignment = std::min(widest_access, lanes * size);
    const bool repeats = in_rows_ && (seen.strides.empty() || seen.strides.back() == 0);
    if (repeats || alignment == 0 || text_.by_bucket) return;
    accesses_.push_back({id, of_peers, alignment});
    std::uint64_t offsets = static_cast<std::uint64_t>(seen.offset);
    for (std::size_t d = 0; in_rows_ && d + 1 < seen.strides.size(); ++d) {
      if (part.extent[d] > 1) offsets |= static_cast<std::uint64_t>(seen.strides[d]);
    }
    // The lowest set bit of all offsets divides each of them.
    if (offsets * size % alignment != 0) aligned_in_tensors_ = false;
  };
  const auto add_slices = [&](sched::BufferId id) {
    // Slices of other ranks begin elsewhere; where rows matter, vectors begin at any element.
    const std::size_t size = plan.element_size(id);
    const auto strides = static_cast<std::uint64_t>(memory_.slice_stride() | memory_.row_stride());
    const std::size_t alignment = std::min(widest_access, lanes * size);
    if (in_rows_ || strides * size % alignment != 0) aligned_in_tensors_ = false;
  };
  const bool mailboxes = step.is_collective && !step.in_place;
  for (const sched::KernelStep::Phase& phase : step.phases) {
    if (step.is_reduction()) break;
    for (const auto& load : phase.loads) {
      add_access(load.buffer, load.combined && step.in_place);
      if (load.combined && mailboxes) add_slices(load.buffer);
    }
    for (const auto& store : phase.stores) {
      add_access(store.buffer, store.spread && step.in_place);
      if (store.spread && mailboxes) add_slices(store.buffer);
    }
  }
  for (const auto& load : step.loads()) bytes_ += bytes_of(load.buffer, load.combined);
  for (const auto& store : step.stores()) {
    if (store.spread && step.in_place) {
      const auto size = static_cast<std::int64_t>(plan.element_size(store.buffer));
      gathered_.push_back({store.buffer,
                           static_cast<std::size_t>(plan.view(step, store.buffer).offset * size),
                           bytes_of(store.buffer, false)});
    }
    bytes_ += step.is_reduction()
                  ? static_cast<std::uint64_t>(product_of(part.extent, reduced, false)) *
                        plan.element_size(store.buffer)
                  : bytes_of(store.buffer, store.spread);
  }
}

bool KernelLaunch::can_vectorize(const Tensors& tensors) const {
  const auto aligned = [](const std::byte* data, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
  };
  return aligned_in_tensors_ &&
         std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
           const Tensors::Tensor& tensor = tensors[access.buffer];
           if (!access.of_peers) return aligned(tensor.data, access.alignment);
           return std::all_of(tensor.peers.begin(), tensor.peers.end(), [&](const std::byte* peer) {
             return aligned(peer, access.alignment);
           });
         });
}

bool KernelLaunch::can_stream(const Tensors& tensors) const {
  // Rows begin anywhere, a kernel looks itself where buckets do, and instrumented kernels keep to stores that a sanitizer sees.
  if (in_rows_ || gathered_.empty() || !build_info::sanitize.empty()) return false;
  return std::all_of(gathered_.begin(), gathered_.end(), [&](const Gathered& store) {
    if (store.bytes < streaming_bytes) return false;
    if (text_.by_bucket) return true;
    const std::vector<std::byte*>& peers = tensors[store.buffer].peers;
    return std::all_of(peers.begin(), peers.end(), [&](const std::byte* peer) {
      return (reinterpret_cast<std::uintptr_t>(peer) + store.offset_bytes) % widest_vector == 0;
    });
  });
}

void KernelLaunch::refresh_pointers(const Tensors& tensors) {
  if (mode_at_ != no_word)
    words_[mode_at_] =
        (can_vectorize(tensors) ? vectorize_mode : 0) | (can_stream(tensors) ? streaming_mode : 0);
  for (const PointerWord& pointer : pointers_) {
    const Tensors::Tensor& tensor = tensors[pointer.buffer];
    if (!pointer.of_peers) {
      words_[pointer.word] = reinterpret_cast<std::uint64_t>(tensor.data);
      continue;
    }
    for (std::size_t i = 0; i < group_.size(); ++i) {
      words_[pointer.word + i] =
          reinterpret_cast<std::uint64_t>(tensor.peers[static_cast<std::size_t>(group_[i])]);
    }
    if (pointer.multicast)
      words_[pointer.word + group_.size()] = reinterpret_cast<std::uint64_t>(tensor.multicast);
  }
  tensors_version_ = tensors.version();
}

void KernelLaunch::prepare(const Tensors& tensors, const Numbers& numbers, StepSync& sync) {
  if (tensors_version_ != tensors.version()) refresh_pointers(tensors);
  for (const NumberWord& number : numbers_)
    words_[number.word] = std::bit_cast<std::uint64_t>(numbers[number.value]);
  if (collective()) words_[epoch_at_] = sync.next_epoch(axis_, text_.barriers);
  if (turn_at_ != no_word) words_[turn_at_] = launches_;
  if (first_chunk_at_ != no_word) words_[first_chunk_at_] = launches_ * memory_.chunks();
  ++launches_;
  for (const std::size_t word : tile_runs_) words_[word] = launches_;
}

void KernelLaunch::refuse(StepSync& sync) {
  sync.fail_kernel(axis_, grid_.blocks, text_.barriers);
  ++launches_;
}

}  // namespace coconet::jit
