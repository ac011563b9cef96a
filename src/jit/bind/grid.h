// How many blocks and threads a kernel is launched with.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "jit/bind/bucket_table.h"
#include "jit/bind/step_sync.h"
#include "jit/bind/tile_counts.h"
#include "jit/codegen/codegen.h"

namespace coconet::jit {

/// What all kernels of an executable are bound to.
struct KernelContext {
  Comm& comm;
  const Platform& platform;
  const RankPlan& plan;
  StepSync& sync;
  BucketTables& tables;
  const AllTileCounts& tiles;
  int processes;  ///< that share the processor
  int cores;      ///< of the host, that each rank has
};

/// Bytes that a lane accesses at once at most on `platform`: VECTOR_BYTES of the kernels' text.
[[nodiscard]] int vector_bytes(const Platform& platform);

/// Collective, once for a plan: the grids of its kernel steps, in their order, the same on every
/// rank, as ranks wait for each other block by block. `kernels` and `texts` begin with those of the
/// steps. Throws BackendError when knobs ask for more threads or resident blocks than there can be.
[[nodiscard]] std::vector<Grid> choose_grids(const KernelContext& context,
                                             std::span<const std::shared_ptr<const Kernel>> kernels,
                                             std::span<const KernelText> texts);

}  // namespace coconet::jit
