// Who finds or compiles which kernel: the same answer on all ranks, each digest once, spread.
#include "jit/kernels/election.h"

#include <catch2/catch.hpp>

using namespace coconet::jit;

namespace {

Digest digest(int number) {
  Digest result{};
  result[0] = static_cast<unsigned char>(number);
  return result;
}

std::vector<Need> needs(std::initializer_list<int> numbers, Reach reach = Reach::absent) {
  std::vector<Need> result;
  for (const int number : numbers) result.push_back({digest(number), reach});
  return result;
}

std::vector<int> leaders(const std::vector<Task>& tasks) {
  std::vector<int> result;
  for (const Task& task : tasks) result.push_back(task.leader);
  return result;
}

}  // namespace

TEST_CASE("compilations spread over the ranks, each key once") {
  const auto tasks =
      elect({needs({1, 2, 3, 4, 5}), needs({1, 2, 3, 4, 5}), needs({1, 2, 3, 4, 5})});
  REQUIRE(tasks.size() == 5);
  CHECK(leaders(tasks) == std::vector<int>{0, 1, 2, 0, 1});
  for (int i = 0; i < 5; ++i) CHECK(tasks[static_cast<std::size_t>(i)].digest == digest(i + 1));
}

TEST_CASE("a rank leads only what it needs itself") {
  const auto tasks = elect({needs({1}), needs({2}), needs({1}), needs({2})});
  REQUIRE(tasks.size() == 2);
  CHECK(leaders(tasks) == std::vector<int>{0, 1});
  CHECK(elect({needs({7}), needs({8}), needs({9})}).size() == 3);
}

TEST_CASE("who has it leads: in memory before on disk before nowhere") {
  auto disk = needs({1, 2});
  disk[1].reach = Reach::on_disk;
  auto memory = needs({1, 2});
  memory[0].reach = Reach::in_memory;
  const auto tasks = elect({needs({1, 2}), disk, memory, needs({1, 2})});
  REQUIRE(tasks.size() == 2);
  CHECK(leaders(tasks) == std::vector<int>{2, 1});
  CHECK(tasks[0].reach == Reach::in_memory);
  CHECK(tasks[1].reach == Reach::on_disk);
}

TEST_CASE("what is read from disk does not count against those that compile") {
  auto first = needs({1, 2, 3});
  first[0].reach = Reach::on_disk;
  const auto tasks = elect({first, needs({1, 2, 3})});
  CHECK(leaders(tasks) == std::vector<int>{0, 0, 1});
}

TEST_CASE("a key that a rank needs twice is one task, and no needs are no tasks") {
  CHECK(elect({needs({1, 1}), needs({1, 1})}).size() == 1);
  CHECK(elect({{}, {}}).empty());
}
