// The order in which waits of a world look at what they wait for and at notices of other ranks.
#pragma once

namespace coconet::jit {

/// Calls `look` until it finds what is waited for, or `is_over` says that the wait must end; `rest`
/// in between. Whether it was found. It looks for the data, then at notices, and then, after what
/// `rest` brings, for the data once more: a rank that has done its part and left, or failed, is not
/// missed. The prelude's waits do the same.
template <class Look, class IsOver, class Rest>
[[nodiscard]] bool wait_until(const Look& look, const IsOver& is_over, const Rest& rest) {
  for (bool gives_up = false; !look();) {
    if (gives_up) return false;
    gives_up = is_over();
    rest();
  }
  return true;
}

}  // namespace coconet::jit
