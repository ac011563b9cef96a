// Indexed: a vector whose indices are ids. Values, buffers, steps, axes and ranks are counted in
// int, where -1 means none.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace coconet {

/// A std::vector that takes indices and lengths of any integer type, so that no use of an id needs
/// a cast. `at` refuses negative indices, too.
template <class T>
class Indexed : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  Indexed() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a vector of results is as good.
  Indexed(Base elements) : Base(std::move(elements)) {}
  template <std::integral Count>
  explicit Indexed(Count count) : Base(static_cast<std::size_t>(count)) {}
  template <std::integral Count>
  Indexed(Count count, const T& value) : Base(static_cast<std::size_t>(count), value) {}

  template <std::integral Index>
  [[nodiscard]] typename Base::reference operator[](Index index) {
    return Base::operator[](static_cast<std::size_t>(index));
  }
  template <std::integral Index>
  [[nodiscard]] typename Base::const_reference operator[](Index index) const {
    return Base::operator[](static_cast<std::size_t>(index));
  }
  template <std::integral Index>
  [[nodiscard]] typename Base::reference at(Index index) {
    return Base::at(static_cast<std::size_t>(index));
  }
  template <std::integral Index>
  [[nodiscard]] typename Base::const_reference at(Index index) const {
    return Base::at(static_cast<std::size_t>(index));
  }
  /// The number of elements, as ids count: the first id that is not one of this container.
  [[nodiscard]] int count() const { return static_cast<int>(Base::size()); }
};

}  // namespace coconet
