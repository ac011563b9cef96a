// MPI's side of library collectives: its types and operators for ours, and calls of the sizes that
// it does well.
#include "jit/mpi/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "jit/comm/collectives/combine.h"
#include "jit/mpi/door.h"

namespace coconet::jit {

namespace {

/// f16 and bf16 are two bytes, which MPI moves and never reduces.
MPI_Datatype type_of(DType dtype) {
  static const std::map<DType, MPI_Datatype> types = {
      {f64, MPI_DOUBLE},  {f32, MPI_FLOAT},      {f16, MPI_UINT16_T}, {bf16, MPI_UINT16_T},
      {i64, MPI_INT64_T}, {i32, MPI_INT32_T},    {i16, MPI_INT16_T},  {i8, MPI_INT8_T},
      {u8, MPI_UINT8_T},  {boolean, MPI_UINT8_T}};
  return types.at(dtype);
}

constexpr std::array own_reductions{Reduction::sum, Reduction::prod, Reduction::max,
                                    Reduction::min};

/// An operator of MPI gets no data of ours, so that there is a function for each pair of a dtype
/// and a reduction, by number.
template <std::size_t pair>
void combine_for_mpi(void* in, void* inout, int* count, MPI_Datatype*) {
  combine(all_dtypes[pair / own_reductions.size()], own_reductions[pair % own_reductions.size()],
          in, inout, static_cast<std::size_t>(*count));
}

/// Sums and products are the same in either order. Largest and smallest are not, of +0 and -0 or of
/// two NaNs, so that MPI has to keep to the order of ranks to give all of them the same bits.
template <std::size_t... pairs>
std::map<std::pair<DType, Reduction>, MPI_Op> make_own_ops(std::index_sequence<pairs...>) {
  std::map<std::pair<DType, Reduction>, MPI_Op> ops;
  const auto add = [&](std::size_t pair, MPI_User_function* function) {
    const Reduction reduction = own_reductions[pair % own_reductions.size()];
    const bool commutes = reduction == Reduction::sum || reduction == Reduction::prod;
    MPI_Op_create(function, commutes, &ops[{all_dtypes[pair / own_reductions.size()], reduction}]);
  };
  (add(pairs, &combine_for_mpi<pairs>), ...);
  return ops;
}

MPI_Op own_op(DType dtype, Reduction reduction) {
  static const auto ops =
      make_own_ops(std::make_index_sequence<std::size(all_dtypes) * own_reductions.size()>());
  return ops.at({dtype, reduction});
}

/// MPI's own operator where it computes what ours does. MPI_MAX and MPI_MIN lose NaNs, and sums of
/// 8-bit integers saturate in Open MPI 4.1 instead of wrapping. A mean begins as a sum.
MPI_Op op_of(DType dtype, Reduction reduction) {
  if (reduction == Reduction::mean) reduction = Reduction::sum;
  const bool adds = reduction == Reduction::sum;
  const bool orders = reduction == Reduction::max || reduction == Reduction::min;
  if (dtype == boolean) return adds || reduction == Reduction::max ? MPI_LOR : MPI_LAND;
  if (orders ? is_float(dtype) : size_of(dtype) <= 2) return own_op(dtype, reduction);
  if (orders) return reduction == Reduction::max ? MPI_MAX : MPI_MIN;
  return adds ? MPI_SUM : MPI_PROD;
}

class MpiCollectives final : public Collectives {
 public:
  MpiCollectives(MPI_Comm comm, std::shared_ptr<Barrier> barrier)
      : comm_(comm), barrier_(std::move(barrier)) {}

  void run(Queue&, const CollectiveCall& call) override {
    require_sane(call, size());
    const auto& [in, out] = call.operands.front();
    barrier_->wait(to_string(call.op), {}, call.given);
    switch (call.op) {
      case ir::Op::all_reduce:
        return all_reduce(call, in, out);
      case ir::Op::reduce_scatter:
        return reduce_scatter(call, in, out);
      case ir::Op::all_gather:
        return all_gather(call, in, out);
      case ir::Op::all_to_all:
        return all_to_all(call, in, out);
      case ir::Op::reduce:
        if (is_16_bit(call.dtype)) return reduce_by_shares(call, in, out, call.root);
        return reduce_chunks(call, in, out, call.count, call.root);
      case ir::Op::broadcast:
        return broadcast_chunks(in, out, call.count, call.dtype, call.root);
      case ir::Op::send:
        return send(call, in, out);
      default:
        throw_unknown(call);
    }
  }

  void refuse() override { barrier_->refuse(); }

 private:
  template <class Body>
  void blocking(const char* call, const Body& body) const {
    call_mpi(barrier_->membership(), call, body);
  }
  [[nodiscard]] int rank() const { return barrier_->position(); }
  [[nodiscard]] int size() const { return barrier_->size(); }
  /// Bytes of one call that moves data: MPI counts in int, and so do its transports.
  static constexpr std::size_t largest_call = std::size_t{1} << 30;
  /// Bytes of one call that reduces: small enough to stay in a core's cache from the sender's copy
  /// to the receiver's sum. With Open MPI 4.1 and 2 ranks of one socket an AllReduce of 64 MiB
  /// takes half the time in such pieces, a ReduceScatter a quarter.
  static constexpr std::size_t reducing_call = std::size_t{1} << 20;
  /// Counts or places as MPI takes them, of what one call can move.
  static std::vector<int> ints(std::span<const std::size_t> counts) {
    return {counts.begin(), counts.end()};
  }
  static const void* from(const void* data, std::size_t bytes) {
    return static_cast<const std::byte*>(data) + bytes;
  }
  static void* to(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }

  /// Calls `body(byte offset, elements)` for pieces of at most `bytes` until all is covered; not at
  /// all for nothing.
  template <class Body>
  static void in_chunks(std::size_t bytes, std::size_t count, DType dtype, const Body& body) {
    const std::size_t chunk = bytes / size_of(dtype);
    for (std::size_t done = 0; done < count; done += chunk) {
      body(done * size_of(dtype), static_cast<int>(std::min(chunk, count - done)));
    }
  }

  /// Lengths of the shares of `count` elements that ranks reduce, as even as can be.
  [[nodiscard]] std::vector<int> shares(int count) const {
    std::vector<int> lengths;
    for (int left = size(); left > 0; --left) {
      lengths.push_back((count + left - 1) / left);
      count -= lengths.back();
    }
    return lengths;
  }

  /// Reduces a block on each rank, in rank order as where ranks share memory: 16-bit floats in f32,
  /// which is rounded once, where a reduction of MPI's would round each of its additions. `in` has
  /// the blocks of `counts` elements, one behind the other.
  void reduce_blocks(const CollectiveCall& call, const void* in, const std::vector<int>& counts,
                     void* out) {
    const MPI_Datatype type = type_of(call.dtype);
    const auto own = static_cast<std::size_t>(counts[rank()]);
    const std::size_t bytes = own * size_of(call.dtype);
    received_.resize(bytes * static_cast<std::size_t>(size()));
    const std::vector<int> each(static_cast<std::size_t>(size()), counts[rank()]);
    blocking("MPI_Alltoallv", [&] {
      return MPI_Alltoallv(in, counts.data(), places(counts).data(), type, received_.data(),
                           each.data(), places(each).data(), type, comm_);
    });
    std::vector<const void*> parts;
    for (int other = 0; other < size(); ++other)
      parts.push_back(from(received_.data(), bytes * static_cast<std::size_t>(other)));
    combine_in_order(call.dtype, call.reduction, parts, own, std::array{Destination{out}});
  }
  /// Where blocks of `counts` elements begin that lie one behind the other.
  static std::vector<int> places(const std::vector<int>& counts) {
    std::vector<int> begins(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
    return begins;
  }

  /// An all_reduce or, with a `root`, a reduce of 16-bit floats: each rank reduces a share, which
  /// then goes to all or to the root.
  void reduce_by_shares(const CollectiveCall& call, const void* in, void* out,
                        std::optional<int> root) {
    const MPI_Datatype type = type_of(call.dtype);
    in_chunks(reducing_call, call.count, call.dtype, [&](std::size_t at, int length) {
      const std::vector<int> counts = shares(length);
      const std::vector<int> begins = places(counts);
      const bool receives = !root || rank() == *root;
      const std::size_t size = size_of(call.dtype);
      reduced_.resize(static_cast<std::size_t>(counts[rank()]) * size);
      void* const mine = receives ? to(out, at + static_cast<std::size_t>(begins[rank()]) * size)
                                  : reduced_.data();
      reduce_blocks(call, from(in, at), counts, mine);
      void* const all = receives ? to(out, at) : nullptr;
      if (!root) {
        blocking("MPI_Allgatherv", [&] {
          return MPI_Allgatherv(MPI_IN_PLACE, 0, type, all, counts.data(), begins.data(), type,
                                comm_);
        });
      } else {
        blocking("MPI_Gatherv", [&] {
          return MPI_Gatherv(receives ? MPI_IN_PLACE : mine, counts[rank()], type, all,
                             counts.data(), begins.data(), type, *root, comm_);
        });
      }
    });
  }

  /// A reduce_scatter of 16-bit floats, in pieces of each rank's block.
  void reduce_scatter_blocks(const CollectiveCall& call, const void* in, void* out) {
    const std::vector<std::size_t> starts = block_starts(call.counts);
    const std::size_t size = size_of(call.dtype);
    if (starts.back() * size <= reducing_call)
      return reduce_blocks(call, in, ints(call.counts), out);
    const std::size_t piece =
        std::max<std::size_t>(1, reducing_call / size / static_cast<std::size_t>(this->size()));
    const std::size_t longest = *std::ranges::max_element(call.counts);
    for (std::size_t done = 0; done < longest; done += piece) {
      std::vector<int> counts;
      pieces_.clear();
      for (std::size_t block = 0; block < call.counts.size(); ++block) {
        const std::size_t count = call.counts[block];
        const std::size_t length = std::min(piece, count - std::min(done, count));
        const auto* const begin =
            static_cast<const std::byte*>(in) + (starts[block] + std::min(done, count)) * size;
        pieces_.insert(pieces_.end(), begin, begin + length * size);
        counts.push_back(static_cast<int>(length));
      }
      const std::size_t own = std::min(done, call.counts[rank()]);
      reduce_blocks(call, pieces_.data(), counts, to(out, own * size));
    }
  }

  void all_reduce(const CollectiveCall& call, const void* in, void* out) {
    if (is_16_bit(call.dtype)) return reduce_by_shares(call, in, out, {});
    const MPI_Op op = op_of(call.dtype, call.reduction);
    in_chunks(reducing_call, call.count, call.dtype, [&](std::size_t at, int length) {
      blocking("MPI_Allreduce", [&] {
        return MPI_Allreduce(from(in, at), to(out, at), length, type_of(call.dtype), op, comm_);
      });
      finish(call, to(out, at), static_cast<std::size_t>(length));
    });
  }

  void reduce_scatter(const CollectiveCall& call, const void* in, void* out) {
    const std::vector<std::size_t> starts = block_starts(call.counts);
    const std::size_t size = size_of(call.dtype);
    if (starts.back() == 0) return;
    if (is_16_bit(call.dtype)) return reduce_scatter_blocks(call, in, out);
    if (starts.back() * size <= reducing_call) {
      blocking("MPI_Reduce_scatter", [&] {
        return MPI_Reduce_scatter(in, out, ints(call.counts).data(), type_of(call.dtype),
                                  op_of(call.dtype, call.reduction), comm_);
      });
      finish(call, out, call.counts[rank()]);
      return;
    }
    for (int root = 0; root < this->size(); ++root)
      reduce_chunks(call, from(in, starts[root] * size), out, call.counts[root], root);
  }

  void all_gather(const CollectiveCall& call, const void* in, void* out) {
    const std::vector<std::size_t> starts = block_starts(call.counts);
    const std::size_t size = size_of(call.dtype);
    if (starts.back() == 0) return;
    if (starts.back() * size <= largest_call) {
      const MPI_Datatype type = type_of(call.dtype);
      const std::vector<int> lengths = ints(call.counts);
      blocking("MPI_Allgatherv", [&] {
        return MPI_Allgatherv(in, lengths[rank()], type, out, lengths.data(), ints(starts).data(),
                              type, comm_);
      });
      return;
    }
    for (int root = 0; root < this->size(); ++root)
      broadcast_chunks(in, to(out, starts[root] * size), call.counts[root], call.dtype, root);
  }

  void all_to_all(const CollectiveCall& call, const void* in, void* out) {
    const int ranks = size();
    const std::size_t size = size_of(call.dtype);
    std::vector<std::size_t> sent, received;
    for (int other = 0; other < ranks; ++other) {
      sent.push_back(call.counts[rank() * ranks + other]);
      received.push_back(call.counts[other * ranks + rank()]);
    }
    const std::vector<std::size_t> sources = block_starts(sent);
    const std::vector<std::size_t> targets = block_starts(received);
    if (block_starts(call.counts).back() * size <= largest_call) {
      const MPI_Datatype type = type_of(call.dtype);
      blocking("MPI_Alltoallv", [&] {
        return MPI_Alltoallv(in, ints(sent).data(), ints(sources).data(), type, out,
                             ints(received).data(), ints(targets).data(), type, comm_);
      });
      return;
    }
    for (int step = 0; step < ranks; ++step) {  // no two ranks send to the same one
      const int to_rank = (rank() + step) % ranks;
      const int from_rank = (rank() + ranks - step) % ranks;
      swap_chunks({from(in, sources[to_rank] * size), sent[to_rank], to_rank},
                  {to(out, targets[from_rank] * size), received[from_rank], from_rank}, call.dtype);
    }
  }

  /// A block and the rank that it goes to or comes from.
  template <class Data>
  struct Block {
    Data data;
    std::size_t count;
    int rank;
  };
  void swap_chunks(const Block<const void*>& source, const Block<void*>& target, DType dtype) {
    const std::size_t most = largest_call / size_of(dtype);
    const MPI_Datatype type = type_of(dtype);
    in_chunks(largest_call, std::max(source.count, target.count), dtype, [&](std::size_t at, int) {
      const auto left = [&](std::size_t count) {
        return static_cast<int>(std::min(most, count - std::min(at / size_of(dtype), count)));
      };
      const int sent = left(source.count);
      const int received = left(target.count);
      blocking("MPI_Sendrecv", [&] {
        return MPI_Sendrecv(from(source.data, at), sent, type,
                            sent > 0 ? source.rank : MPI_PROC_NULL, 0, to(target.data, at),
                            received, type, received > 0 ? target.rank : MPI_PROC_NULL, 0, comm_,
                            MPI_STATUS_IGNORE);
      });
    });
  }

  void send(const CollectiveCall& call, const void* in, void* out) {
    const auto count_with = [&](int position) {
      return position >= 0 && position < size() ? call.count : 0;
    };
    const int to_rank = rank() + call.offset;
    const int from_rank = rank() - call.offset;
    swap_chunks({in, count_with(to_rank), to_rank}, {out, count_with(from_rank), from_rank},
                call.dtype);
  }

  /// What MPI's sum lacks of a mean, while the piece is in the cache.
  void finish(const CollectiveCall& call, void* data, std::size_t count) const {
    if (call.reduction == Reduction::mean) divide(call.dtype, data, count, size());
  }

  void reduce_chunks(const CollectiveCall& call, const void* in, void* out, std::size_t count,
                     int root) {
    const MPI_Op op = op_of(call.dtype, call.reduction);
    in_chunks(reducing_call, count, call.dtype, [&](std::size_t at, int length) {
      void* result = rank() == root ? to(out, at) : nullptr;
      blocking("MPI_Reduce", [&] {
        return MPI_Reduce(from(in, at), result, length, type_of(call.dtype), op, root, comm_);
      });
      if (result != nullptr) finish(call, result, static_cast<std::size_t>(length));
    });
  }

  /// From the root's `in` to every `out`, which may be the same memory.
  void broadcast_chunks(const void* in, void* out, std::size_t count, DType dtype, int root) {
    if (rank() == root && in != out && count > 0) std::memcpy(out, in, count * size_of(dtype));
    in_chunks(largest_call, count, dtype, [&](std::size_t at, int length) {
      blocking("MPI_Bcast",
               [&] { return MPI_Bcast(to(out, at), length, type_of(dtype), root, comm_); });
    });
  }

  MPI_Comm comm_;
  std::shared_ptr<Barrier> barrier_;
  // Of 16-bit floats: what other ranks have of this one's block, pieces of blocks, and what is made
  // of them for another rank.
  std::vector<std::byte> received_, pieces_, reduced_;
};

}  // namespace

std::shared_ptr<Collectives> make_mpi_collectives(MPI_Comm comm, std::shared_ptr<Barrier> barrier) {
  return std::make_shared<MpiCollectives>(comm, std::move(barrier));
}

}  // namespace coconet::jit
