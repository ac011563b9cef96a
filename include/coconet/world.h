// The world: the ranks that run a program together, and memory that they can all reach.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "coconet/dtype.h"
#include "coconet/error.h"
#include "coconet/export.h"

namespace coconet {

namespace jit {
class Comm;
class PeerMemory;
}  // namespace jit

/// A tensor's memory on this rank, placed where the other ranks on its node can reach it: on the
/// rank's GPU with COCONET_BACKEND=cuda, for kernels and not for the processor. A handle: copies
/// share the memory, the last one frees it.
class COCONET_API Buffer {
 public:
  /// None.
  Buffer() = default;
  /// @cond internal
  Buffer(std::shared_ptr<jit::PeerMemory> memory, DType dtype, std::size_t count);
  /// @endcond

  /// Of its elements.
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t count() const { return count_; }  ///< elements
  /// The first element; null for none.
  [[nodiscard]] void* data() const { return data_; }
  /// The elements as T. Throws BackendError when T is not the buffer's dtype.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    require(dtype_of<T>);
    return {static_cast<T*>(data_), count_};
  }
  /// The elements of `rank`'s buffer of the same allocation, as this rank reaches them. Throws
  /// BackendError when T is not the buffer's dtype, or when the world has no such rank or has it on
  /// another node.
  template <class T>
  [[nodiscard]] std::span<T> of(int rank) const {
    require(dtype_of<T>);
    return {static_cast<T*>(data_of(rank)), count_};
  }
  /// @cond internal
  [[nodiscard]] const std::shared_ptr<jit::PeerMemory>& memory() const { return memory_; }
  /// @endcond

 private:
  void require(DType asked) const;
  [[nodiscard]] void* data_of(int rank) const;

  std::shared_ptr<jit::PeerMemory> memory_;
  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  std::size_t count_ = 0;
};

/// A group of ranks. A handle: copies share the world.
class COCONET_API World {
 public:
  /// One rank: this process.
  [[nodiscard]] static World self();
  /// The ranks of MPI_COMM_WORLD, on one node or several: ranks of a node share memory, and fused
  /// kernels work among them. Initialises MPI when the application has not, with
  /// MPI_THREAD_SERIALIZED, and then finalises it at exit. No thread of the library's own calls
  /// MPI; where MPI provides less than MPI_THREAD_SERIALIZED, only the thread that initialised it
  /// may use the world, and calls from others throw CommError. Throws CommError when the library
  /// was built without MPI.
  [[nodiscard]] static World mpi();
  /// Collective over `communicator`, an MPI_Comm of one group: the world of its ranks, which the
  /// library talks to by a duplicate. It lives until the communicator is freed; the same one gives
  /// the same world. Include coconet/mpi.h. Throws CommError for MPI_COMM_NULL, an
  /// intercommunicator, or one of another MPI than the library's.
  template <class Communicator>
  [[nodiscard]] static World mpi(Communicator communicator);
  /// Runs `body` on `ranks` threads of this process, each with its own rank of one world. The first
  /// exception that a rank throws is thrown here, after all ranks have ended.
  static void local(int ranks, const std::function<void(World&)>& body);

  /// Of this rank, from 0.
  [[nodiscard]] int rank() const;
  /// Number of ranks.
  [[nodiscard]] int size() const;
  /// "self", "local" or "mpi".
  [[nodiscard]] std::string_view kind() const;
  /// Nodes that the ranks are on: those of one node share memory. The ranks of `World::mpi` are
  /// numbered node by node where mpirun fills one after the other, as it does by default: then
  /// {{"node", nodes()}, {"gpu", size() / nodes()}} is a mesh whose axis `gpu` is inside the nodes.
  [[nodiscard]] int nodes() const;
  /// Waits for every rank. Throws CommError when one is later than COCONET_TIMEOUT_S.
  void barrier() const;
  /// Collective: `count` zeroed elements on every rank, readable and writable by all on its node.
  /// Throws CommError when those cannot reach each other's memory, BackendError when a GPU has no
  /// room.
  [[nodiscard]] Buffer allocate(DType dtype, std::size_t count) const;

  /// What `mpi` of a communicator does: `handle` is the MPI_Comm, of `bytes`.
  [[nodiscard]] static World of_communicator(const void* handle, std::size_t bytes);

  /// @cond internal
  explicit World(std::shared_ptr<jit::Comm> comm) : comm_(std::move(comm)) {}
  [[nodiscard]] const std::shared_ptr<jit::Comm>& comm() const { return comm_; }
  /// @endcond

 private:
  std::shared_ptr<jit::Comm> comm_;
};

}  // namespace coconet
