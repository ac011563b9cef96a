// What else is asked of events.
#pragma once

#include <cstddef>

#include "driver_api.h"

namespace stub {

std::size_t live_events();

/// Under the lock. Milliseconds between two records.
CUresult elapsed(float* ms, CUevent start, CUevent end);

}  // namespace stub
