// Counting what is live.
#include "counts.h"

#include <string_view>

#include "control.h"
#include "events.h"
#include "graphs.h"
#include "kernels.h"
#include "memory.h"
#include "streams.h"

using namespace stub;

long long stub_cuda_live(const char* what) {
  const std::string_view word = what;
  const Lock lock(mutex());
  const auto count = [&]() -> long long {
    if (word == "contexts") return static_cast<long long>(live_contexts());
    if (word == "streams") return static_cast<long long>(live_streams());
    if (word == "events") return static_cast<long long>(live_events());
    if (word == "libraries") return static_cast<long long>(live_libraries());
    if (word == "graphs") return static_cast<long long>(live_graphs());
    if (word == "bytes") return static_cast<long long>(memory_in_use());
    if (word == "pinned") return static_cast<long long>(memory().pinned.size());
    if (word == "multicasts") return static_cast<long long>(live_multicasts());
    if (word == "physical") return static_cast<long long>(live_physicals());
    if (word == "reserved") return static_cast<long long>(memory().reserved_count());
    return -1;
  };
  return count();
}
