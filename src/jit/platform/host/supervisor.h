// The process between this one and a program that it runs. It makes the program's directory, starts
// the program, waits for it and removes the directory. When this process ends, however it does, it
// kills the program with all that it started, first.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace coconet::jit {

/// What the supervisor does, in this order.
enum class Stage : int {
  beginning,
  making_directory,
  writing_input,
  starting,
  running,
  reading_output,
  done
};

/// What the supervisor tells of its work.
struct SupervisorReport {
  Stage reached;    ///< `done`, or where `error` stopped it
  int error;        ///< an errno; 0: none
  bool timed_out;   ///< the program was stopped
  pid_t program;    ///< while it runs: it leads a process group of its own; else 0
  int wait_status;  ///< of wait4; where it has ended by itself
};

/// What the supervisor is to do. It reads nothing else, and writes only the report.
struct SupervisorTask {
  const char* directory;   ///< to make and to remove, with all that is in it
  const char* input_name;  ///< of a file to write there; null: none
  const char* input;       ///< its bytes
  std::size_t input_bytes;
  const char* output_name;  ///< of a file that the program leaves there; null: none
  char* const* arguments;   ///< the first is the program's path
  char* const* environment;
  int printed;  ///< a descriptor for what the program prints, not 0 to 2
  int output;   ///< a descriptor that gets the output, not 0 to 2; -1: none
  std::int64_t timeout_ns;
  bool shares_memory;        ///< or has a copy, as some tools need
  SupervisorReport* report;  ///< in memory that processes share
};

/// Runs the supervisor to its end. Only from a thread of its own that blocks all signals: the
/// supervisor uses the thread's errno, and takes the thread's end for that of the process. Returns
/// an errno where it cannot be started; else 0, and `ended_with` is its wait status, 0 if it came
/// to its end.
[[nodiscard]] int supervise(SupervisorTask& task, int& ended_with);

}  // namespace coconet::jit
