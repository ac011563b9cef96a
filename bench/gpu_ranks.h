// Measurements of ranks that share a GPU, and of ranks with a GPU each.
#pragma once

#include <string>

#include "gpu_table.h"

namespace bench {

/// The fused schedule of a shipped optimizer against its other schedules, on 2, 4 and 8 ranks.
void measure_ranks(const std::string& program, bool small, Table& table);

/// An AllReduce inside a kernel, with every algorithm and protocol, against the library's own.
void measure_algorithms(bool small, Table& table);

/// The shipped blocks of transformers of 2 and 4 ranks, in f32 and bf16: `fused` and `overlapped`
/// against `unfused`, whose matmuls and collectives are the libraries'. On one GPU for all ranks
/// or, `over_gpus`, on one for each, with NCCL's collectives; a line that says why not where there
/// are fewer than two.
void measure_blocks(bool over_gpus, bool small, Table& table);

/// The blocks at one size, of 2 ranks on one GPU in bf16: whether kernels that take a product tile
/// by tile gain anything by that.
void measure_overlap(bool small, Table& table);

/// An AllReduce with a rank a GPU on all GPUs, through the switch and without, against NCCL's; a
/// line that says why not where there is one GPU, or no multicast.
void measure_multicast(bool small, Table& table);

}  // namespace bench
