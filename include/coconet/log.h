// Where the library's messages go.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "coconet/export.h"

namespace coconet {

/// How severe a message is, from everything to nothing: what COCONET_LOG takes.
enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, off };

/// Takes one message of the library. Called by whichever thread has it, one at a time; it must not
/// call the library.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

/// Gives `sink` the messages that COCONET_LOG lets through, instead of standard error; an empty one
/// brings standard error back. From any thread; when it returns, the sink before is no longer
/// called.
COCONET_API void set_log_sink(LogSink sink);

}  // namespace coconet
