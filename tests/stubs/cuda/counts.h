// How much of everything is live, for tests that look for leaks.
#pragma once

#include <cstddef>

namespace stub {

std::size_t live_contexts();
std::size_t live_physicals();

}  // namespace stub
