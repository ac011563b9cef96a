// Ctrl-C as a request to end with what there is so far.
#pragma once

namespace coconet::cli {

/// From here on the first Ctrl-C, or the SIGTERM that mpirun makes of it, is only noted; a second
/// one ends the process, and mpirun kills what is left a second later.
void listen_for_interrupts();
/// Whether there was one.
[[nodiscard]] bool was_interrupted();

}  // namespace coconet::cli
