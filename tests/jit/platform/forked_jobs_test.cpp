// Forked processes do every job once between them, and one that ends early does not go unseen.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "jit/platform/forked_jobs.h"

using Catch::Matchers::Equals;
using coconet::test::run_forked;

TEST_CASE("forked processes do every job once") {
  for (const int processes : {1, 2, 3}) {
    std::string all;
    for (const std::string& said :
         run_forked(20, processes, [](std::size_t i) { return std::string(1, char('a' + i)); }))
      all += said;
    std::sort(all.begin(), all.end());
    CHECK(all == "abcdefghijklmnopqrst");
  }
  CHECK(run_forked(20, 2, [](std::size_t) { return std::string(); }).empty());
}

TEST_CASE("what forked processes say is kept, and that one ended early is added") {
  const auto all_fail = [](std::size_t i) -> std::string {
    if (i == 2) _exit(7);
    if (i == 3) throw std::runtime_error("job 3 is wrong");
    return "did " + std::to_string(i) + "; ";
  };
  CHECK_THAT(run_forked(3, 1, all_fail),
             Equals(std::vector<std::string>{"did 0; did 1; ",
                                             "a process ended before its jobs, with code 7"}));
  CHECK_THAT(run_forked(4, 1, [&](std::size_t i) { return all_fail(i == 0 ? 3 : i); }),
             Equals(std::vector<std::string>{"job 3 is wrong",
                                             "a process ended before its jobs, with code 1"}));
}
