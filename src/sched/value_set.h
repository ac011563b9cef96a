// ValueSet: a set of a program's values, a bit for each of them. For sets that may hold any part of
// a program; what a kernel holds is a std::set.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "ir/graph.h"

namespace coconet::sched {

class ValueSet {
 public:
  /// Empty, of values of `graph`.
  explicit ValueSet(const ir::Graph& graph) : words_((graph.nodes().size() + 63) / 64) {}
  template <class Range>
  ValueSet(const ir::Graph& graph, const Range& values) : ValueSet(graph) {
    for (const ir::ValueId value : values) insert(value);
  }

  [[nodiscard]] bool contains(ir::ValueId value) const {
    return (word_of(value) & bit(value)) != 0;
  }
  /// Whether it is new.
  bool insert(ir::ValueId value) {
    std::uint64_t& word = words_[static_cast<std::size_t>(value) / 64];
    const bool is_new = (word & bit(value)) == 0;
    word |= bit(value);
    return is_new;
  }
  void erase(ir::ValueId value) { words_[static_cast<std::size_t>(value) / 64] &= ~bit(value); }
  [[nodiscard]] int size() const {
    int count = 0;
    for (const std::uint64_t word : words_) count += std::popcount(word);
    return count;
  }

  /// In order.
  class Iterator {
   public:
    using value_type = ir::ValueId;
    using difference_type = std::ptrdiff_t;
    using reference = ir::ValueId;
    using pointer = const ir::ValueId*;
    using iterator_category = std::input_iterator_tag;

    Iterator(const std::vector<std::uint64_t>& words, std::size_t at) : words_(&words), at_(at) {
      if (at_ < words.size()) rest_ = words[at_];
      skip();
    }
    ir::ValueId operator*() const {
      return static_cast<ir::ValueId>(at_ * 64) + std::countr_zero(rest_);
    }
    Iterator& operator++() {
      rest_ &= rest_ - 1;
      skip();
      return *this;
    }
    bool operator==(const Iterator& other) const {
      return at_ == other.at_ && rest_ == other.rest_;
    }

   private:
    void skip() {
      while (rest_ == 0 && at_ < words_->size()) {
        ++at_;
        rest_ = at_ < words_->size() ? (*words_)[at_] : 0;
      }
    }
    const std::vector<std::uint64_t>* words_;
    std::size_t at_;
    std::uint64_t rest_ = 0;
  };
  [[nodiscard]] Iterator begin() const { return {words_, 0}; }
  [[nodiscard]] Iterator end() const { return {words_, words_.size()}; }

 private:
  static std::uint64_t bit(ir::ValueId value) {
    return std::uint64_t{1} << (static_cast<unsigned>(value) % 64);
  }
  [[nodiscard]] std::uint64_t word_of(ir::ValueId value) const {
    return words_[static_cast<std::size_t>(value) / 64];
  }
  std::vector<std::uint64_t> words_;
};

}  // namespace coconet::sched
