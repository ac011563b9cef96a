// Library collectives by NCCL: one communicator along each mesh axis, one GPU for each rank.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/collectives/groups.h"
#include "jit/platform/cuda/collectives.h"
#include "jit/platform/cuda/device.h"
#include "jit/platform/cuda/nccl.h"

namespace coconet::jit {

namespace {

using clock = std::chrono::steady_clock;

/// How long a communicator that goes waits for the other ranks' to go.
constexpr std::chrono::seconds patience{5};

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::i8:
      return ncclInt8;
    case DType::u8:
    case DType::boolean:  // moved, never reduced
      return ncclUint8;
  }
  throw InternalError("a dtype that NCCL has no name for");
}

ncclRedOp_t operator_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::mean:
      return ncclAvg;
    case Reduction::max:
      return ncclMax;
    case Reduction::min:
      return ncclMin;
    case Reduction::prod:
      return ncclProd;
  }
  throw InternalError("a reduction that NCCL has no name for");
}

std::string describe(ncclResult_t result) {
  std::string text = loaded_nccl().error_string(result);
  const char* const last = loaded_nccl().last_error(nullptr);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  return text;
}

void require(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw CommError(std::string(call) + " failed: " + describe(result));
}

class NcclGroup final : public Collectives {
 public:
  NcclGroup(const Device& device, std::vector<int> ranks, int position, const ncclUniqueId& id)
      : device_(device), ranks_(std::move(ranks)), position_(position) {
    const OnDevice current(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a rank that does not come is an error here, not a wait in NCCL
    const ncclResult_t begun =
        loaded_nccl().init_rank(&comm_, static_cast<int>(ranks_.size()), id, position_, &config);
    if (begun != ncclSuccess && begun != ncclInProgress) abort();
    require(begun, "ncclCommInitRankConfig");
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  // Whoever queued the work has waited for it. The other ranks may still read from this one, until
  // all have finalized; one that is gone does not.
  ~NcclGroup() override {
    if (comm_ == nullptr) return;
    const OnDevice current(device_);
    const clock::time_point deadline = clock::now() + patience;
    ncclResult_t state = loaded_nccl().finalize(comm_);
    while (state == ncclInProgress && clock::now() < deadline) {
      std::this_thread::yield();
      if (loaded_nccl().async_error(comm_, &state) != ncclSuccess) state = ncclSystemError;
    }
    if (state == ncclSuccess) {
      (void)loaded_nccl().destroy(comm_);
    } else {
      abort();
    }
  }

  /// The constructor begins what this ends: all ranks have begun by then, or none waits.
  void connect() { settle("making NCCL's communicator"); }

  void run(Queue& queue, const CollectiveCall& call) override {
    const auto& [in, out] = call.operands.front();
    const ncclDataType_t type = type_of(call.dtype);
    const ncclRedOp_t operation = operator_of(call.reduction);
    const auto stream = static_cast<cudaStream_t>(queue.handle());
    switch (call.op) {
      case ir::Op::all_reduce:
        return queue_one("ncclAllReduce", loaded_nccl().all_reduce, in, out, call.count, type,
                         operation, comm_, stream);
      case ir::Op::reduce_scatter:
        if (same(call.counts)) {
          return queue_one("ncclReduceScatter", loaded_nccl().reduce_scatter, in, out,
                           call.counts.front(), type, operation, comm_, stream);
        }
        return queue_by_root("ncclReduce", call, in, [&](const void* block, int root) {
          return loaded_nccl().reduce(block, out, call.counts[static_cast<std::size_t>(root)], type,
                                      operation, root, comm_, stream);
        });
      case ir::Op::all_gather:
        if (same(call.counts)) {
          return queue_one("ncclAllGather", loaded_nccl().all_gather, in, out, call.counts.front(),
                           type, comm_, stream);
        }
        return queue_by_root("ncclBroadcast", call, out, [&](void* block, int root) {
          return loaded_nccl().broadcast(in, block, call.counts[static_cast<std::size_t>(root)],
                                         type, root, comm_, stream);
        });
      case ir::Op::all_to_all:
        return all_to_all(call, stream);
      case ir::Op::reduce:
        return queue_one("ncclReduce", loaded_nccl().reduce, in, out, call.count, type, operation,
                         call.root, comm_, stream);
      case ir::Op::broadcast:
        return queue_one("ncclBroadcast", loaded_nccl().broadcast, in, out, call.count, type,
                         call.root, comm_, stream);
      case ir::Op::send:
        return send(call, stream);
      default:
        throw_unknown(call);
    }
  }

  [[nodiscard]] bool needs_watching() const override { return true; }

  void check() override {
    if (comm_ == nullptr) throw CommError("NCCL's communicator was given up after an error");
    ncclResult_t state = ncclSuccess;
    require(loaded_nccl().async_error(comm_, &state), "ncclCommGetAsyncError");
    require(state, "a collective of NCCL");
  }

  void abort() noexcept override {
    const OnDevice current(device_);
    if (comm_ != nullptr) (void)loaded_nccl().abort(comm_);
    comm_ = nullptr;
  }

 private:
  static bool same(std::span<const std::size_t> counts) {
    return std::all_of(counts.begin(), counts.end(),
                       [&](std::size_t count) { return count == counts.front(); });
  }

  [[nodiscard]] bool has_position(int position) const {
    return position >= 0 && position < static_cast<int>(ranks_.size());
  }

  template <class Body>
  void call(std::string_view name, const Body& body) {
    check();
    const OnDevice current(device_);
    require(body(), name);
    settle(name);
  }

  /// Queues one call of `function`, which is NCCL's `name`.
  template <class Function, class... Arguments>
  void queue_one(std::string_view name, Function function, Arguments... arguments) {
    call(name, [&] { return function(arguments...); });
  }

  /// Queues all calls of `body` as one group of calls.
  template <class Body>
  void queue_group(std::string_view name, const Body& body) {
    call(name, [&] {
      require(loaded_nccl().group_start(), "ncclGroupStart");
      const ncclResult_t result = body();
      const ncclResult_t ended = loaded_nccl().group_end();
      return result == ncclSuccess ? ended : result;
    });
  }

  /// A group of calls `queue(block, root)` for the blocks at `data` that are not empty.
  template <class Pointer, class Body>
  void queue_by_root(std::string_view name, const CollectiveCall& call, Pointer data,
                     const Body& queue) {
    using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte, const std::byte>;
    queue_group(name, [&] {
      auto* block = static_cast<Byte*>(data);
      for (std::size_t root = 0; root < call.counts.size(); ++root) {
        if (call.counts[root] == 0) continue;
        const ncclResult_t result = queue(block, static_cast<int>(root));
        if (result != ncclSuccess && result != ncclInProgress) return result;
        block += call.counts[root] * size_of(call.dtype);
      }
      return ncclSuccess;
    });
  }

  void all_to_all(const CollectiveCall& call, cudaStream_t stream) {
    const std::size_t ranks = ranks_.size();
    const std::size_t size = size_of(call.dtype);
    const ncclDataType_t type = type_of(call.dtype);
    queue_group("ncclSend or ncclRecv", [&] {
      const auto* in = static_cast<const std::byte*>(call.operands.front().in);
      auto* out = static_cast<std::byte*>(call.operands.front().out);
      ncclResult_t result = ncclSuccess;
      const auto fine = [&] { return result == ncclSuccess || result == ncclInProgress; };
      for (std::size_t other = 0; other < ranks && fine(); ++other) {
        const std::size_t sent = call.counts[position_ * ranks + other];
        const std::size_t received = call.counts[other * ranks + position_];
        const int peer = static_cast<int>(other);
        if (sent > 0) result = loaded_nccl().send(in, sent, type, peer, comm_, stream);
        if (received > 0 && fine())
          result = loaded_nccl().receive(out, received, type, peer, comm_, stream);
        in += sent * size;
        out += received * size;
      }
      return result;
    });
  }

  void send(const CollectiveCall& call, cudaStream_t stream) {
    const auto& [in, out] = call.operands.front();
    const int to = position_ + call.offset;
    const int from = position_ - call.offset;
    const ncclDataType_t type = type_of(call.dtype);
    queue_group("ncclSend or ncclRecv", [&, in = in, out = out] {
      ncclResult_t result = ncclSuccess;
      if (has_position(to)) result = loaded_nccl().send(in, call.count, type, to, comm_, stream);
      if (result != ncclSuccess && result != ncclInProgress) return result;
      if (has_position(from))
        result = loaded_nccl().receive(out, call.count, type, from, comm_, stream);
      return result;
    });
  }

  /// Waits until NCCL has taken what it was given.
  void settle(std::string_view what) {
    const clock::time_point deadline = clock::now() + config().timeout;
    for (;;) {
      ncclResult_t state = ncclInProgress;
      if (comm_ != nullptr)
        require(loaded_nccl().async_error(comm_, &state), "ncclCommGetAsyncError");
      require(state, what);
      if (state == ncclSuccess) return;
      if (clock::now() > deadline) {
        throw CommError(std::string(what) +
                        " did not end in time; another rank is late, stuck or gone "
                        "(COCONET_TIMEOUT_S sets the limit)");
      }
      std::this_thread::yield();
    }
  }

  const Device& device_;
  std::vector<int> ranks_;
  int position_;
  ncclComm_t comm_ = nullptr;
};

/// Throws on every rank when two of `ranks` have the same GPU, which NCCL refuses in less clear
/// words.
void require_own_gpus(Comm& comm, const std::vector<int>& ranks, const std::string& step) {
  const std::vector<std::string> uuids = comm.all_gather(device_of(comm).uuid());
  together(comm, [&] {
    for (std::size_t a = 0; a < ranks.size(); ++a) {
      for (std::size_t b = a + 1; b < ranks.size(); ++b) {
        if (uuids[static_cast<std::size_t>(ranks[a])] != uuids[static_cast<std::size_t>(ranks[b])])
          continue;
        throw CommError("library collective '" + step +
                        "' is NCCL's, which needs a GPU for each "
                        "rank, and ranks " +
                        std::to_string(ranks[a]) + " and " + std::to_string(ranks[b]) + " share " +
                        device_of(comm).name() +
                        "; start no more ranks than GPUs, make them threads with World::local, or "
                        "fuse the collective");
      }
    }
  });
}

}  // namespace

std::unique_ptr<Collectives> make_nccl_group(Comm& comm, std::vector<int> ranks,
                                             const std::string& step) {
  together(comm, [&] {
    const NcclFacts facts = nccl_facts();
    if (facts.problem.empty()) return;
    throw CommError("library collective '" + step +
                    "' needs NCCL, and there is none to use: " + facts.problem +
                    "; install libnccl2, or pip install nvidia-nccl-cu13 and name the directory of "
                    "libnccl.so.2 with COCONET_CUDA_PATH, or fuse the collective");
  });
  require_own_gpus(comm, ranks, step);
  const auto own = std::find(ranks.begin(), ranks.end(), comm.rank());
  const int position = static_cast<int>(own - ranks.begin());
  std::string mine;
  together(comm, [&] {
    if (position != 0) return;
    ncclUniqueId id{};
    require(loaded_nccl().unique_id(&id), "ncclGetUniqueId");
    mine.assign(id.internal, sizeof id.internal);
  });
  const std::string first = comm.all_gather(mine)[static_cast<std::size_t>(ranks.front())];
  std::unique_ptr<NcclGroup> group;
  together(comm, [&] {
    ncclUniqueId id{};
    std::memcpy(id.internal, first.data(), std::min(first.size(), sizeof id.internal));
    group = std::make_unique<NcclGroup>(device_of(comm), std::move(ranks), position, id);
  });
  together(comm, [&] { group->connect(); });
  return group;
}

}  // namespace coconet::jit
