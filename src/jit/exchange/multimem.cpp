// multimem: as direct in place, but through an address behind which the tensors of all ranks are: the switch between GPUs
// adds what a rank loads from there and copies what it stores. Each byte crosses a rank's link once, however many ranks
// there are; best for large tensors on many GPUs of one NVLink switch. It has no mailboxes.
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

constinit const Algorithm multimem_algorithm{"multimem", "", "exchange/multimem.h", 0, 0, nullptr};

}  // namespace coconet::jit
