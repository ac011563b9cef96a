// The log on top of spdlog: one logger of our own, outside spdlog's registry, which belongs to the
// application.
#include "jit/config/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace coconet::jit {
namespace {

constexpr std::array<std::string_view, 6> level_names{"trace", "debug", "info",
                                                      "warn",  "error", "off"};

std::atomic<LogLevel> least{LogLevel::warn};

// Made at the first line that is printed, so that a quiet process does not pay for it. Never
// destroyed: there are lines to print while the process ends.
spdlog::logger& logger() {
  static spdlog::logger* const made = [] {
    auto* const log = new spdlog::logger(  // NOLINT: see above
        "coconet", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    log->set_pattern("[coconet %P] %^%l%$: %v");
    log->set_level(spdlog::level::trace);
    log->flush_on(spdlog::level::trace);
    return log;
  }();
  return *made;
}

/// The application's; empty for standard error. Never destroyed, like the logger.
struct Sink {
  std::mutex mutex;
  LogSink take;
};
Sink& sink() {
  static auto* const made = new Sink;  // NOLINT: see above
  return *made;
}

}  // namespace

bool set_log_level(std::string_view level) {
  const auto* found = std::ranges::find(level_names, level);
  if (found == level_names.end()) return false;
  least = static_cast<LogLevel>(found - level_names.begin());
  return true;
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::off && level >= least;
}

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  {
    const std::lock_guard lock(sink().mutex);
    if (sink().take) {
      sink().take(level, message);
      return;
    }
  }
  // The text is an argument, not a format: a brace in a message means a brace.
  logger().log(static_cast<spdlog::level::level_enum>(level),  // whose first five are LogLevel's
               spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace coconet::jit

namespace coconet {

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(jit::sink().mutex);
  jit::sink().take = std::move(sink);
}

}  // namespace coconet
