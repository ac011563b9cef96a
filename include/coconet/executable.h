// compile() turns a program and a schedule into an Executable: kernels and collectives ready to run
// each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coconet/checkpoint.h"
#include "coconet/dtype.h"
#include "coconet/export.h"
#include "coconet/options.h"
#include "coconet/program.h"
#include "coconet/report.h"
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

/// @cond internal
// How the memory of a tensor is given and taken: element types, and lists of buffers.
namespace detail {

template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

/// A C++ type that elements have. std::byte stands for the bytes of u8 and bool.
template <class T>
inline constexpr bool is_element =
    is_one_of<std::remove_cv_t<T>, double, float, Half, BFloat16, std::int64_t, std::int32_t,
              std::int16_t, std::int8_t, std::uint8_t, bool, std::byte>;

template <class T>
inline constexpr DType dtype_given = dtype_of<std::remove_cv_t<T>>;
template <>
inline constexpr DType dtype_given<std::byte> = DType::u8;
template <>
inline constexpr DType dtype_given<const std::byte> = DType::u8;

template <class Range>
using ElementOf = typename decltype(std::span(std::declval<Range&>()))::element_type;

/// Elements one after the other: a std::vector, std::array or std::span of an element type.
template <class Range>
concept Elements = requires(Range& range) {
  std::span(range);
}
&&is_element<ElementOf<Range>>;

/// A list of `Elements`, one for each buffer: a std::vector of spans, or of vectors.
template <class Range>
concept ListOfElements = std::ranges::input_range<Range> &&
    Elements<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

template <class List>
using ElementOfList = ElementOf<std::remove_reference_t<std::ranges::range_reference_t<List>>>;

/// Whether the elements outlive a call that is given `Range`.
template <class Range>
concept Lasting = std::ranges::borrowed_range<Range>;
template <class List>
concept LastingList = std::is_lvalue_reference_v<List> ||
    std::ranges::borrowed_range<std::ranges::range_value_t<List>>;

/// A `Piece` for each of the buffers in `list`.
template <class Piece, class List>
std::vector<Piece> pieces_of(List& list) {
  std::vector<Piece> pieces;
  for (auto&& one : list) {
    const std::span elements(one);
    pieces.push_back({elements.data(), elements.size()});
  }
  return pieces;
}

}  // namespace detail
/// @endcond

/// A compiled step on this rank. Calls marked collective must be made by every rank of the world,
/// in the same order; what one rank throws in one of them, all ranks throw. One thread at a time
/// may use it and those that it shares states with, in whatever order; `run` throws BackendError
/// where another thread is inside it. Other executables may be used meanwhile.
///
/// `bind`, `data`, `write` and `read` say where tensors are and move their elements. Each takes a
/// tensor's elements as a range (std::vector, std::array, std::span), or a list of ranges, one for
/// each buffer of a scattered tensor. The element type must be the tensor's dtype; for a bool
/// tensor it may be std::uint8_t or std::byte, too, as a std::vector<bool> has no elements in
/// memory: each byte must then be 0 or 1, which `write` checks on the host, and `bind` does not.
class COCONET_API Executable {
 public:
  /// @cond internal
  class State;
  explicit Executable(std::unique_ptr<State> state);
  /// @endcond
  ~Executable();
  /// What is moved from can only be destroyed or assigned to; other calls throw BackendError.
  Executable(Executable&&) noexcept;
  /// What is moved from may be assigned to or destroyed only.
  Executable& operator=(Executable&&) noexcept;

  /// Elements that this rank holds of the input, state or output `name`: the local extent under its
  /// layout.
  [[nodiscard]] std::size_t count(std::string_view name) const;
  /// The number of buffers that `name` is scattered over; 1 where it is not scattered.
  [[nodiscard]] std::size_t buffers(std::string_view name) const;
  /// Bytes that this rank's memory of `name` takes in the library, padding included.
  [[nodiscard]] std::size_t allocated_bytes(std::string_view name) const;
  /// Bytes of all inputs, states and outputs, and of what is kept between kernels and between the
  /// passes of one.
  [[nodiscard]] std::size_t allocated_bytes() const;

  /// Memory and a number of elements, for dtypes that are known at run time only.
  struct Piece {
    void* data = nullptr;   ///< its first element
    std::size_t count = 0;  ///< elements
  };
  /// A Piece that is only read.
  struct ConstPiece {
    const void* data = nullptr;  ///< its first element
    std::size_t count = 0;       ///< elements
  };

  /// The memory of `name`: what is bound to it, or else the library's own, which is zeroed at first
  /// and stays the same until other memory is bound or `resize` changes its extents. With
  /// COCONET_BACKEND=cuda it is on the GPU: for kernels, not for the processor. Throws BackendError
  /// when `name` is unknown, scattered over several buffers or bound to constant memory (which
  /// data<const T> gives), when T is not its dtype, or the GPU has no room.
  template <class T>
  std::span<T> data(std::string_view name) {
    return as_span<T>(data(name, detail::dtype_given<T>, {}, !std::is_const_v<T>));
  }
  /// The memory of buffer number `buffer`, counted from 0, of a scattered tensor.
  template <class T>
  std::span<T> data(std::string_view name, std::size_t buffer) {
    return as_span<T>(data(name, detail::dtype_given<T>, buffer, !std::is_const_v<T>));
  }
  /// The memory of a dtype known at run time only; `to_write` false: it is only read.
  Piece data(std::string_view name, DType dtype, std::optional<std::size_t> buffer = {},
             bool to_write = true);

  /// Uses the caller's memory for `name`: `count(name)` elements, aligned to the element size,
  /// alive and at rest during `run`. Memory that is const is for inputs only. States and outputs
  /// that nothing is bound to are in the library's own memory, zeroed at first. `run` throws
  /// BackendError where two tensors share memory and one of them is no input. Throws BackendError
  /// for an unknown name, another dtype or count, or constant memory for what the step writes.
  /// Where kernels reach `name` from other ranks, each step copies it to and from memory where they
  /// do; in a Buffer of the world, or the library's own memory, it need not.
  template <detail::Elements Range>
  requires detail::Lasting<Range>
  void bind(std::string_view name, Range&& data) {
    const std::span elements(data);
    bind(name, detail::dtype_given<detail::ElementOf<Range>>, elements.data(), elements.size());
  }
  /// Binds a scattered tensor: memory for each of its buffers, in order. Throws BackendError as
  /// above, and when the number of buffers or a length is not what `compile` was given.
  template <detail::ListOfElements List>
  requires detail::LastingList<List>
  void bind(std::string_view name, List&& buffers) {
    using T = detail::ElementOfList<List>;
    using One = std::conditional_t<std::is_const_v<T>, ConstPiece, Piece>;
    const std::vector<One> pieces = detail::pieces_of<One>(buffers);
    bind(name, detail::dtype_given<T>, std::span<const One>(pieces));
  }
  /// Uses a Buffer of the world, which other ranks reach; every rank must bind its part of the same
  /// allocation. Of a scattered tensor: a Buffer for each of its buffers, in order.
  void bind(std::string_view name, const Buffer& buffer) { bind(name, std::span(&buffer, 1)); }
  /// Uses Buffers of the world for a scattered tensor, one for each of its buffers, in order.
  void bind(std::string_view name, std::span<const Buffer> buffers);
  /// For a dtype known at run time only.
  void bind(std::string_view name, DType dtype, void* data, std::size_t count) {
    const Piece whole{data, count};
    bind(name, dtype, std::span(&whole, 1));
  }
  /// Binds constant memory of a dtype known at run time only.
  void bind(std::string_view name, DType dtype, const void* data, std::size_t count) {
    const ConstPiece whole{data, count};
    bind(name, dtype, std::span(&whole, 1));
  }
  /// Binds a scattered tensor of a dtype known at run time only.
  void bind(std::string_view name, DType dtype, std::span<const Piece> buffers);
  /// Binds a scattered tensor of a dtype known at run time only to constant memory.
  void bind(std::string_view name, DType dtype, std::span<const ConstPiece> buffers);

  /// Copies the elements of `name` from `data` of the host, or of the GPU, into its memory: of a
  /// scattered tensor those of all its buffers, one after the other. On a GPU it is done in order
  /// with the steps; `data` may change at once, unless it is pinned or the GPU's. Throws
  /// BackendError as `bind` does, and on the host for a byte of a bool tensor that is not 0 or 1.
  template <detail::Elements Range>
  void write(std::string_view name, const Range& data) {
    const std::span elements(data);
    write(name, detail::dtype_given<detail::ElementOf<const Range>>, elements.data(),
          elements.size());
  }
  /// Writes a scattered tensor: elements for each of its buffers, in order.
  template <detail::ListOfElements List>
  void write(std::string_view name, const List& buffers) {
    const auto pieces = detail::pieces_of<ConstPiece>(buffers);
    write(name, detail::dtype_given<detail::ElementOfList<const List>>,
          std::span<const ConstPiece>(pieces));
  }
  /// For a dtype known at run time only; one piece is all buffers of a scattered tensor.
  void write(std::string_view name, DType dtype, const void* from, std::size_t count) {
    const ConstPiece whole{from, count};
    write(name, dtype, std::span(&whole, 1));
  }
  /// Writes several pieces, one for each buffer of a scattered tensor.
  void write(std::string_view name, DType dtype, std::span<const ConstPiece> from);

  /// Copies the elements of `name` to `data`, after all steps so far; throws what went wrong in
  /// them, and BackendError as `write` does.
  template <detail::Elements Range>
  void read(std::string_view name, Range&& data) {
    const std::span elements(data);
    read(name, detail::dtype_given<detail::ElementOf<Range>>, elements.data(), elements.size());
  }
  /// Reads a scattered tensor into memory for each of its buffers, in order.
  template <detail::ListOfElements List>
  void read(std::string_view name, List&& buffers) {
    const auto pieces = detail::pieces_of<Piece>(buffers);
    read(name, detail::dtype_given<detail::ElementOfList<List>>, std::span<const Piece>(pieces));
  }
  /// For a dtype known at run time only; one piece is all buffers of a scattered tensor.
  void read(std::string_view name, DType dtype, void* to, std::size_t count) {
    const Piece whole{to, count};
    read(name, dtype, std::span(&whole, 1));
  }
  /// Reads into several pieces, one for each buffer of a scattered tensor.
  void read(std::string_view name, DType dtype, std::span<const Piece> to);

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
  template <detail::Elements Range>
  void write_whole(std::string_view name, const Range& data) {
    const std::span elements(data);
    write_whole(name, detail::dtype_given<detail::ElementOf<const Range>>, elements.data(),
                elements.size());
  }
  /// `write_whole` of a dtype known at run time only.
  void write_whole(std::string_view name, DType dtype, const void* from, std::size_t count);
  /// Collective: `read` of a whole tensor, which every rank gets.
  template <detail::Elements Range>
  void read_whole(std::string_view name, Range&& data) {
    const std::span elements(data);
    read_whole(name, detail::dtype_given<detail::ElementOf<Range>>, elements.data(),
               elements.size());
  }
  /// `read_whole` of a dtype known at run time only.
  void read_whole(std::string_view name, DType dtype, void* to, std::size_t count);
  /// The one element of the output or state `name`. Throws BackendError where there are several.
  template <class T>
  [[nodiscard]] T scalar_of(std::string_view name) {
    T value;
    read(name, std::span(&value, 1));
    return value;
  }

  /// Collective: from here on, every state that both programs have under one name has one memory,
  /// the owner's with its values, whichever of the two binds, writes or runs: train and evaluate,
  /// or two batch sizes. The states live as long as one of the executables that share them, so the
  /// owner may be destroyed first. What `data` gave of this executable's states before is freed.
  /// Where kernels of this one reach a state from other ranks and the owner's do not, its values
  /// move to memory that other ranks reach, unless the application uses where they are: each step
  /// of this one then copies. Throws BackendError when the two have no state in common or one of
  /// another dtype, extent or layout, and when the owner is of another world or was moved from;
  /// CommError when ranks name other owners.
  void share_states(Executable& owner);

  /// Collective: gives symbolic dimensions other extents; those that are not named keep theirs.
  /// Dimensions that tensors are scattered over get their buffers' lengths in `lists`. No kernel is
  /// generated or compiled: they serve all extents. An automatic schedule stays what `compile` took
  /// for the first ones. Tensors of unchanged extents keep their memory, bindings and elements;
  /// others are unbound, in zeroed memory of the library's, so that inputs must be written or bound
  /// again, and what `data` gave of them is freed. Times and counts of runs begin anew, a trace
  /// ends. Memory of both sizes is held until the end of the call; when it throws, nothing has
  /// changed. Throws ProgramError as `compile` does, BackendError when a shared state would change,
  /// or there is no room, CommError when ranks give other extents.
  void resize(const Sizes& sizes, const ParameterLists& lists = {});

  /// Collective: saves all states as the checkpoint `path`, a directory, after all steps so far.
  /// Each rank writes its share: what several have alike is written once. It is written beside its
  /// place and put there when all of it is on the disk, so that one of this name is replaced as a
  /// whole, or stays; a damaged one of this name is put aside, and the log says where. `path` is
  /// rank 0's, and all ranks must see its directory, which is made where it is missing. Throws
  /// CheckpointError where files cannot be written, naming the file and the reason, or there is
  /// something else at `path`; CommError when ranks save to other places or with other options.
  /// Then no new checkpoint is there.
  void save(const std::filesystem::path& path, const SaveOptions& options = {});

  /// Collective: gives all states what the checkpoint `path` has under their names. They must have
  /// the same dtype and the same shape as a whole; the number of ranks, the schedule and the
  /// layouts may be others, and states of the checkpoint that the program has not are left out. A
  /// state of which every rank has its own (local) needs as many different ones. Each rank reads
  /// what it needs, and compares it with its checksums. Throws CheckpointError where the checkpoint
  /// does not fit, before any state is changed, or is damaged, naming the file and the byte: states
  /// may then have been changed.
  Checkpoint load(const std::filesystem::path& path);

  /// Collective: `load` of the newest checkpoint in `directory`, or, where it is damaged, of the
  /// one before; the log says so. Symbolic links in it are not followed. Where `directory` is a
  /// checkpoint itself, it is loaded. Nothing where there is none, which the log says, too. Throws
  /// CheckpointError when `directory` is missing, unless `options` say that it may be; when all are
  /// damaged; when it cannot be said what is there; or when one that is whole does not fit.
  std::optional<Checkpoint> load_latest(const std::filesystem::path& directory,
                                        const LoadOptions& options = {});

  /// With COCONET_BACKEND=cuda: puts steps, reads and writes into the application's `stream`, a
  /// cudaStream_t or CUstream of the rank's GPU, from here on, in order with what else is in it.
  /// Without it they go into a stream of the library's own, which the legacy default stream waits
  /// for and which waits for it. No effect on the host.
  void use_stream(void* stream);
  /// The states and outputs that a step which failed may have left half written on some rank. To
  /// read them, or take pointers to them, throws BackendError until they are written, bound or
  /// loaded anew; states that are shared are torn for all who share them.
  [[nodiscard]] std::vector<std::string> torn() const;
  /// Takes what is torn as it is.
  void take_torn();

  /// Collective: begins anew. After all steps so far, states and outputs become zero, none is torn,
  /// times and counts of runs begin anew, and a trace ends; extents, bindings and kernels stay.
  /// States that are shared are zero for all who share them. An executable that a failed step has
  /// left unable to run can run again, unless the world is over: then this throws CommError, and
  /// the program is compiled for the world that `World::shrink` makes.
  void reset();

  /// Waits for all steps so far, which on a GPU may still be running when `run` has returned.
  /// Throws CommError or BackendError for what went wrong in them.
  void synchronize();

  /// Collective: one step, with the same scalars on all ranks. Throws BackendError for an input
  /// that nothing is bound to or an unknown or missing scalar, before any state is touched;
  /// CommError when a rank failed or is late.
  void run(std::initializer_list<ScalarValue> scalars = {}) {
    run(std::span<const ScalarValue>(scalars.begin(), scalars.size()));
  }
  /// One step with any number of scalars, known at run time.
  void run(std::span<const ScalarValue> scalars);

  /// Times of this rank's steps so far, without communication and without waiting: on a GPU, of
  /// what has ended by now. A kernel's time contains its waits for other ranks.
  [[nodiscard]] LocalStats local_stats();

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
  template <class T>
  static std::span<T> as_span(const Piece& piece) {
    return {static_cast<T*>(piece.data), piece.count};
  }
  /// Throws BackendError for an executable that was moved from.
  [[nodiscard]] State& state() const;

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
/// Collective: the same with `Schedule::automatic()`.
[[nodiscard]] COCONET_API Executable compile(const Program& program, const World& world,
                                             const Sizes& sizes = {},
                                             const ParameterLists& lists = {},
                                             const Options& options = {});

}  // namespace coconet
