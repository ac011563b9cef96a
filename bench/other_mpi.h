// Steps in processes of another MPI than the benchmark's own, which a file of memory connects: they
// take turns, so that what is compared is measured side by side. Who waits sleeps.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// What the benchmark asks of the ranks of another MPI, and their answer: the content of the file.
struct Turn {
  enum class Ask : std::uint32_t {
    make,     ///< a step of `n` elements; `most_steps` of it
    begin,    ///< its first state
    step,     ///< number `t`
    results,  ///< each rank's into a file of its own
    sample,   ///< `ms` of one, of `t` in a row
    drop,     ///< all that were made
    end
  };
  std::atomic<std::uint32_t> asked, answered;  ///< how often
  Ask ask;
  char name[64];  ///< of the step
  std::uint64_t n;
  std::int32_t t;
  std::int32_t most_steps;
  double ms;
  char error[256];  ///< of the answer; empty if all went well

  static constexpr std::size_t bytes = 4096;

  /// The file at `path`, of `bytes` zeros at first.
  static std::shared_ptr<Turn> at(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* const memory =
        file < 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
    return {static_cast<Turn*>(memory), [](Turn* turn) { munmap(turn, bytes); }};
  }
  /// Sleeps until `count` is `number`; false after `seconds`.
  static bool wait(std::atomic<std::uint32_t>& count, std::uint32_t number, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    for (;;) {
      const std::uint32_t found = count.load(std::memory_order_acquire);
      if (found == number) return true;
      if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) return false;
      constexpr timespec second{1, 0};
      syscall(SYS_futex, &count, FUTEX_WAIT, found, &second, nullptr, 0);
    }
  }
  static void set(std::atomic<std::uint32_t>& count, std::uint32_t number) {
    count.store(number, std::memory_order_release);
    syscall(SYS_futex, &count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  /// The file of the results of `rank`.
  static std::string results_of(const std::string& path, int rank) {
    return path + "." + std::to_string(rank);
  }
};

/// The other MPI, as the ranks of the benchmark see it; all make the same calls.
class OtherMpi {
 public:
  /// `name_and_file`: what it is called in rows, '=', and the file.
  OtherMpi(const std::string& name_and_file, int rank) : rank_(rank) {
    const std::size_t equals = name_and_file.find('=');
    if (equals == std::string::npos)
      throw std::invalid_argument("--other-mpi takes NAME=FILE, and got " + name_and_file);
    name_ = name_and_file.substr(0, equals);
    path_ = name_and_file.substr(equals + 1);
    turn_ = Turn::at(path_);
    asked_ = turn_->asked;
  }
  OtherMpi(const OtherMpi&) = delete;
  OtherMpi& operator=(const OtherMpi&) = delete;
  ~OtherMpi() {
    if (rank_ != 0) return;
    turn_->ask = Turn::Ask::end;
    Turn::set(turn_->asked, asked_ + 1);
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns how many steps may follow one `begin`.
  int make(const std::string& step, std::size_t n) {
    ask(Turn::Ask::make, step, 0, n);
    return turn_->most_steps;
  }
  void begin(const std::string& step) { ask(Turn::Ask::begin, step); }
  void run(const std::string& step, int t) { ask(Turn::Ask::step, step, t); }
  /// Milliseconds of a step, of so many in a row.
  double sample(const std::string& step, int steps) {
    ask(Turn::Ask::sample, step, steps);
    return turn_->ms;
  }
  [[nodiscard]] std::vector<float> results(const std::string& step) {
    ask(Turn::Ask::results, step);
    std::ifstream file(Turn::results_of(path_, rank_), std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error("cannot read the results under " + name_);
    std::vector<float> values(static_cast<std::size_t>(file.tellg()) / sizeof(float));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    return values;
  }
  /// Frees the memory of all steps.
  void drop() { ask(Turn::Ask::drop); }

 private:
  void ask(Turn::Ask what, const std::string& step = {}, int t = 0, std::size_t n = 0) {
    // All ranks have read the answer before the next question.
    MPI_Barrier(MPI_COMM_WORLD);
    ++asked_;
    if (rank_ == 0) {
      turn_->ask = what;
      std::snprintf(turn_->name, sizeof turn_->name, "%s", step.c_str());
      turn_->t = t;
      turn_->n = n;
      Turn::set(turn_->asked, asked_);
    }
    constexpr double longest = 120;
    if (!Turn::wait(turn_->answered, asked_, longest))
      throw std::runtime_error("the processes of " + name_ + " do not answer");
    if (turn_->error[0] != '\0') throw std::runtime_error("under " + name_ + ": " + turn_->error);
  }

  int rank_;
  std::string name_, path_;
  std::shared_ptr<Turn> turn_;
  std::uint32_t asked_ = 0;
};

}  // namespace bench
