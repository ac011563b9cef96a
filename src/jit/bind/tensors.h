// The memory of a plan's buffers on this rank, the library's own or the caller's, and the peers'.
#pragma once

#include "coconet/executable.h"
#include "jit/bind/rank_plan.h"
#include "jit/bind/tensor_memory.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class Tensors {
 public:
  /// Collective: reserves what other ranks reach; a GPU's own memory is taken when it is first
  /// used. Tensors that have the same extents as in `before`, which is of the same plan, have the
  /// memory that they have there.
  Tensors(Comm& comm, const Platform& platform, const RankPlan& plan,
          const Tensors* before = nullptr);

  /// One of the buffers of a scattered tensor, or all of another tensor.
  struct Piece {
    std::size_t begin = 0;      ///< its first element in the whole tensor
    std::size_t count = 0;      ///< its elements
    std::size_t offset = 0;     ///< bytes from the start of the tensor's own memory
    std::byte* data = nullptr;  ///< what steps use: own or bound
    /// Where the elements are between steps: the same, but where other ranks must reach `data` and
    /// not what the application bound: then each step copies.
    std::byte* home = nullptr;
    std::vector<std::byte*> peers;  ///< by rank, when others reach it; null on other nodes
  };
  struct Tensor {
    const sched::PlanBuffer* buffer = nullptr;
    std::size_t count = 0;           ///< elements on this rank
    std::size_t bytes = 0;           ///< allocated, padding included
    std::vector<Piece> pieces;       ///< at least one
    std::byte* multicast = nullptr;  ///< stands for all peers; null where nothing does
    std::shared_ptr<TensorMemory> memory = std::make_shared<TensorMemory>();
    std::uint64_t version = 0;  ///< of `memory`, as the pointers are
    /// Of a tensor that is not scattered.
    [[nodiscard]] std::byte* data() const { return pieces.front().data; }
    [[nodiscard]] const std::vector<std::byte*>& peers() const { return pieces.front().peers; }
  };
  [[nodiscard]] const Tensor& operator[](sched::BufferId id) const { return tensors_[id]; }
  /// What the library's own memory takes, of all of them.
  [[nodiscard]] std::size_t allocated_bytes() const;
  /// Changes whenever a pointer does.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  /// What library collectives are to be told of; empty where there is no such memory.
  [[nodiscard]] const Window& window() const { return window_; }

  /// Throws BackendError on all ranks where `kernel` needs a multicast pointer and there is none.
  void require_multicast(const std::string& kernel) const;

  // States and outputs that a failed step may have left half written.

  /// Says so of `buffer`, because of `why`, until it is written or bound anew.
  void tear(sched::BufferId buffer, const std::string& why);
  [[nodiscard]] std::vector<std::string> torn() const;
  /// Takes them as they are.
  void mend_all();
  /// Makes all states and outputs zero, and none torn.
  void zero_written(Queue& queue);

  // Bindings (bindings.cpp).

  /// The buffer of an input, state or output. Throws BackendError naming the nearest known one.
  [[nodiscard]] sched::BufferId find(std::string_view name) const;
  /// Throws BackendError where `name` may be half written.
  void require_whole(std::string_view name) const;
  /// The memory of `name`, or of its buffer number `buffer`.
  Executable::Piece data(std::string_view name, DType dtype, std::optional<std::size_t> buffer,
                         bool to_write);
  void bind(std::string_view name, DType dtype, std::span<const Executable::Piece> buffers);
  /// Binds constant memory; throws BackendError for a tensor that the step writes.
  void bind(std::string_view name, DType dtype, std::span<const Executable::ConstPiece> buffers);
  void bind(std::string_view name, std::span<const Buffer> buffers);
  /// Before a step: copies what it reads from memory that other ranks do not reach. After it:
  /// copies what it wrote to there.
  void copy_in(Queue& queue) const;
  void copy_out(Queue& queue) const;
  /// The names of what is copied so.
  [[nodiscard]] std::vector<std::string> copied() const;
  /// Uses the library's own memory for states and outputs that have none. Throws BackendError when
  /// an input has none, or two tensors have the same and the step writes one of them.
  void complete();
  /// Copies all of `name` in order with the rest of `queue`; binds own memory where none is bound.
  void write(Queue& queue, std::string_view name, DType dtype,
             std::span<const Executable::ConstPiece> from);
  void read(Queue& queue, std::string_view name, DType dtype,
            std::span<const Executable::Piece> to);

  /// `name` with memory, the library's own where none is bound.
  const Tensor& with_memory(std::string_view name);

  // Memory that executables have in common (sharing.cpp).

  /// What `share` does with a state that the owner has, too.
  struct Shared {
    sched::BufferId here = -1, there = -1;
    bool moves = false;  ///< its values go from the owner's memory to this one's
  };
  /// What this has in common with `owner`. Throws BackendError where it cannot be shared.
  [[nodiscard]] std::vector<Shared> common_states(const Tensors& owner) const;
  /// Uses the memory of `owner` for `states`, or lets it use this one's, to which `queue` copies.
  void share(Tensors& owner, std::span<const Shared> states, Queue& queue);
  /// Throws BackendError where a state that is shared has other extents in `plan`, which is of the
  /// same program.
  void require_shared_unchanged(const RankPlan& plan) const;

 private:
  [[nodiscard]] Tensor make(sched::BufferId id) const;
  [[nodiscard]] bool has_extents_of(sched::BufferId id, const RankPlan& plan) const;
  /// Allocates the library's own memory for the tensors of `unplaced` that share no other tensor's.
  void place(std::span<Tensor* const> unplaced);
  /// Points `tensor` at the library's own memory.
  void use_own(Tensor& tensor);
  /// Takes what is new in the tensor's memory.
  void follow(Tensor& tensor);
  void follow_shared();
  /// The tensor `name`, with what other executables that share it have bound to it.
  Tensor& named(std::string_view name);
  void use(Tensor& tensor, std::span<const Executable::Piece> buffers, bool read_only);

  void require_dtype(const Tensor& tensor, DType dtype) const;
  /// Throws BackendError unless there is one of `counts` for each buffer of `tensor`, as long as
  /// that.
  void require_counts(const Tensor& tensor, std::span<const std::size_t> counts) const;
  void require_memory(const Tensor& tensor, const void* data, std::size_t count) const;
  void require_apart() const;
  /// Calls copy(piece, bytes) for all that steps copy, but of those of one role.
  template <class Copy>
  void for_each_copied(sched::PlanBuffer::Role but, const Copy& copy) const;
  /// The buffers of `tensor` in `given`: those, or parts of the one that stands for all.
  template <class Given>
  [[nodiscard]] std::vector<Given> split(const Tensor& tensor, DType dtype,
                                         std::span<const Given> given) const;
  /// Whether the library's own memory for `buffer` must be where other ranks reach it.
  [[nodiscard]] bool is_shared(const sched::PlanBuffer& buffer) const;
  /// Whether `tensor` goes into the window. Ranks must agree on that for every call, and bind their
  /// inputs, states and outputs each by itself.
  [[nodiscard]] bool belongs_in_window(const sched::PlanBuffer& buffer) const;
  /// The tensor of whose own memory this one's is part, or null.
  [[nodiscard]] Tensor* same_memory(const Tensor& tensor);
  /// Whether `buffer` must have a multicast pointer: kernels on GPUs of several ranks go to it.
  [[nodiscard]] bool needs_multicast(const sched::PlanBuffer& buffer) const {
    return buffer.multicast && platform_.traits().needs_multicast && comm_.size() > 1;
  }
  /// Whether kernels reach `buffer` from other ranks.
  [[nodiscard]] bool needs_peers(const sched::PlanBuffer& buffer) const {
    return buffer.peer_access && comm_.size() > 1;
  }
  [[nodiscard]] std::string describe(const Tensor& tensor) const;

  Comm& comm_;
  const Platform& platform_;
  const RankPlan& plan_;
  Indexed<Tensor> tensors_;
  std::vector<sched::BufferId> shared_;  ///< whose memory other executables have, too
  Window window_;
  std::uint64_t version_ = 1;
  std::uint64_t completed_ = 0;          ///< the version at the last `complete`
  std::vector<sched::BufferId> copied_;  ///< by each step, as that found
};

}  // namespace coconet::jit
