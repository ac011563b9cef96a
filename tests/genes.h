// Numbers from which a random case is read. Fewer and smaller ones make a simpler case, which is
// how a failure shrinks.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace coconet::test {

class Genes {
 public:
  explicit Genes(std::vector<std::uint32_t> genes) : genes_(std::move(genes)) {}

  /// A number below `limit`; 0 when the genes are exhausted.
  std::size_t below(std::size_t limit) {
    return next_ < genes_.size() ? genes_[next_++] % limit : 0;
  }
  bool one_in(std::size_t count) { return below(count) + 1 == count; }
  /// An element of a range that is not empty.
  template <class Range>
  auto any(Range&& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(below(std::size(range))));
  }

 private:
  std::vector<std::uint32_t> genes_;
  std::size_t next_ = 0;
};

}  // namespace coconet::test
