// The memory of a plan's buffers on this rank, the library's own or the caller's, and the peers'.
#pragma once

#include "coconet/executable.h"
#include "jit/bind/rank_plan.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class Tensors {
 public:
  /// Collective: reserves what other ranks reach; a GPU's own memory is taken when it is first
  /// used.
  Tensors(Comm& comm, const Platform& platform, const RankPlan& plan);

  /// One of the buffers of a scattered tensor, or all of another tensor.
  struct Piece {
    std::size_t begin = 0;          ///< its first element in the whole tensor
    std::size_t count = 0;          ///< its elements
    std::size_t offset = 0;         ///< bytes from the start of the tensor's own memory
    std::byte* data = nullptr;      ///< in use: own or bound
    std::vector<std::byte*> peers;  ///< by rank, when others reach it; null on other nodes
  };
  struct Tensor {
    const sched::PlanBuffer* buffer = nullptr;
    std::size_t count = 0;           ///< elements on this rank
    std::size_t bytes = 0;           ///< allocated, padding included
    std::vector<Piece> pieces;       ///< at least one
    std::byte* multicast = nullptr;  ///< stands for all peers; null where nothing does
    bool bound = false;              ///< the application chose the memory
    bool read_only = false;          ///< it may not be written
    bool shared = false;             ///< other ranks reach its own memory
    bool in_window = false;          ///< library collectives know its own memory
    std::size_t offset = 0;          ///< of its own memory in that of all tensors,
    std::shared_ptr<Memory> own;     ///< which it has for itself on GPUs, but for those two
    std::vector<Buffer> kept;        ///< what is bound, kept alive
    /// Of a tensor that is not scattered.
    [[nodiscard]] std::byte* data() const { return pieces.front().data; }
    [[nodiscard]] const std::vector<std::byte*>& peers() const { return pieces.front().peers; }
  };
  [[nodiscard]] const Tensor& operator[](sched::BufferId id) const { return tensors_[id]; }
  /// Changes whenever a pointer does.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  /// What library collectives are to be told of; empty where there is no such memory.
  [[nodiscard]] const Window& window() const { return window_; }

  /// Throws BackendError on all ranks where `kernel` needs a multicast pointer and there is none.
  void require_multicast(const std::string& kernel) const;

  /// The buffer of an input, state or output. Throws BackendError naming the nearest known one.
  [[nodiscard]] sched::BufferId find(std::string_view name) const;

  /// Uses the library's own memory.
  void* own(std::string_view name, DType dtype);
  std::vector<Executable::Piece> own_scattered(std::string_view name, DType dtype);
  void bind(std::string_view name, DType dtype, void* data, std::size_t count);
  /// The same with memory that may not be written; throws BackendError for what the step writes.
  void bind_read_only(std::string_view name, DType dtype, const void* data, std::size_t count);
  void bind(std::string_view name, const Buffer& buffer);
  void bind_scattered(std::string_view name, DType dtype,
                      std::span<const Executable::Piece> pieces);
  void bind_scattered(std::string_view name, std::span<const Buffer> buffers);

  /// Uses the library's own memory for states and outputs that have none. Throws BackendError when
  /// an input has none, or two tensors have the same and the step writes one of them.
  void complete();
  /// Copies all of `name` in order with the rest of `queue`; binds own memory where none is bound.
  void write(Queue& queue, std::string_view name, DType dtype, const void* from, std::size_t count);
  void read(Queue& queue, std::string_view name, DType dtype, void* to, std::size_t count);

 private:
  [[nodiscard]] Tensor make(sched::BufferId id) const;
  /// Points `tensor` at the library's own memory.
  void use_own(Tensor& tensor);
  /// The same because the application asks for it.
  void bind_own(Tensor& tensor);
  void use(Tensor& tensor, std::span<const Executable::Piece> pieces);
  void use(Tensor& tensor, std::span<const Buffer> buffers);
  void mark_bound(Tensor& tensor);

  /// The tensor `name`. Throws BackendError unless it has `dtype` and `count` elements.
  Tensor& checked(std::string_view name, DType dtype, std::size_t count);
  /// A scattered tensor, of which `counts` elements are given for each of its buffers.
  Tensor& checked_scattered(std::string_view name, DType dtype,
                            std::span<const std::size_t> counts);
  void require_dtype(const Tensor& tensor, DType dtype) const;
  /// Throws BackendError where `tensor` is scattered; `instead` is what to call for such.
  void require_whole(const Tensor& tensor, const char* instead) const;
  void require_scattered(const Tensor& tensor, const char* instead) const;
  void require_memory(const Tensor& tensor, const void* data, std::size_t count) const;
  void require_unreached(const Tensor& tensor) const;
  void require_apart() const;
  /// Whether the library's own memory for `buffer` must be where other ranks reach it.
  [[nodiscard]] bool is_shared(const sched::PlanBuffer& buffer) const;
  /// Whether `tensor` goes into the window. Ranks must agree on that for every call, and bind their
  /// inputs, states and outputs each by itself.
  [[nodiscard]] bool belongs_in_window(const Tensor& tensor) const;
  /// The tensor of whose own memory this one's is part, or null.
  [[nodiscard]] Tensor* same_memory(const Tensor& tensor);
  /// Whether `buffer` must have a multicast pointer: kernels on GPUs of several ranks go to it.
  [[nodiscard]] bool needs_multicast(const sched::PlanBuffer& buffer) const {
    return buffer.multicast && platform_.traits().needs_multicast && comm_.size() > 1;
  }
  [[nodiscard]] std::string describe(const Tensor& tensor) const;

  Comm& comm_;
  const Platform& platform_;
  const RankPlan& plan_;
  Indexed<Tensor> tensors_;
  std::shared_ptr<PeerMemory> shared_;
  Window window_;
  std::shared_ptr<Memory> private_;  ///< of the host, whose pages come when they are touched
  std::uint64_t version_ = 1;
  std::uint64_t completed_ = 0;  ///< the version at the last `complete`
};

}  // namespace coconet::jit
