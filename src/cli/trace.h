// Traces of runs, for https://ui.perfetto.dev and chrome://tracing.
#pragma once

#include <string>

#include "coconet/executable.h"
#include "coconet/world.h"

namespace coconet::cli {

/// Collective: what all ranks' `step` kept since `start_trace`, in the Trace Event Format, with a
/// process for every rank and a thread for every lane; on rank 0, elsewhere empty.
[[nodiscard]] std::string trace_json(Executable& step, const World& world);

}  // namespace coconet::cli
