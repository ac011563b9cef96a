// Writes what a kernel does for steps that run at the same time: it waits for tiles of what they
// make, and tells them of its own.
#pragma once

#include <string>

#include "jit/codegen/kernel_writer.h"

namespace coconet::jit {

/// Whether anything that `phase` reads or writes is shared tile by tile with a step that runs at
/// the same time.
[[nodiscard]] bool synchronizes_tiles(const sched::KernelStep::Phase& phase);
/// Whether any phase of `step` synchronizes tiles.
[[nodiscard]] bool synchronizes_tiles(const sched::KernelStep& step);

/// Defines `tile_sync`, the prelude's TileSync for the exchange of `phase`.
[[nodiscard]] std::string write_tile_sync(KernelWriter& writer,
                                          const sched::KernelStep::Phase& phase);

/// Waits for elements [begin, end) of all that arrives in `phase`, where they lie as the kernel's
/// domain does.
[[nodiscard]] std::string await_arriving(KernelWriter& writer,
                                         const sched::KernelStep::Phase& phase,
                                         const std::string& begin, const std::string& end,
                                         const std::string& indent);

/// Signals elements [begin, end) of all that departs from `phase` and is not spread.
[[nodiscard]] std::string signal_departing(KernelWriter& writer,
                                           const sched::KernelStep::Phase& phase,
                                           const std::string& begin, const std::string& end,
                                           const std::string& indent);

}  // namespace coconet::jit
