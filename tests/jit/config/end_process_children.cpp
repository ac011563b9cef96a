// Processes that end at once, for end_process_test.cpp.
#include <catch2/catch.hpp>
#include <cstdio>
#include <future>
#include <thread>

#include "jit/config/end_process.h"

TEST_CASE("a thread holds standard output for ever", "[.holds-a-stream]") {
  std::promise<void> holds;
  std::thread([&] {
    flockfile(stdout);
    holds.set_value();
    std::promise<void>().get_future().wait();
  }).detach();
  holds.get_future().wait();
  coconet::jit::end_process(7, "this is why\n");
}

TEST_CASE("a process has printed without a line's end", "[.prints-before-its-end]") {
  std::printf("before");
  coconet::jit::end_process(8);
}
