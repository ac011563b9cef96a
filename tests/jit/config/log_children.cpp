// What config_test.cpp runs in a process of its own.
#include <catch2/catch.hpp>

#include "jit/config/log.h"

using namespace coconet::jit;

TEST_CASE("a process that is a rank of several worlds speaks", "[.child][speaks]") {
  log_warn("before any world");
  log_as_rank(1, 4);
  log_warn("in a world");
  log_as_rank(0, 2);
  log_warn("in a part of it");
}
