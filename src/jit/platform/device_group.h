// Library collectives on GPUs, as work of a queue.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/program.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Collectives among the ranks along one mesh axis, for those of them that this process drives with one queue: one rank,
/// or all ranks of the group. The arguments mean what those of `Group` do.
class DeviceGroup {
 public:
  /// A rank's tensors.
  struct Operands {
    const void* in = nullptr;
    void* out = nullptr;
  };
  using Members = std::span<const Operands>;

  virtual ~DeviceGroup() = default;
  /// The group's ranks, by their number in the world.
  [[nodiscard]] virtual const std::vector<int>& ranks() const = 0;

  virtual void all_reduce(Queue& queue, Members members, std::size_t count, DType dtype,
                          Reduction reduction) = 0;
  virtual void reduce_scatter(Queue& queue, Members members, std::span<const std::size_t> counts,
                              DType dtype, Reduction reduction) = 0;
  virtual void all_gather(Queue& queue, Members members, std::span<const std::size_t> counts,
                          DType dtype) = 0;
  virtual void reduce(Queue& queue, Members members, std::size_t count, DType dtype,
                      Reduction reduction, int root) = 0;
  /// From the root's `in` to every `out`.
  virtual void broadcast(Queue& queue, Members members, std::size_t count, DType dtype,
                         int root) = 0;
  /// An `out` that no rank sends to is not written.
  virtual void shift(Queue& queue, Members members, std::size_t count, DType dtype, int offset) = 0;

  /// Throws CommError when work that was queued has failed, or another rank has.
  virtual void check() = 0;
  /// Ends what is queued and will not end by itself; the group cannot be used afterwards.
  virtual void abort() noexcept = 0;
};

/// A reduction that a group must be able to do.
struct WantedReduction {
  DType dtype;
  Reduction reduction;
};

/// Ranks that one process drives on one GPU: the tensors of all are at hand, and kernels reduce them in rank order.
/// Collective over the world, like the compilation of a kernel.
[[nodiscard]] std::unique_ptr<DeviceGroup> make_gang_group(
    Comm& comm, const Platform& platform, std::vector<int> ranks,
    const std::vector<WantedReduction>& wanted);

/// Ranks with a GPU each: NCCL's communicator. Collective over the world; each rank passes the group it is in. `step`
/// names what needs it. Throws CommError when there is no NCCL, when two ranks have the same GPU, or when a rank does not
/// come within COCONET_TIMEOUT_S.
[[nodiscard]] std::unique_ptr<DeviceGroup> make_nccl_group(Comm& comm, std::vector<int> ranks,
                                                           const std::string& step);

}  // namespace coconet::jit
