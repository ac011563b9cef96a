// Assertions on the ranks of a local world: Catch's are for one thread only.
#pragma once

#include <stdexcept>

namespace coconet::test {

/// Throws what a rank found wrong.
inline void require_on_rank(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

}  // namespace coconet::test

#define REQUIRE_ON_RANK(...) coconet::test::require_on_rank((__VA_ARGS__), #__VA_ARGS__)
