// Handles as numbers: 1, 2, 3, ... in order of creation, with what they are a handle of in the
// upper half. Nobody can look into them, and one that was destroyed, or is of another kind, is
// found out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>

namespace stub {

enum class Kind : std::uint64_t {
  context = 1,
  stream,
  event,
  library,
  kernel,
  function,
  graph,
  node,
  exec,
  physical
};

template <class Handle>
std::uint64_t handle_bits(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uint64_t>(handle);
  } else {
    return handle;
  }
}

/// What the log calls it; 0 for NULL.
template <class Handle>
std::uint64_t number_of(Handle handle) {
  return handle_bits(handle) & 0xffffffffU;
}

template <class Handle>
Handle make_handle(Kind kind, std::uint64_t number) {
  const std::uint64_t bits = static_cast<std::uint64_t>(kind) << 32 | number;
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(bits);
  } else {
    return bits;
  }
}

/// The live objects of one kind. Operations under way keep a pointer to what they use.
template <class Object, class Handle, Kind kind>
class Table {
 public:
  Handle add(std::shared_ptr<Object> object) {
    objects_[++created_] = std::move(object);
    return make_handle<Handle>(kind, created_);
  }

  [[nodiscard]] std::shared_ptr<Object> find(Handle handle) const {
    if (handle_bits(handle) >> 32 != static_cast<std::uint64_t>(kind)) return nullptr;
    const auto at = objects_.find(number_of(handle));
    return at == objects_.end() ? nullptr : at->second;
  }

  void remove(Handle handle) { objects_.erase(number_of(handle)); }
  template <class Predicate>
  void remove_if(const Predicate& predicate) {
    std::erase_if(objects_, [&](const auto& row) { return predicate(*row.second); });
  }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  [[nodiscard]] const auto& all() const { return objects_; }

 private:
  std::map<std::uint64_t, std::shared_ptr<Object>> objects_;
  std::uint64_t created_ = 0;
};

}  // namespace stub
