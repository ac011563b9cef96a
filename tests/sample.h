// What the quick suite runs of large products of cases: some of them, drawn by a seed. With
// TESTS_ALL=1 in the environment (tests/run.sh --all) more of them run, or all.
//
// TESTS_SEED, a number, is what cases are drawn by; a test that fails prints it. TESTS_ONE_IN says
// how few of a product run, and TESTS_ALL_ONE_IN the same with TESTS_ALL=1: 8 is one in eight. Both
// come from tests/CMakeLists.txt, where the time that a product takes is known.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace coconet::test {

/// Whether this is the whole suite.
[[nodiscard]] bool runs_all();

/// What cases are drawn by: TESTS_SEED, or 1.
[[nodiscard]] std::uint64_t seed();

/// How many cases of a product there are for one that runs.
[[nodiscard]] std::uint64_t one_in();

/// Whether the next case of the running test's products runs: the first one does, and any other one
/// with the probability 1 / `one_in()`. All ranks of a job draw the same.
[[nodiscard]] bool draw();

/// As many of `all` as one in `one_in()` of them, at least `least`.
[[nodiscard]] std::size_t share_of(std::size_t all, std::size_t least = 1);

/// Whether no more than `limit` has passed since `start`, of which the quick suite is always sure:
/// machines may be busy.
[[nodiscard]] bool is_within(std::chrono::steady_clock::time_point start,
                             std::chrono::milliseconds limit);

}  // namespace coconet::test
