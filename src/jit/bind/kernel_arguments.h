// A kernel's argument block on this rank: from run to run, only pointers, numbers and counts
// change.
#pragma once

#include <cstring>

#include "jit/bind/exchange_memory.h"
#include "jit/bind/grid.h"
#include "jit/bind/numbers.h"
#include "jit/bind/segments.h"

namespace coconet::jit {

class KernelArguments {
 public:
  /// Of the kernel of `step`, step `number` of the plan, which `blocks` share out.
  KernelArguments(const KernelContext& context, const sched::KernelStep& step,
                  const KernelText& text, int blocks, const ExchangeMemory& memory,
                  const SegmentMemory& segments, std::size_t number);

  /// Takes the pointers that tensors have now, and what `mode` they allow.
  void refresh(const Tensors& tensors, std::uint64_t mode);
  /// Takes this run's numbers, `epoch`, the first that the launch uses, and where its blocks add
  /// the nanoseconds that they wait; null: nowhere.
  void begin_launch(const Numbers& numbers, std::uint64_t epoch, std::uint64_t* waited);
  /// Counts a launch that is not made.
  void skip_launch() { ++launches_; }
  [[nodiscard]] std::span<const std::uint64_t> words() const { return words_; }

 private:
  /// A field that changes, and the word where it begins.
  template <class T>
  struct Field {
    std::size_t word;
    T value;
  };
  friend class ArgumentWriter;
  template <class T>
  void set(std::size_t word, const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0);
    std::memcpy(&words_[word], &value, sizeof(T));
  }
  template <class T>
  void set(const Field<T>& field) {
    set(field.word, field.value);
  }

  std::vector<std::uint64_t> words_;
  std::vector<int> group_;                                 ///< ranks along the kernel's axis
  std::vector<Field<sched::BufferId>> pointers_;           ///< of tensors on this rank,
  std::vector<Field<sched::BufferId>> pointers_of_ranks_;  ///< on the ranks of the group,
  std::vector<Field<sched::BufferId>> multicast_;          ///< and what stands for all of them
  std::vector<Field<ir::ValueId>> numbers_;
  std::optional<std::size_t> mode_;
  std::optional<Field<abi::SyncHead>> sync_;
  std::vector<std::size_t> turns_;  ///< of Totals and BufferTotals
  std::optional<Field<abi::MailboxesHead>> mailboxes_;
  std::vector<Field<abi::Tiles>> tiles_;
  std::uint64_t launches_ = 0;
};

}  // namespace coconet::jit
