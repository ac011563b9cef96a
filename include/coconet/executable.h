// compile() turns a program and a schedule into an Executable: kernels and collectives ready to run
// each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/export.h"
#include "coconet/options.h"
#include "coconet/program.h"
#include "coconet/schedule.h"
#include "coconet/world.h"

namespace coconet {

/// Extents of symbolic dimensions, by name.
using Sizes = std::map<std::string, std::int64_t>;
/// Lengths, in elements, of the buffers of scattered tensors, by the dimension that they are
/// scattered over.
using ParameterLists = std::map<std::string, std::vector<std::int64_t>>;
/// A run-time scalar, by name.
using ScalarValue = std::pair<std::string_view, double>;

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

/// What an executable did, and how near it came to what the machine allows.
struct Report {
  std::vector<KernelReport> kernels;  ///< in execution order
  std::uint64_t runs = 0;             ///< steps run so far
  double ms = 0;                      ///< median time of a whole step on this rank, milliseconds
  std::uint64_t bytes = 0;            ///< of all kernels
  std::uint64_t peer_bytes = 0;       ///< of these, what goes to and from other ranks
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

/// A compiled step on this rank. Calls marked collective must be made by every rank of the world,
/// in the same order; what one rank throws in one of them, all ranks throw.
class COCONET_API Executable {
 public:
  /// @cond internal
  class State;
  explicit Executable(std::unique_ptr<State> state);
  /// @endcond
  ~Executable();
  /// What is moved from may be assigned to or destroyed only.
  Executable(Executable&&) noexcept;
  /// What is moved from may be assigned to or destroyed only.
  Executable& operator=(Executable&&) noexcept;

  /// Elements that this rank holds of the input, state or output `name`: the local extent under its
  /// layout.
  [[nodiscard]] std::size_t count(std::string_view name) const;
  /// Bytes that this rank's buffer of `name` takes, padding included.
  [[nodiscard]] std::size_t allocated_bytes(std::string_view name) const;

  /// Uses the library's own memory for `name` and returns it: zeroed at first, the same memory at
  /// every call. With COCONET_BACKEND=cuda it is on the GPU: for kernels, not for the processor.
  /// Throws BackendError when `name` is unknown or T is not its dtype, or the GPU has no room.
  template <class T>
  std::span<T> buffer(std::string_view name) {
    return {static_cast<T*>(own(name, dtype_of<T>)), count(name)};
  }
  /// Like `buffer`, for a dtype known at run time only.
  void* own(std::string_view name, DType dtype);

  /// Uses the caller's memory for `name`: `count(name)` elements, aligned to the element size,
  /// alive and at rest during `run`. States and outputs that nothing is bound to are in the
  /// library's own memory, zeroed at first. `run` throws BackendError where two tensors share
  /// memory and one of them is no input. Throws BackendError for an unknown name, another dtype or
  /// count, constant memory for what the step writes, or when a kernel of the schedule reaches
  /// `name` from other ranks, which needs a Buffer of the world.
  template <class T>
  void bind(std::string_view name, std::span<T> data) {
    if constexpr (std::is_const_v<T>) {
      bind_read_only(name, dtype_of<std::remove_const_t<T>>, data.data(), data.size());
    } else {
      bind(name, dtype_of<T>, data.data(), data.size());
    }
  }
  /// The same of a container, such as a std::vector.
  template <class Range>
  requires requires(Range& range) { std::span(range); }
  void bind(std::string_view name, Range& data) { bind(name, std::span(data)); }
  /// The same for a dtype known at run time only.
  void bind(std::string_view name, DType dtype, void* data, std::size_t count);
  /// The same with memory that may not be written: throws BackendError for states and outputs.
  void bind_read_only(std::string_view name, DType dtype, const void* data, std::size_t count);
  /// Uses a Buffer of the world; every rank must bind its part of the same allocation.
  void bind(std::string_view name, const Buffer& buffer);

  /// `buffer` for a scattered tensor: one span for each of its buffers.
  template <class T>
  std::vector<std::span<T>> buffers(std::string_view name) {
    std::vector<std::span<T>> spans;
    for (const Piece& piece : own_scattered(name, dtype_of<T>))
      spans.emplace_back(static_cast<T*>(piece.data), piece.count);
    return spans;
  }
  /// One buffer of a scattered tensor: its memory and its number of elements.
  struct Piece {
    void* data = nullptr;   ///< its first element
    std::size_t count = 0;  ///< elements
  };
  /// Like `buffers`, for a dtype known at run time only.
  std::vector<Piece> own_scattered(std::string_view name, DType dtype);
  /// `bind` for a scattered tensor: the caller's memory for each of its buffers, in order. Throws
  /// BackendError as `bind` does, and when the number of buffers or a length is not what `compile`
  /// was given.
  template <class T>
  void bind_scattered(std::string_view name, const std::vector<std::span<T>>& data) {
    std::vector<Piece> pieces;
    for (const std::span<T> one : data) pieces.push_back({one.data(), one.size()});
    bind_scattered(name, dtype_of<T>, pieces);
  }
  /// The same for a dtype known at run time only.
  void bind_scattered(std::string_view name, DType dtype, std::span<const Piece> pieces);
  /// The same with Buffers of the world, which other ranks reach.
  void bind_scattered(std::string_view name, std::span<const Buffer> buffers);

  /// Copies the elements of `name` from `data` of the host, or of the GPU: into the memory bound to
  /// it, or else into the library's own. On a GPU it is done in order with the steps; `data` may
  /// change at once, unless it is pinned or the GPU's. Throws BackendError as `bind` does.
  template <class Range>
  requires requires(const Range& range) { std::span(range); }
  void write(std::string_view name, const Range& data) {
    const std::span span(data);
    using T = std::remove_cv_t<typename decltype(span)::element_type>;
    write(name, dtype_of<T>, span.data(), span.size());
  }
  /// The same for a dtype known at run time only.
  void write(std::string_view name, DType dtype, const void* from, std::size_t count);
  /// Copies the elements of `name` to `data`, after all steps so far; throws what went wrong in
  /// them.
  template <class Range>
  requires requires(Range& range) { std::span(range); }
  void read(std::string_view name, Range&& data) {
    const std::span span(data);
    read(name, dtype_of<typename decltype(span)::element_type>, span.data(), span.size());
  }
  /// The same for a dtype known at run time only.
  void read(std::string_view name, DType dtype, void* to, std::size_t count);

  /// Where this rank's part of a tensor lies in the whole of it: per dimension its first index and
  /// its length, and the whole's extent. A local tensor is whole on every rank.
  struct Slice {
    std::vector<std::int64_t> begin;   ///< first index
    std::vector<std::int64_t> extent;  ///< length
    std::vector<std::int64_t> whole;   ///< extent of the whole
  };
  /// Of the input, state or output `name`.
  [[nodiscard]] Slice slice_of(std::string_view name) const;
  /// `write` of a whole tensor, row-major, whatever the schedule makes of it: of `data`, which all
  /// ranks pass, every rank keeps its part. Of a local tensor it is the rank's own. Throws
  /// BackendError as `write` does, and where `data` is not as long as the whole.
  template <class Range>
  requires requires(const Range& range) { std::span(range); }
  void write_whole(std::string_view name, const Range& data) {
    const std::span span(data);
    using T = std::remove_cv_t<typename decltype(span)::element_type>;
    write_whole(name, dtype_of<T>, span.data(), span.size());
  }
  /// The same for a dtype known at run time only.
  void write_whole(std::string_view name, DType dtype, const void* from, std::size_t count);
  /// Collective: `read` of a whole tensor, which every rank gets.
  template <class Range>
  requires requires(Range& range) { std::span(range); }
  void read_whole(std::string_view name, Range&& data) {
    const std::span span(data);
    read_whole(name, dtype_of<typename decltype(span)::element_type>, span.data(), span.size());
  }
  /// The same for a dtype known at run time only.
  void read_whole(std::string_view name, DType dtype, void* to, std::size_t count);
  /// The one element of the output or state `name`. Throws BackendError where there are several.
  template <class T>
  [[nodiscard]] T scalar_of(std::string_view name) {
    T value;
    read(name, std::span(&value, 1));
    return value;
  }

  /// With COCONET_BACKEND=cuda: puts steps, reads and writes into the application's `stream`, a
  /// cudaStream_t or CUstream of the rank's GPU, from here on, in order with what else is in it.
  /// Without it they go into a stream of the library's own, which the legacy default stream waits
  /// for and which waits for it. No effect on the host.
  void use_stream(void* stream);
  /// Waits for all steps so far, which on a GPU may still be running when `run` has returned.
  /// Throws CommError or BackendError for what went wrong in them.
  void synchronize();

  /// Collective: one step, with the same scalars on all ranks. Throws BackendError for an input
  /// that nothing is bound to or an unknown or missing scalar, before any state is touched;
  /// CommError when a rank failed or is late.
  void run(std::initializer_list<ScalarValue> scalars = {}) {
    run(std::span<const ScalarValue>(scalars.begin(), scalars.size()));
  }
  /// The same with scalars counted at run time.
  void run(std::span<const ScalarValue> scalars);

  /// Collective: times of the steps run so far, bytes, and shares of what this machine's memory
  /// allows, which it measures at the first call.
  [[nodiscard]] Report report();

  /// Collective: keeps where the kernels of the next `runs` steps are in time. On a GPU these are
  /// put into the stream one by one, not as CUDA graphs.
  void start_trace(std::size_t runs = 64);
  /// Collective: waits for the steps so far; what was kept of them, in order.
  [[nodiscard]] std::vector<TraceSpan> trace();

  /// The program after its schedule.
  [[nodiscard]] Program program() const;
  /// The steps of the plan with their buffers, as text.
  [[nodiscard]] std::string plan() const;
  /// The generated source of every kernel, in execution order, as (kernel, text).
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> sources() const;

 private:
  std::unique_ptr<State> state_;
};

/// Collective: applies `schedule` to `program`, generates, compiles and loads its kernels, and
/// allocates what they need. `sizes` must name every symbolic dimension that has no default, except
/// those in `lists`, whose extents are the sums of their buffers' lengths; a scattered tensor whose
/// dimension is not in `lists` has one buffer. `options` are over the world's; automatic schedules
/// and the tuning file are the world's. Throws ProgramError, ScheduleError, CompileError, or
/// CommError when ranks compile different programs.
[[nodiscard]] COCONET_API Executable compile(const Program& program, const Schedule& schedule,
                                             const World& world, const Sizes& sizes = {},
                                             const ParameterLists& lists = {},
                                             const Options& options = {});
/// Collective: the same with `Schedule::automatic(program)`.
[[nodiscard]] COCONET_API Executable compile(const Program& program, const World& world,
                                             const Sizes& sizes = {},
                                             const ParameterLists& lists = {},
                                             const Options& options = {});

}  // namespace coconet
