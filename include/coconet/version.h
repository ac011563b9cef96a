// The version of the library: of these headers, and of what is linked.
#pragma once

#include <string_view>

#include "coconet/export.h"

/// Of the headers. Minor versions may break the API until 1.0.
#define COCONET_VERSION_MAJOR 0
/// Of the headers.
#define COCONET_VERSION_MINOR 1
/// Of the headers.
#define COCONET_VERSION_PATCH 0
/// Numbers to compare: 100 is 0.1.0.
#define COCONET_VERSION \
  (COCONET_VERSION_MAJOR * 10000 + COCONET_VERSION_MINOR * 100 + COCONET_VERSION_PATCH)

namespace coconet {

/// Of the library that is linked, "0.1.0". From any thread.
[[nodiscard]] COCONET_API std::string_view version();

}  // namespace coconet
