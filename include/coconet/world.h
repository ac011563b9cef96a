// The world: the ranks that run a program together, and memory that they can all reach.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/error.h"
#include "coconet/export.h"
#include "coconet/options.h"

namespace coconet {

namespace jit {
struct Access;
class Comm;
class PeerMemory;
}  // namespace jit

/// A tensor's memory on this rank, placed where the other ranks on its node can reach it: on the
/// rank's GPU with COCONET_BACKEND=cuda, for kernels and not for the processor. A handle: copies
/// share the memory, the last one frees it. Calls are safe from several threads; what the elements
/// are is between these.
class COCONET_API Buffer {
 public:
  /// No memory, and no elements.
  Buffer() = default;

  /// Of its elements.
  [[nodiscard]] DType dtype() const { return dtype_; }
  /// Elements.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// The first element.
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

 private:
  friend struct jit::Access;
  Buffer(std::shared_ptr<jit::PeerMemory> memory, DType dtype, std::size_t count);
  void require(DType asked) const;
  [[nodiscard]] void* data_of(int rank) const;

  std::shared_ptr<jit::PeerMemory> memory_;
  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  std::size_t count_ = 0;
};

/// How the processes of a job find each other, where an application's own launcher starts them.
struct Bootstrap {
  int rank = 0;  ///< of this process, from 0
  int size = 1;  ///< processes
  /// Collective: every rank's bytes, unchanged, in the order of the ranks; lengths may differ.
  /// Called by the thread that calls `World::from`, a few times, and not after it has returned. Its
  /// waits are the launcher's, and so is their deadline: what it throws, `World::from` throws.
  std::function<std::vector<std::string>(std::string_view mine)> all_gather;
};

/// A group of ranks. A handle: copies share the world. One thread at a time may make collective
/// calls in a world, its executables' included; the others of its calls are safe from several.
class COCONET_API World {
 public:
  /// One rank: this process.
  [[nodiscard]] static World self(const Options& options = {});
  /// The ranks of MPI_COMM_WORLD, on one node or several: ranks of a node share memory, and fused
  /// kernels work among them. In libcoconet-jit-mpi (CMake's coconet::mpi), as all of MPI is.
  /// Initialises MPI when the application has not, with MPI_THREAD_SERIALIZED, and then finalises
  /// it at exit; from MPI_Finalize on, the world is over, and calls throw CommError. No thread of
  /// the library's own calls MPI; where MPI provides less than MPI_THREAD_SERIALIZED, only the
  /// thread that initialised it may use the world, and calls from others throw CommError. Throws
  /// CommError naming the ranks that do not come in time, or when the library was built without
  /// MPI.
  [[nodiscard]] static World mpi(const Options& options = {});
  /// Collective over `communicator`, an MPI_Comm of one group: the world of its ranks, which the
  /// library talks to by a duplicate. It lives until the communicator is freed; the same one gives
  /// the same world. Include coconet/mpi.h. Throws CommError for MPI_COMM_NULL, an
  /// intercommunicator, one of another MPI than the library's, or other options than the world was
  /// made with.
  template <class Communicator>
  requires(!std::is_convertible_v<Communicator, Options>) [[nodiscard]] static World
      mpi(Communicator communicator, const Options& options = {});
  /// Collective: the world of processes on one node that found each other otherwise, through
  /// `bootstrap`. It is over when the last handle of a rank goes. Throws CommError when they share
  /// no memory, and what `bootstrap.all_gather` throws.
  [[nodiscard]] static World from(const Bootstrap& bootstrap, const Options& options = {});
  /// Runs `body` on `ranks` threads of this process, each with its own rank of one world. The first
  /// exception that a rank throws is thrown here, after all ranks have ended.
  static void local(int ranks, const std::function<void(World&)>& body,
                    const Options& options = {});

  /// Of this process or thread, from 0.
  [[nodiscard]] int rank() const;
  /// Ranks.
  [[nodiscard]] int size() const;
  /// "self", "local", "bootstrap" or "mpi".
  [[nodiscard]] std::string_view kind() const;
  /// Nodes that the ranks are on: those of one node share memory. The ranks of `World::mpi` are
  /// numbered node by node where mpirun fills one after the other, as it does by default: then
  /// {{"node", nodes()}, {"gpu", size() / nodes()}} is a mesh whose axis `gpu` is inside the nodes.
  [[nodiscard]] int nodes() const;
  /// Waits for every rank. Throws CommError when one is later than COCONET_TIMEOUT_S.
  void barrier() const;
  /// Ends the world: all ranks that wait for others, inside kernels too, or come to wait, throw
  /// CommError at once, which says `reason` and this rank. So does an exception that leaves the
  /// body of World::local, or unwinds the last handle of a world of World::from. Any thread may
  /// call it where the world is on one node.
  void abort(std::string_view reason) const;
  /// Collective over the ranks that are left when this world is over, because one of them was lost,
  /// failed or was late: the world of those that call it within COCONET_TIMEOUT_S, in their order,
  /// with numbers from 0. Programs are compiled for it anew, from kernels in the cache, and states
  /// come from a checkpoint. Once in a world. Throws CommError where this world is not over or is
  /// on several nodes, where this rank comes too late, or another one is lost meanwhile.
  [[nodiscard]] World shrink() const;
  /// Collective: `count` zeroed elements on every rank, readable and writable by all on its node.
  /// Throws CommError when those cannot reach each other's memory, BackendError when a GPU has no
  /// room.
  [[nodiscard]] Buffer allocate(DType dtype, std::size_t count) const;
  /// Collective, with COCONET_BACKEND=cuda: the library's collectives along all ranks go through
  /// `communicator`, the application's ncclComm_t of these ranks in their order, in executables
  /// that are compiled from here on. It must outlive them, and is never destroyed or aborted here.
  /// Throws CommError where it is of other ranks, of another GPU, or there is no NCCL, BackendError
  /// with another backend.
  void use_nccl(void* communicator) const;

 private:
  friend struct jit::Access;
  /// What `mpi` of a communicator does: `handle` is the MPI_Comm, of `bytes`.
  [[nodiscard]] static World of_communicator(const void* handle, std::size_t bytes,
                                             const Options& options);
  explicit World(std::shared_ptr<jit::Comm> comm) : comm_(std::move(comm)) {}

  std::shared_ptr<jit::Comm> comm_;
};

}  // namespace coconet
