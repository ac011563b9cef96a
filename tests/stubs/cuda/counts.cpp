// Counting what is live.
#include "counts.h"

#include <map>
#include <string_view>

#include "control.h"
#include "events.h"
#include "graphs.h"
#include "kernels.h"
#include "memory.h"
#include "streams.h"

using namespace stub;

long long stub_cuda_live(const char* what) {
  const Lock lock(mutex());
  const std::map<std::string_view, std::size_t> counts = {
      {"contexts", live_contexts()},      {"streams", live_streams()},
      {"events", live_events()},          {"libraries", live_libraries()},
      {"graphs", live_graphs()},          {"bytes", memory_in_use()},
      {"pinned", memory().pinned.size()}, {"multicasts", live_multicasts()},
      {"physical", live_physicals()},     {"reserved", memory().reserved_count()}};
  const auto at = counts.find(what);
  return at == counts.end() ? -1 : static_cast<long long>(at->second);
}
