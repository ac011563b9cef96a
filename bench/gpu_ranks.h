// Measurements of ranks that share a GPU, and of ranks with a GPU each.
#pragma once

#include <string>

#include "gpu_table.h"

namespace bench {

/// The fused schedule of a shipped optimizer against its other schedules, on 2, 4 and 8 ranks.
void measure_ranks(const std::string& program, bool small, Table& table);

/// An AllReduce inside a kernel, with every algorithm and protocol, against the library's own.
void measure_algorithms(bool small, Table& table);

/// The output layer of an MLP of a transformer, its matmul overlapped with the fused kernel,
/// against the same one after the other and against the library's AllReduce.
void measure_overlap(bool small, Table& table);

/// The same with a rank a GPU on all GPUs, through the switch and without, against NCCL's; a line
/// that says why not where there is one GPU, or no multicast.
void measure_multicast(bool small, Table& table);

}  // namespace bench
