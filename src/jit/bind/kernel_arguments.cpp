// Filling argument blocks.
#include "jit/bind/kernel_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "jit/codegen/tile_sync.h"

namespace coconet::jit {

/// Puts the fields of a block one behind the other: a function for each kind of argument.
class ArgumentWriter {
 public:
  ArgumentWriter(KernelArguments& block, const KernelContext& context,
                 const sched::KernelStep& step, const KernelText& text, int blocks,
                 const ExchangeMemory& memory, const SegmentMemory& segments, std::size_t number)
      : block_(block),
        context_(context),
        step_(step),
        memory_(memory),
        segments_(segments),
        number_(number),
        row_begin_(find_rows(text, blocks)) {}

  void put(const KernelArgument& argument);

 private:
  using Argument = const KernelArgument&;

  template <class T>
  std::size_t append(const T& value) {
    const std::size_t word = block_.words_.size();
    constexpr std::size_t bytes = sizeof(T);
    block_.words_.resize(word + bytes / sizeof(std::uint64_t));
    block_.set(word, value);
    return word;
  }
  template <class Places>
  void append_all(const Places& places) {
    for (const auto& place : places) append(place);
  }
  /// Appends a field that changes.
  template <class T>
  KernelArguments::Field<T> changing(const T& value) {
    return {append(value), value};
  }
  [[nodiscard]] const ir::Part& domain() const { return context_.plan.domain(step_); }
  [[nodiscard]] bool is_scattered(Argument argument) const {
    return context_.plan.buffer(argument.buffer).scattered;
  }
  [[nodiscard]] View view(Argument argument) const {
    return argument.buffer >= 0 ? context_.plan.view(step_, argument.buffer, argument.value)
                                : context_.plan.view_of_whole(step_, argument.value);
  }

  /// The first of the last dimensions that make one row of a pointwise kernel: as many as all
  /// tensors that it accesses have behind each other in memory, and no fewer rows than `blocks`,
  /// which share them out, unless they are what totals are counted of. Rows stay as many as they
  /// are on a GPU, and where they arrive or depart one by one.
  [[nodiscard]] int find_rows(const KernelText& text, int blocks) const {
    const int last = static_cast<int>(domain().extent.size()) - 1;
    const bool of_all_rows = context_.platform.traits().fixed_threads > 0 && !text.linear &&
                             !text.by_bucket && !step_.is_reduction() && !synchronizes_tiles(step_);
    if (!of_all_rows) return last;
    const auto continues_in_all = [&](int dim) {
      return std::ranges::all_of(text.arguments, [&](Argument argument) {
        return argument.kind != KernelArgument::Kind::offset || continues(view(argument), dim);
      });
    };
    const std::int64_t least = step_.reductions().empty() ? blocks : 1;
    std::int64_t rows = domain().count() / std::max<std::int64_t>(1, row_of(domain(), last));
    int first = last;
    while (first > 0 && continues_in_all(first - 1)) {
      rows /= std::max<std::int64_t>(1, domain().extent[first - 1]);
      if (rows < least) break;
      --first;
    }
    return first;
  }
  /// Whether the elements of `seen` along dimension `dim` are as far from each other as the rows of
  /// the dimensions behind it are long.
  [[nodiscard]] bool continues(const View& seen, int dim) const {
    return domain().extent[dim] == 1 ||
           seen.strides[dim] == seen.strides.back() * row_of(domain(), dim + 1);
  }

  void put_pointer(Argument argument) {
    if (is_scattered(argument)) {
      append(context_.tables.addresses(argument.buffer, context_.plan.rank()));
    } else {
      block_.pointers_.push_back({append(abi::u64{0}), argument.buffer});
    }
  }
  void put_pointers(Argument argument) {
    if (is_scattered(argument)) {
      for (const int rank : block_.group_) append(context_.tables.addresses(argument.buffer, rank));
      return;
    }
    block_.pointers_of_ranks_.push_back({block_.words_.size(), argument.buffer});
    append_all(std::vector<abi::u64>(block_.group_.size()));
  }
  void put_multicast(Argument argument) {
    block_.multicast_.push_back({append(abi::u64{0}), argument.buffer});
    put_pointers(argument);
  }
  void put_offset(Argument argument) { append(view(argument).offset); }
  void put_stride(Argument argument) { append(view(argument).strides[argument.dim]); }
  void put_extent(Argument argument) {
    const int last = static_cast<int>(domain().extent.size()) - 1;
    if (argument.dim < row_begin_) {
      append(domain().extent[argument.dim]);
    } else {
      append(argument.dim == last ? row_of(domain(), row_begin_) : std::int64_t{1});
    }
  }
  void put_count(Argument) { append(domain().count()); }
  void put_rows(Argument) {
    const std::int64_t row = row_of(domain(), row_begin_);
    append(row == 0 ? 0 : domain().count() / row);
  }
  void put_outputs(Argument) { append(results_of(context_.plan.graph(), step_, domain()).count); }
  void put_inner(Argument) { append(results_of(context_.plan.graph(), step_, domain()).elements); }
  void put_row(Argument argument) { append(row_of(domain(), argument.dim)); }
  void put_number(Argument argument) {
    block_.numbers_.push_back({append(abi::f64{0}), argument.value});
  }
  void put_mode(Argument) { block_.mode_ = append(abi::u64{abi::VECTORIZE}); }
  void put_sync(Argument) {
    block_.sync_ = changing(context_.sync.argument(step_.axis, number_));
    append_all(context_.sync.flags_of_ranks(step_.axis));
  }
  void put_totals(Argument) {
    block_.turns_.push_back(append(abi::u64{0}));
    append(abi::index_t{memory_.shares()});
    append_all(memory_.totals_of_ranks());
  }
  void put_buffer_totals(Argument) {
    block_.turns_.push_back(append(abi::u64{0}));
    append_all(memory_.buffer_totals_of_ranks());
  }
  void put_slices(Argument) { append(memory_.slices()); }
  void put_mailboxes(Argument) {
    block_.mailboxes_ = changing(memory_.mailboxes());
    append_all(memory_.mailboxes_of_ranks());
  }
  void put_buckets(Argument) { append(buckets_of(context_.tables, context_.plan, step_)); }
  void put_buffer_rows(Argument) { append(segments_.buffer_rows()); }
  void put_segments(Argument) { append(segments_.argument()); }
  void put_lookup(Argument argument) { append(context_.plan.lookup(argument.value)); }
  void put_tiles(Argument argument) {
    block_.tiles_.push_back(changing(context_.tiles.at(argument.buffer).argument()));
  }

  KernelArguments& block_;
  const KernelContext& context_;
  const sched::KernelStep& step_;
  const ExchangeMemory& memory_;
  const SegmentMemory& segments_;
  const std::size_t number_;
  const int row_begin_;
};

void ArgumentWriter::put(const KernelArgument& argument) {
  const std::size_t begin = block_.words_.size();
  switch (argument.kind) {
#define COCONET_ARGUMENT(kind, field, head, by_rank) \
  case KernelArgument::Kind::kind:                   \
    put_##kind(argument);                            \
    break;
#include "jit/codegen/arguments.def"
#undef COCONET_ARGUMENT
  }
  const std::size_t bytes = (block_.words_.size() - begin) * sizeof(std::uint64_t);
  if (bytes != bytes_of(argument.kind, block_.group_.size())) {
    throw InternalError(
        fmt::format("argument '{}' of kernel '{}' has another size in the kernel's text",
                    argument.name, step_.name));
  }
}

KernelArguments::KernelArguments(const KernelContext& context, const sched::KernelStep& step,
                                 const KernelText& text, int blocks, const ExchangeMemory& memory,
                                 const SegmentMemory& segments, std::size_t number)
    : group_(context.plan.group(step.axis)) {
  ArgumentWriter writer(*this, context, step, text, blocks, memory, segments, number);
  for (const KernelArgument& argument : text.arguments) writer.put(argument);
}

void KernelArguments::refresh(const Tensors& tensors, std::uint64_t mode) {
  if (mode_) set(*mode_, mode);
  for (const auto& [word, buffer] : pointers_) set(word, tensors[buffer].data());
  for (const auto& [word, buffer] : multicast_) set(word, tensors[buffer].multicast);
  for (const auto& [word, buffer] : pointers_of_ranks_) {
    for (std::size_t i = 0; i < group_.size(); ++i)
      set(word + i, tensors[buffer].peers()[group_[i]]);
  }
}

void KernelArguments::begin_launch(const Numbers& numbers, std::uint64_t epoch,
                                   std::uint64_t* waited) {
  for (const auto& [word, value] : numbers_) set(word, numbers[value]);
  if (sync_) {
    sync_->value.epoch = epoch;
    sync_->value.given = numbers.given();
    sync_->value.waited = reinterpret_cast<abi::u64*>(waited);
    set(*sync_);
  }
  for (const std::size_t turn : turns_) set(turn, launches_);
  if (mailboxes_) {
    mailboxes_->value.first = launches_ * mailboxes_->value.chunks;
    set(*mailboxes_);
  }
  ++launches_;
  for (Field<abi::Tiles>& tiles : tiles_) {
    tiles.value.run = launches_;
    set(tiles);
  }
}

}  // namespace coconet::jit
