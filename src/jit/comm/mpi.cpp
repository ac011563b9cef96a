// The MPI world: ranks are processes of one node. MPI starts them and does the library collectives;
// peer memory and control messages go through memory that the processes share.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/board_comm.h"
#include "jit/comm/combine.h"
#include "jit/comm/cores.h"
#include "jit/comm/direct_group.h"
#include "jit/comm/groups.h"
#include "jit/comm/nodes.h"
#include "jit/comm/peer_group.h"
#include "jit/comm/peer_memory.h"
#include "jit/comm/tiered_group.h"

namespace coconet::jit {

namespace {

/// Throws CommError with MPI's text unless `code` is success.
void check(int code, std::string_view call, MPI_Comm comm) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  throw CommError(std::string(call) + " failed on rank " + std::to_string(rank) + ": " +
                  std::string(text.data(), length));
}

// ---- data types and operators -------------------------------------------------------------------------------

/// f16 and bf16 are two bytes that only our operators understand.
MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return MPI_DOUBLE;
    case DType::f32:
      return MPI_FLOAT;
    case DType::f16:
    case DType::bf16: {
      static const MPI_Datatype two_bytes = [] {
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_contiguous(2, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        return type;
      }();
      return two_bytes;
    }
    case DType::i64:
      return MPI_INT64_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i8:
      return MPI_INT8_T;
    case DType::u8:
    case DType::boolean:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

template <DType dtype, Reduction reduction>
void combine_for_mpi(void* in, void* inout, int* count, MPI_Datatype*) {
  combine(dtype, reduction, in, inout, static_cast<std::size_t>(*count));
}

/// Sums and products are the same in either order. Largest and smallest are not, of +0 and -0 or of
/// two NaNs, so that MPI has to keep to the order of ranks to give all of them the same bits.
template <DType dtype, Reduction reduction>
MPI_Op own_op() {
  static const MPI_Op op = [] {
    constexpr bool commutes = reduction == Reduction::sum || reduction == Reduction::prod;
    MPI_Op made = MPI_OP_NULL;
    MPI_Op_create(&combine_for_mpi<dtype, reduction>, commutes, &made);
    return made;
  }();
  return op;
}

template <DType dtype>
MPI_Op own_op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return own_op<dtype, Reduction::sum>();
    case Reduction::prod:
      return own_op<dtype, Reduction::prod>();
    case Reduction::max:
      return own_op<dtype, Reduction::max>();
    case Reduction::min:
      return own_op<dtype, Reduction::min>();
    case Reduction::mean:
      break;
  }
  return MPI_OP_NULL;
}

/// MPI's own operator where it computes what ours does. MPI_MAX and MPI_MIN lose NaNs, and sums of
/// 8-bit integers saturate in Open MPI 4.1 instead of wrapping. A mean begins as a sum.
MPI_Op op_of(DType dtype, Reduction reduction) {
  if (reduction == Reduction::mean) reduction = Reduction::sum;
  const bool adds = reduction == Reduction::sum;
  const bool is_arithmetic = adds || reduction == Reduction::prod;
  const MPI_Op arithmetic = adds ? MPI_SUM : MPI_PROD;
  const MPI_Op order = reduction == Reduction::max ? MPI_MAX : MPI_MIN;
  switch (dtype) {
    case DType::f64:
      return is_arithmetic ? arithmetic : own_op_of<DType::f64>(reduction);
    case DType::f32:
      return is_arithmetic ? arithmetic : own_op_of<DType::f32>(reduction);
    case DType::f16:
      return own_op_of<DType::f16>(reduction);
    case DType::bf16:
      return own_op_of<DType::bf16>(reduction);
    case DType::i64:
    case DType::i32:
      return is_arithmetic ? arithmetic : order;
    case DType::i8:
      return is_arithmetic ? own_op_of<DType::i8>(reduction) : order;
    case DType::u8:
      return is_arithmetic ? own_op_of<DType::u8>(reduction) : order;
    case DType::boolean:
      return adds || reduction == Reduction::max ? MPI_LOR : MPI_LAND;
  }
  return MPI_OP_NULL;
}

// ---- library collectives ------------------------------------------------------------------------------------

/// MPI's collectives. The ranks meet before each blocking call: inside MPI nobody could tell them
/// that a rank is late, has failed or has left.
class MpiGroup final : public Group {
 public:
  MpiGroup(MPI_Comm comm, std::shared_ptr<Meeting> meeting)
      : comm_(comm), meeting_(std::move(meeting)) {}

  [[nodiscard]] int rank() const override { return meeting_->position(); }
  [[nodiscard]] int size() const override { return meeting_->size(); }

  void all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                  Reduction reduction) override {
    const MPI_Op op = op_of(dtype, reduction);
    meeting_->meet("all_reduce");
    in_chunks(reducing_call, count, dtype, [&](std::size_t at, int length) {
      check(MPI_Allreduce(from(in, at), to(out, at), length, type_of(dtype), op, comm_),
            "MPI_Allreduce", comm_);
      finish(to(out, at), static_cast<std::size_t>(length), dtype, reduction);
    });
  }

  void reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType dtype,
                      Reduction reduction) override {
    const std::vector<std::size_t> starts = block_starts(*this, "reduce_scatter", counts);
    const MPI_Op op = op_of(dtype, reduction);
    meeting_->meet("reduce_scatter");
    if (starts.back() == 0) return;
    if (starts.back() * size_of(dtype) <= reducing_call) {
      const std::vector<int> lengths(counts.begin(), counts.end());
      check(MPI_Reduce_scatter(in, out, lengths.data(), type_of(dtype), op, comm_),
            "MPI_Reduce_scatter", comm_);
      finish(out, counts[rank()], dtype, reduction);
      return;
    }
    for (int root = 0; root < size(); ++root) {
      reduce_chunks(from(in, starts[root] * size_of(dtype)), out, counts[root], dtype, reduction,
                    root);
    }
  }

  void all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                  DType dtype) override {
    const std::vector<std::size_t> starts = block_starts(*this, "all_gather", counts);
    meeting_->meet("all_gather");
    if (starts.back() == 0) return;
    if (starts.back() * size_of(dtype) <= largest_call) {
      const std::vector<int> lengths(counts.begin(), counts.end());
      const std::vector<int> places(starts.begin(), starts.end() - 1);
      const MPI_Datatype type = type_of(dtype);
      check(MPI_Allgatherv(in, lengths[rank()], type, out, lengths.data(), places.data(), type,
                           comm_),
            "MPI_Allgatherv", comm_);
      return;
    }
    for (int root = 0; root < size(); ++root) {
      void* block = to(out, starts[root] * size_of(dtype));
      if (root == rank() && counts[root] > 0) std::memcpy(block, in, counts[root] * size_of(dtype));
      broadcast_chunks(block, counts[root], dtype, root);
    }
  }

  void reduce(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction,
              int root) override {
    require_root(*this, "reduce", root);
    meeting_->meet("reduce");
    reduce_chunks(in, out, count, dtype, reduction, root);
  }

  void broadcast(void* data, std::size_t count, DType dtype, int root) override {
    require_root(*this, "broadcast", root);
    meeting_->meet("broadcast");
    broadcast_chunks(data, count, dtype, root);
  }

  void shift(const void* in, void* out, std::size_t count, DType dtype, int offset) override {
    const auto neighbour = [&](int position) {
      return has_position(*this, position) ? position : MPI_PROC_NULL;
    };
    const int to_rank = neighbour(rank() + offset);
    const int from_rank = neighbour(rank() - offset);
    meeting_->meet("send");
    in_chunks(largest_call, count, dtype, [&](std::size_t at, int length) {
      const MPI_Datatype type = type_of(dtype);
      check(MPI_Sendrecv(from(in, at), length, type, to_rank, 0, to(out, at), length, type,
                         from_rank, 0, comm_, MPI_STATUS_IGNORE),
            "MPI_Sendrecv", comm_);
    });
  }

  void refuse() override { meeting_->refuse(); }

 private:
  /// Bytes of one call that moves data: MPI counts in int, and so do its transports.
  static constexpr std::size_t largest_call = std::size_t{1} << 30;
  /// Bytes of one call that reduces: small enough to stay in a core's cache from the sender's copy to the receiver's
  /// sum. With Open MPI 4.1 and 2 ranks of one socket an AllReduce of 64 MiB takes half the time in such pieces,
  /// a ReduceScatter a quarter.
  static constexpr std::size_t reducing_call = std::size_t{1} << 20;
  static const void* from(const void* data, std::size_t bytes) {
    return static_cast<const std::byte*>(data) + bytes;
  }
  static void* to(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }

  /// Calls `body(byte offset, elements)` for pieces of at most `bytes` until all is covered; not at all for nothing.
  template <class Body>
  static void in_chunks(std::size_t bytes, std::size_t count, DType dtype, const Body& body) {
    const std::size_t chunk = bytes / size_of(dtype);
    for (std::size_t done = 0; done < count; done += chunk) {
      body(done * size_of(dtype), static_cast<int>(std::min(chunk, count - done)));
    }
  }

  /// What MPI's sum lacks of a mean, while the piece is in the cache.
  void finish(void* data, std::size_t count, DType dtype, Reduction reduction) const {
    if (reduction == Reduction::mean) divide(dtype, data, count, size());
  }

  void reduce_chunks(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction,
                     int root) {
    const MPI_Op op = op_of(dtype, reduction);
    in_chunks(reducing_call, count, dtype, [&](std::size_t at, int length) {
      void* result = rank() == root ? to(out, at) : nullptr;
      check(MPI_Reduce(from(in, at), result, length, type_of(dtype), op, root, comm_), "MPI_Reduce",
            comm_);
      if (result != nullptr) finish(result, static_cast<std::size_t>(length), dtype, reduction);
    });
  }

  void broadcast_chunks(void* data, std::size_t count, DType dtype, int root) {
    in_chunks(largest_call, count, dtype, [&](std::size_t at, int length) {
      check(MPI_Bcast(to(data, at), length, type_of(dtype), root, comm_), "MPI_Bcast", comm_);
    });
  }

  MPI_Comm comm_;
  std::shared_ptr<Meeting> meeting_;
};

// ---- the world ----------------------------------------------------------------------------------------------

class MpiComm final : public BoardComm {
 public:
  MpiComm(MPI_Comm comm, std::shared_ptr<PeerMemory> board, int ranks, int ranks_per_core)
      : BoardComm(std::move(board), ranks, ranks_per_core, waiting(comm, ranks_per_core)),
        comm_(comm) {}

  [[nodiscard]] std::string_view kind() const override { return "mpi"; }
  [[nodiscard]] bool in_one_process() const override { return size() == 1; }
  [[nodiscard]] std::shared_ptr<void> share(std::shared_ptr<void> object) override {
    if (size() > 1) throw InternalError("ranks of several processes cannot share an object");
    return object;
  }

  [[nodiscard]] std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override {
    const Exchange exchange = [this](std::string_view mine) { return all_gather(mine); };
    agree_on_bytes(bytes, exchange);
    const std::shared_ptr<PeerMemory> memory =
        map_across_processes(rank(), size(), bytes, exchange);
    allocations_->add(memory);
    return memory;
  }

  [[nodiscard]] std::unique_ptr<Group> group(const std::vector<int>& ranks) override {
    const std::vector<std::vector<int>> division = agree_on_groups(*this, ranks);
    // By the division of the whole world, so that all ranks find it here or none does.
    Ways& ways = ways_[division];
    if (!ways.large) ways = make_ways(ranks);
    return std::make_unique<TieredGroup>(ways.small, ways.direct, ways.large);
  }

 private:
  struct Ways {
    std::shared_ptr<CopyGroup> small;
    std::shared_ptr<PeerGroup> direct;
    std::shared_ptr<Group> large;
  };

  static Waiting waiting(MPI_Comm comm, int ranks_per_core) {
    // MPI moves on only inside its calls, and another rank may still wait for what this one has
    // sent.
    return {config().timeout, ranks_per_core > 1, [comm] {
              int found = 0;
              MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE);
            }};
  }

  Ways make_ways(const std::vector<int>& ranks) {
    // In the first page: the count of arrivals, and the board on which tensors are announced.
    constexpr std::size_t board_at = 64;
    constexpr std::size_t slots_at = 4096;
    const std::shared_ptr<PeerMemory> memory = allocate(slots_at + CopyGroup::slots_bytes);
    std::vector<std::uint64_t*> arrivals;
    std::vector<PeerGroup::Board*> boards;
    std::vector<std::byte*> slots;
    for (const int rank : ranks) {
      arrivals.push_back(reinterpret_cast<std::uint64_t*>(memory->base(rank)));
      boards.push_back(reinterpret_cast<PeerGroup::Board*>(memory->base(rank) + board_at));
      slots.push_back(memory->base(rank) + slots_at);
    }
    const auto meeting = std::make_shared<Meeting>(roster(), ranks, std::move(arrivals), memory);
    MPI_Comm split = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, ranks.front(), meeting->position(), &split), "MPI_Comm_split",
          comm_);
    MPI_Comm_set_errhandler(split, MPI_ERRORS_RETURN);
    return {std::make_shared<CopyGroup>(meeting, std::move(slots)),
            std::make_shared<PeerGroup>(meeting, ranks, std::move(boards), allocations_),
            std::make_shared<MpiGroup>(split, meeting)};
  }

  MPI_Comm comm_;
  std::shared_ptr<PeerAllocations> allocations_ = std::make_shared<PeerAllocations>();
  std::map<std::vector<std::vector<int>>, Ways> ways_;
};

/// Every rank's text by MPI itself, for as long as there is no shared memory.
std::vector<std::string> gather_by_mpi(MPI_Comm comm, int ranks, std::string_view mine) {
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(ranks);
  check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm), "MPI_Allgather",
        comm);
  std::vector<int> places(ranks);
  for (int rank = 1; rank < ranks; ++rank) places[rank] = places[rank - 1] + lengths[rank - 1];
  std::string all(places.back() + lengths.back(), '\0');
  check(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), places.data(),
                       MPI_CHAR, comm),
        "MPI_Allgatherv", comm);
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank) texts.push_back(all.substr(places[rank], lengths[rank]));
  return texts;
}

/// Throws on every rank when MPI finds that not all of them can share memory.
void require_one_node(MPI_Comm comm, int rank, int ranks, const Exchange& exchange) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
        "MPI_Comm_split_type", comm);
  int beside = 0;
  MPI_Comm_size(node, &beside);
  MPI_Comm_free(&node);
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::string mine(1, beside == ranks ? '=' : '!');
  mine.append(name.data(), length);
  const std::vector<std::string> hosts = exchange(mine);
  if (std::any_of(hosts.begin(), hosts.end(),
                  [](const std::string& host) { return host[0] == '!'; })) {
    std::vector<std::string> names;
    for (const std::string& host : hosts) names.push_back(host.substr(1));
    throw CommError(several_nodes_message(names));
  }
}

std::shared_ptr<MpiComm> connect() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const Exchange exchange = [&](std::string_view mine) { return gather_by_mpi(comm, ranks, mine); };

  require_one_node(comm, rank, ranks, exchange);
  std::vector<Cores> cores;
  for (const std::string& text : exchange(available_cores().to_string())) cores.emplace_back(text);
  std::shared_ptr<PeerMemory> board =
      map_across_processes(rank, ranks, BoardComm::board_bytes, exchange);
  return std::make_shared<MpiComm>(comm, std::move(board), ranks, ranks_per_core(cores));
}

/// MPI calls this first of all when it is finalised, by us or by the application: ranks that still
/// wait for this one learn that it will not come.
int leave_world(MPI_Comm, int, void* world, void*) {
  const std::unique_ptr<std::shared_ptr<MpiComm>> owned(
      static_cast<std::shared_ptr<MpiComm>*>(world));
  (*owned)->roster()->leave();
  return MPI_SUCCESS;
}

void leave_when_finalized(const std::shared_ptr<MpiComm>& world) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_world, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key,
                    std::make_unique<std::shared_ptr<MpiComm>>(world).release());
}

void start_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    throw CommError("World::mpi was called after MPI_Finalize; MPI cannot be started again");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  int provided = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS)
    throw CommError("MPI_Init_thread failed with code " + std::to_string(code));
  std::atexit([] {
    int done = 0;
    MPI_Finalized(&done);
    if (done == 0) MPI_Finalize();
  });
}

}  // namespace

// One world per process: communicators are scarce, and to free one is collective.
std::shared_ptr<Comm> make_mpi_comm() {
  static std::mutex mutex;
  static std::shared_ptr<MpiComm> world;
  const std::lock_guard lock(mutex);
  start_mpi();
  if (!world) {
    world = connect();
    leave_when_finalized(world);
  }
  return world;
}

MpiFacts mpi_facts() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), length);
  return {true, version.substr(0, version.find_first_of(",\n"))};
}

}  // namespace coconet::jit
