// The order in which waits of a world look at what they wait for and at news of other ranks.
#pragma once

namespace coconet::jit {

/// Calls `look` until it finds what is waited for, or waiting is in vain, as `vain` says; `rest` in
/// between. Whether it was found. It looks for the data, then for news, and then, after what `rest`
/// brings, for the data once more: a rank that has done its part and left, or failed, is not
/// missed. The prelude's waits do the same.
template <class Look, class Vain, class Rest>
[[nodiscard]] bool wait_until(const Look& look, const Vain& vain, const Rest& rest) {
  for (bool gives_up = false; !look();) {
    if (gives_up) return false;
    gives_up = vain();
    rest();
  }
  return true;
}

}  // namespace coconet::jit
