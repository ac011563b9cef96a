// What executables say of their steps: reports of all ranks, times of one, and traces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coconet/export.h"

namespace coconet {

/// What one kernel or library collective of a step did.
struct KernelReport {
  std::string name;  ///< that of the schedule's kernel, or of the op
  /// Of a kernel that a schedule made, its kind: "computation", "all_reduce", "reduce_scatter",
  /// "all_gather", "reduce", "broadcast" or "send"; "reduction"; "matmul"; "library" for a library
  /// collective.
  std::string kind;
  double ms = 0;  ///< median over the recorded runs, milliseconds on this rank
  std::uint64_t bytes =
      0;  ///< bytes that this rank reads and writes in one run, peers' memory included
  std::uint64_t peer_bytes = 0;  ///< of those, what goes to and from other ranks
  /// What binds the step: "memory", or for a matmul with many operations a byte "arithmetic".
  std::string bound = "memory";
  /// The time that this bound leaves, over `ms`; 1 is ideal. Memory's is that of a plain copy of as
  /// many bytes, arithmetic's that of as many operations in products of large matrices of the same
  /// dtype, both measured here on all ranks at once.
  double roofline_share = 0;
  std::uint64_t exchange_bytes =
      0;  ///< of this rank's memory in which the kernel's ranks leave each other chunks and totals
  /// Below 30 % of its bound, and no matter of latency: 0.1 ms or longer.
  [[nodiscard]] COCONET_API bool is_slow() const;
};

/// Where this process's kernels came from since it started.
struct CacheCounters {
  std::uint64_t hit_memory = 0;  ///< found loaded in this process
  std::uint64_t hit_disk = 0;    ///< read from a cache directory
  std::uint64_t hit_peer = 0;    ///< received from the rank that found or compiled it
  std::uint64_t miss = 0;        ///< compiled
  double compile_ms = 0;         ///< time of the compilers, milliseconds in all
  std::uint64_t corrupt =
      0;  ///< entries of a cache directory that were damaged, and compiled again
  std::uint64_t publish_lost = 0;  ///< compiled kernels that somebody else had stored first
};

/// What `Executable::report` found, of all ranks' steps. A value, as all reports here: any thread
/// may read it while none changes it.
struct Report {
  std::vector<KernelReport> kernels;  ///< in execution order
  std::uint64_t runs = 0;             ///< steps run since `compile`, or since the last `resize`
  int cores = 1;  ///< threads over which each rank spreads its kernels on the host; COCONET_CORES
  double ms = 0;  ///< median time of a whole step on this rank, milliseconds
  std::uint64_t bytes = 0;       ///< of all kernels
  std::uint64_t peer_bytes = 0;  ///< of these, what goes to and from other ranks
  /// The times that the kernels' bounds leave, one after the other, over `ms`; above 1 is possible
  /// where kernels overlap.
  double roofline_share = 0;
  std::uint64_t table_bytes = 0;  ///< of this rank's lookup tables for scattered tensors
  /// Where an automatic schedule comes from; which steps that were to overlap do not, and why.
  std::vector<std::string> notes;
  CacheCounters cache;  ///< of this process
  /// A table for people.
  [[nodiscard]] COCONET_API std::string str() const;
};

/// Where one kernel or library collective of a step was in time, on this rank.
struct TraceSpan {
  std::string name;       ///< as in KernelReport
  std::string kind;       ///< as in KernelReport
  std::uint64_t run = 0;  ///< the step, counted from the executable's first
  int lane = 0;           ///< 0, or its place among those that ran at once
  double begin_us = 0;    ///< microseconds since `start_trace`, which all ranks left together
  double end_us = 0;      ///< likewise
};

/// Times of one kernel or library collective, of those of this rank's runs that were timed.
struct KernelStats {
  std::string name;         ///< as in KernelReport
  std::string kind;         ///< likewise
  std::uint64_t count = 0;  ///< runs that were timed: all on the host, some on a GPU
  double p50_ms = 0;        ///< median of the last 1024 of them, milliseconds
  double p99_ms = 0;        ///< the time that 99 % of these take at most
  double least_ms = 0;      ///< the least of these
  /// Of that, what the kernel waits inside for other ranks and for steps beside it, the mean over
  /// its blocks that run at once: of the second to the ninth run, and of every 64th. 0 on a GPU,
  /// whose kernels do not keep it, and of library collectives and matmuls.
  double wait_p50_ms = 0;
  double wait_p99_ms = 0;  ///< likewise
};

/// Times of this rank's steps. Where ranks of a process share a GPU, the rank whose launch runs
/// them all has the times, and the others have none.
struct LocalStats {
  std::vector<KernelStats> kernels;  ///< in execution order
  std::uint64_t runs = 0;            ///< steps run since `compile`, or since the last `resize`
  std::uint64_t count = 0;           ///< of these, whole steps that were timed
  double p50_ms = 0;                 ///< as in KernelStats, as the two after it
  double p99_ms = 0;                 ///< see there
  double least_ms = 0;               ///< see there
  /// Median and 99th percentile of the waits before a step until all ranks have come, which are in
  /// none of the times; 0 where the first kernel or collective waits itself, within its time.
  double wait_p50_ms = 0;
  double wait_p99_ms = 0;  ///< see `wait_p50_ms`
};

}  // namespace coconet
