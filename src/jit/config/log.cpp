// The log on top of spdlog: one logger of our own, outside spdlog's registry, which belongs to the
// application.
#include "jit/config/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "jit/config/launcher.h"

namespace coconet::jit {
namespace {

constexpr std::array<std::string_view, 6> level_names{"trace", "debug", "info",
                                                      "warn",  "error", "off"};

std::atomic<LogLevel> least{LogLevel::warn};

/// A rank of a world; of none where there are no ranks. Aligned to its size, so that it is read and
/// written by one instruction, and atomics of it need no library.
struct alignas(2 * sizeof(int)) Rank {
  int rank = 0, ranks = 0;
};
/// Of this process.
std::atomic<Rank> of_process{};
/// Of this thread, where it is a rank of its own.
thread_local Rank of_thread;

/// "rank 1 of 4, pid 4711", or "4711" where this process is no rank.
class Speaker final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& to) override {
    Rank rank = of_thread;
    if (rank.ranks == 0) rank = of_process.load();
    if (rank.ranks == 0) rank = {told_.rank, told_.ranks};
    const std::string text =
        rank.ranks == 0 ? fmt::format("{}", getpid())
                        : fmt::format("rank {} of {}, pid {}", rank.rank, rank.ranks, getpid());
    to.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Speaker>();
  }

 private:
  Launched told_ = told_by_launcher();
};

// Made at the first line that is printed, so that a quiet process does not pay for it. Never
// destroyed: there are lines to print while the process ends.
spdlog::logger& logger() {
  static spdlog::logger* const made = [] {
    auto* const log = new spdlog::logger(  // NOLINT: see above
        "coconet", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    auto lines = std::make_unique<spdlog::pattern_formatter>();
    lines->add_flag<Speaker>('*').set_pattern("[coconet %*] %^%l%$: %v");
    log->set_formatter(std::move(lines));
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

void log_as_rank(int rank, int ranks) {
  if (ranks > of_process.load().ranks) of_process = {rank, ranks};
}

LogAsRank::LogAsRank(int rank, int ranks)
    : rank_before_(of_thread.rank), ranks_before_(of_thread.ranks) {
  of_thread = {rank, ranks};
}

LogAsRank::~LogAsRank() {
  of_thread = {rank_before_, ranks_before_};
}

}  // namespace coconet::jit

namespace coconet {

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(jit::sink().mutex);
  jit::sink().take = std::move(sink);
}

}  // namespace coconet
