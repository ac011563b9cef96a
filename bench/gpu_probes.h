// Questions to a GPU on whose answers this library's steps are built.
#pragma once

#include "gpu_table.h"

namespace bench {

/// Keeps a context on the GPU until a signal ends the process: without persistence, the driver
/// initialises a GPU anew for a process that finds it unused. Throws where a context keeps other
/// processes out.
[[noreturn]] void hold_context();

/// What a copy on the GPU moves.
void measure_copy(bool small, Table& table);

/// Whether two kernels that wait for each other run at once, launched with and without the driver's
/// promise that their blocks are resident, from two streams and as two branches of a graph; and
/// what a round of signals between them takes.
void measure_handshakes(bool small, Table& table);

/// What a barrier of 2 to 8 ranks on the GPU takes, in a kernel of nothing else.
void measure_barriers(bool small, Table& table);

}  // namespace bench
