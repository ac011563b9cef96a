// Writes what a kernel does for steps that run at the same time: it waits for tiles of what they make, and tells them of
// its own.
#pragma once

#include <string>

#include "jit/codegen/kernel_writer.h"

namespace coconet::jit {

/// Whether anything that `phase` reads or writes is shared tile by tile with a step that runs at the same time.
[[nodiscard]] bool is_paced(const sched::KernelStep::Phase& phase);
/// The same of any phase of `step`.
[[nodiscard]] bool is_paced(const sched::KernelStep& step);

/// Defines `paced`, the prelude's Pace for the exchange of `phase`.
[[nodiscard]] std::string write_pace(KernelWriter& writer, const sched::KernelStep::Phase& phase);

/// Waits for elements [begin, end) of all that arrives in `phase`, where they lie as the kernel's domain does.
[[nodiscard]] std::string await_arriving(KernelWriter& writer,
                                         const sched::KernelStep::Phase& phase,
                                         const std::string& begin, const std::string& end,
                                         const std::string& indent);

/// Tells of elements [begin, end) of all that departs from `phase` and is not spread.
[[nodiscard]] std::string tell_departing(KernelWriter& writer,
                                         const sched::KernelStep::Phase& phase,
                                         const std::string& begin, const std::string& end,
                                         const std::string& indent);

}  // namespace coconet::jit
