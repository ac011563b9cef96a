// Library collectives by NCCL: a communicator for each group of ranks.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/config/own_process.h"
#include "jit/platform/cuda/libraries.h"
#include "jit/platform/cuda/nccl_library.h"

namespace coconet::jit {

namespace {

using clock = std::chrono::steady_clock;

/// How long the end of a communicator waits for other ranks.
constexpr std::chrono::seconds patience{5};

/// By DType. Integers of 16 bits, which NCCL does not know, and booleans are moved, never reduced.
constexpr ncclDataType_t nccl_types[] = {ncclFloat64, ncclFloat32, ncclFloat16, ncclBfloat16,
                                         ncclInt64,   ncclInt32,   ncclFloat16, ncclInt8,
                                         ncclUint8,   ncclUint8};
static_assert(std::size(nccl_types) == std::size(all_dtypes));

/// By Reduction.
constexpr ncclRedOp_t operators[] = {ncclSum, ncclAvg, ncclMax, ncclMin, ncclProd};

ncclDataType_t type_of(DType dtype) {
  return nccl_types[static_cast<std::size_t>(dtype)];
}

void require_reducible(const CollectiveCall& call) {
  const bool reduces = call.op == ir::Op::all_reduce || call.op == ir::Op::reduce_scatter ||
                       call.op == ir::Op::reduce;
  if (!reduces || call.dtype != DType::i16) return;
  throw CommError(
      fmt::format("{} of i16: NCCL reduces no integers of 16 bits; fuse it into a kernel, or cast "
                  "its operand to i32 first",
                  to_string(call.op)));
}

class NcclGroup final : public Collectives {
 public:
  /// Begins to make a communicator of `ranks`, of which this one is at `position`. `timeout` is the
  /// longest wait for others.
  NcclGroup(const Device& device, std::vector<int> ranks, int position, const ncclUniqueId& id,
            std::chrono::milliseconds timeout)
      : device_(device), ranks_(std::move(ranks)), position_(position), timeout_(timeout) {
    const OnDevice current(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a rank that does not come is an error here, not a wait in NCCL
    const ncclResult_t begun =
        nccl().init_rank(&comm_, static_cast<int>(ranks_.size()), id, position_, &config);
    if (!is_fine(begun)) abort();
    require(begun, "ncclCommInitRankConfig");
  }
  /// Uses the application's `communicator` of these ranks.
  NcclGroup(const Device& device, std::vector<int> ranks, int position, ncclComm_t communicator,
            std::chrono::milliseconds timeout)
      : device_(device),
        ranks_(std::move(ranks)),
        position_(position),
        timeout_(timeout),
        is_applications_(true),
        comm_(communicator) {}
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  // Whoever queued the work has waited for it. The other ranks may still read from this one, until
  // all have finalized; one that is gone does not.
  ~NcclGroup() override {
    if (comm_ == nullptr || !process_.is_this()) return;
    const OnDevice current(device_);
    const clock::time_point deadline = clock::now() + patience;
    const auto ended = [&](ncclResult_t state) {
      while (state == ncclInProgress && clock::now() < deadline) {
        std::this_thread::yield();
        if (nccl().async_error(comm_, &state) != ncclSuccess) state = ncclSystemError;
      }
      return state == ncclSuccess;
    };
    const bool is_closed = window_ == NcclWindow{} || ended(nccl().close_window(comm_, window_));
    if (is_applications_) return;
    if (is_closed && ended(nccl().finalize(comm_))) {
      (void)nccl().destroy(comm_);
    } else {
      abort();
    }
  }

  /// The constructor begins what this ends: all ranks have begun by then, or none waits.
  void connect() { settle("making NCCL's communicator"); }

  void run(Queue& queue, const CollectiveCall& call) override {
    require_reducible(call);
    const void* const in = call.operands.front().in;
    void* const out = call.operands.front().out;
    const ncclDataType_t type = type_of(call.dtype);
    const ncclRedOp_t operation = operators[static_cast<std::size_t>(call.reduction)];
    const auto stream = static_cast<cudaStream_t>(queue.handle());
    switch (call.op) {
      case ir::Op::all_reduce:
        return queue_one("ncclAllReduce", nccl().all_reduce, in, out, call.count, type, operation,
                         comm_, stream);
      case ir::Op::reduce_scatter:
        if (same(call.counts)) {
          return queue_one("ncclReduceScatter", nccl().reduce_scatter, in, out, call.counts.front(),
                           type, operation, comm_, stream);
        }
        return queue_by_root("ncclReduce", call, [&](std::size_t start, int root) {
          return nccl().reduce(static_cast<const std::byte*>(in) + start, out, call.counts[root],
                               type, operation, root, comm_, stream);
        });
      case ir::Op::all_gather:
        if (same(call.counts)) {
          return queue_one("ncclAllGather", nccl().all_gather, in, out, call.counts.front(), type,
                           comm_, stream);
        }
        return queue_by_root("ncclBroadcast", call, [&](std::size_t start, int root) {
          return nccl().broadcast(in, static_cast<std::byte*>(out) + start, call.counts[root], type,
                                  root, comm_, stream);
        });
      case ir::Op::all_to_all:
        return all_to_all(call, stream);
      case ir::Op::reduce:
        return queue_one("ncclReduce", nccl().reduce, in, out, call.count, type, operation,
                         call.root, comm_, stream);
      case ir::Op::broadcast:
        return queue_one("ncclBroadcast", nccl().broadcast, in, out, call.count, type, call.root,
                         comm_, stream);
      case ir::Op::send:
        return send(call, stream);
      default:
        throw_unknown(call);
    }
  }

  void open(std::span<std::byte> memory) override {
    if (window_ != NcclWindow{}) {
      require(nccl().close_window(comm_, std::exchange(window_, NcclWindow{})),
              "ncclCommWindowDeregister");
    }
    queue_one("ncclCommWindowRegister (NCCL_WIN_ENABLE=0 does without)", nccl().open_window, comm_,
              memory.data(), memory.size(), &window_, NCCL_WIN_COLL_SYMMETRIC);
  }

  bool needs_watching() const override { return true; }

  void check() override {
    if (comm_ == nullptr) throw CommError("NCCL's communicator was given up after an error");
    ncclResult_t state = ncclSuccess;
    require(nccl().async_error(comm_, &state), "ncclCommGetAsyncError");
    require(state, "a collective of NCCL");
  }

  void abort() noexcept override {
    const OnDevice current(device_);
    if (comm_ != nullptr && !is_applications_) (void)nccl().abort(comm_);
    comm_ = nullptr;
  }

 private:
  static bool same(std::span<const std::size_t> counts) {
    return std::ranges::count(counts, counts.front()) == std::ssize(counts);
  }

  [[nodiscard]] bool has_position(int position) const {
    return position >= 0 && position < static_cast<int>(ranks_.size());
  }

  template <class Function, class... Arguments>
  void queue_one(std::string_view name, const Function& function, Arguments... arguments) {
    check();
    const OnDevice current(device_);
    require(function(arguments...), name);
    settle(name);
  }

  /// Queues all calls of `body` as one group.
  template <class Body>
  void queue_group(std::string_view name, const Body& body) {
    queue_one(name, [&] {
      require(nccl().group_start(), "ncclGroupStart");
      const ncclResult_t result = body();
      const ncclResult_t ended = nccl().group_end();
      return result == ncclSuccess ? ended : result;
    });
  }

  /// Queues `queue(start, root)` for each block that is not empty; `start` is its first byte.
  template <class Body>
  void queue_by_root(std::string_view name, const CollectiveCall& call, const Body& queue) {
    queue_group(name, [&] {
      ncclResult_t result = ncclSuccess;
      std::size_t start = 0;
      for (int root = 0; root < static_cast<int>(call.counts.size()) && is_fine(result); ++root) {
        if (call.counts[root] > 0) result = queue(start, root);
        start += call.counts[root] * size_of(call.dtype);
      }
      return result;
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
      for (std::size_t other = 0; other < ranks && is_fine(result); ++other) {
        const std::size_t sent = call.counts[position_ * ranks + other];
        const std::size_t received = call.counts[other * ranks + position_];
        const int peer = static_cast<int>(other);
        if (sent > 0) result = nccl().send(in, sent, type, peer, comm_, stream);
        if (received > 0 && is_fine(result))
          result = nccl().receive(out, received, type, peer, comm_, stream);
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
      if (has_position(to)) result = nccl().send(in, call.count, type, to, comm_, stream);
      if (has_position(from) && is_fine(result))
        result = nccl().receive(out, call.count, type, from, comm_, stream);
      return result;
    });
  }

  /// Waits until NCCL has queued its work.
  void settle(std::string_view what) {
    const clock::time_point deadline = clock::now() + timeout_;
    for (;;) {
      ncclResult_t state = ncclInProgress;
      if (comm_ != nullptr) require(nccl().async_error(comm_, &state), "ncclCommGetAsyncError");
      require(state, what);
      if (state == ncclSuccess) return;
      if (clock::now() > deadline) {
        throw CommError(
            fmt::format("{} did not end in time; another rank is late, stuck or gone "
                        "(COCONET_TIMEOUT_S sets the limit)",
                        what));
      }
      std::this_thread::yield();
    }
  }

  const Device& device_;
  std::vector<int> ranks_;
  int position_;
  std::chrono::milliseconds timeout_;
  OwnProcess process_;
  bool is_applications_ = false;
  ncclComm_t comm_ = nullptr;
  NcclWindow window_{};  ///< none where NCCL has no use for it
};

/// Throws on every rank when two of `ranks` have the same GPU; NCCL's own message is less clear.
void require_own_gpus(Comm& comm, const std::vector<int>& ranks, const std::string& step) {
  const std::vector<std::string> uuids = comm.all_gather(device_of(comm).uuid);
  together(comm, [&] {
    for (std::size_t a = 0; a < ranks.size(); ++a) {
      for (std::size_t b = a + 1; b < ranks.size(); ++b) {
        if (uuids[ranks[a]] != uuids[ranks[b]]) continue;
        throw CommError(fmt::format(
            "library collective '{}' is NCCL's, which needs a GPU for each rank, and ranks {} and "
            "{} share {}; start no more ranks than GPUs, make them threads with World::local, or "
            "fuse the collective",
            step, ranks[a], ranks[b], device_of(comm).name));
      }
    }
  });
}

}  // namespace

void require_nccl_of(Comm& comm, void* communicator) {
  if (!nccl().problem.empty()) {
    throw CommError(
        fmt::format("World::use_nccl was called, and there is no NCCL to use: {}; install libnccl2",
                    nccl().problem));
  }
  if (communicator == nullptr)
    throw CommError("World::use_nccl was given a null communicator; pass an ncclComm_t");
  const auto handle = static_cast<ncclComm_t>(communicator);
  const Device& device = device_of(comm);
  const OnDevice current(device);
  int count = 0, rank = 0, gpu = 0;
  require(nccl().count(handle, &count), "ncclCommCount");
  require(nccl().user_rank(handle, &rank), "ncclCommUserRank");
  require(nccl().cu_device(handle, &gpu), "ncclCommCuDevice");
  if (count != comm.size() || rank != comm.rank()) {
    throw CommError(fmt::format(
        "World::use_nccl was given a communicator in which this is rank {} of {}, on rank {} of {} "
        "of the world; it must hold the same ranks in the same order",
        rank, count, comm.rank(), comm.size()));
  }
  if (gpu == device.ordinal) return;
  throw CommError(fmt::format(
      "World::use_nccl was given a communicator on GPU {}, but rank {} of the world has GPU {}; "
      "make both on the GPU that is current on the rank",
      gpu, comm.rank(), device.ordinal));
}

std::unique_ptr<Collectives> make_nccl_group(Comm& comm, std::vector<int> ranks,
                                             const std::string& step) {
  together(comm, [&] {
    if (nccl().problem.empty()) return;
    throw CommError(fmt::format(
        "library collective '{}' needs NCCL, and there is none to use: {}; install libnccl2, or "
        "pip install nvidia-nccl-cu13 for the python3 on PATH, or fuse the collective",
        step, nccl().problem));
  });
  require_own_gpus(comm, ranks, step);
  const auto own = std::ranges::find(ranks, comm.rank());
  const int position = static_cast<int>(own - ranks.begin());
  const std::chrono::milliseconds timeout = comm.config().timeout;
  if (comm.nccl() != nullptr && std::cmp_equal(ranks.size(), comm.size()) &&
      std::ranges::is_sorted(ranks)) {
    return std::make_unique<NcclGroup>(device_of(comm), std::move(ranks), position,
                                       static_cast<ncclComm_t>(comm.nccl()), timeout);
  }
  std::string mine;
  together(comm, [&] {
    if (position != 0) return;
    ncclUniqueId id{};
    require(nccl().unique_id(&id), "ncclGetUniqueId");
    mine.assign(id.internal, sizeof id.internal);
  });
  const std::string first = comm.all_gather(mine)[ranks.front()];
  std::unique_ptr<NcclGroup> group;
  together(comm, [&] {
    ncclUniqueId id{};
    std::memcpy(id.internal, first.data(), std::min(first.size(), sizeof id.internal));
    group = std::make_unique<NcclGroup>(device_of(comm), std::move(ranks), position, id, timeout);
  });
  together(comm, [&] { group->connect(); });
  return group;
}

}  // namespace coconet::jit
