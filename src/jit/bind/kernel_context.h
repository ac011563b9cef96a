// What all kernels of an executable are bound to.
#pragma once

#include "jit/bind/bucket_table.h"
#include "jit/bind/rank_plan.h"
#include "jit/bind/step_sync.h"
#include "jit/bind/tile_counts.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

struct KernelContext {
  Comm& comm;
  const Platform& platform;
  const RankPlan& plan;
  StepSync& sync;
  BucketTables& tables;
  const AllTileCounts& tiles;
};

}  // namespace coconet::jit
