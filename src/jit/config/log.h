// The library's log: lines on standard error, or for the application's sink, filtered by
// COCONET_LOG. Hides the logging library behind functions.
#pragma once

#include <string_view>

#include "coconet/export.h"
#include "coconet/log.h"

namespace coconet::jit {

/// Sets the least level that is printed: "trace", "debug", "info", "warn", "error" or "off", false
/// for any other text. `config()` does this when it reads COCONET_LOG; until then it is "warn".
bool set_log_level(std::string_view level);

/// Whether a line of `level` would be printed, for messages that are dear to compose.
[[nodiscard]] bool log_enabled(LogLevel level);

/// Prints one line: rank and process number, level, message; or hands the message to the
/// application's sink. Safe from several threads.
void log(LogLevel level, std::string_view message);

/// Lines of this process are those of `rank` of `ranks` from here on. The largest world counts,
/// whose numbers people know; before there is one, what the launcher calls this process.
COCONET_API void log_as_rank(int rank, int ranks);

/// While it lives, lines of this thread are those of `rank` of `ranks`.
class LogAsRank {
 public:
  LogAsRank(int rank, int ranks);
  LogAsRank(const LogAsRank&) = delete;
  LogAsRank& operator=(const LogAsRank&) = delete;
  ~LogAsRank();

 private:
  int rank_before_, ranks_before_;
};

inline void log_trace(std::string_view message) {
  log(LogLevel::trace, message);
}
inline void log_debug(std::string_view message) {
  log(LogLevel::debug, message);
}
inline void log_info(std::string_view message) {
  log(LogLevel::info, message);
}
inline void log_warn(std::string_view message) {
  log(LogLevel::warn, message);
}
inline void log_error(std::string_view message) {
  log(LogLevel::error, message);
}

}  // namespace coconet::jit
