// Scattered tensors in an executable: whose memory they are, what is refused, and how small their
// tables are.
#include <algorithm>
#include <string_view>

#include "bert.h"
#include "elements.h"
#include "jit/bind/bucket_table.h"
#include "jit/bind/lists.h"
#include "jit/comm/rank_outcomes.h"
#include "jit/comm/require_on_rank.h"
#include "jit/conformance/shipped_conformance.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;

namespace {

Executable compile_sgd(const World& world, std::string_view schedule, const List& list) {
  return compile(programs::sgd(Mesh::over(world), f32, {}, programs::Storage::scattered),
                 shipped_schedule(*programs::find("sgd"), schedule), world, {}, {{"n", list}});
}

/// Buffers of the lengths of `list`, in order, the last of which is allocated first if
/// `last_first`.
std::vector<Buffer> allocate(const World& world, const List& list, bool last_first) {
  std::vector<Buffer> buffers(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::size_t at = last_first ? list.size() - 1 - i : i;
    buffers[at] = world.allocate(f32, static_cast<std::size_t>(list[at]));
  }
  return buffers;
}

}  // namespace

TEST_CASE("the application's buffers may lie anywhere, and others may take their place") {
  const List list = {5, 1, 4100};
  constexpr int ranks = 2;
  REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
    Executable step = compile_sgd(world, "fused", list);
    for (const bool last_first : {false, true}) {
      const std::vector<Buffer> g = allocate(world, list, last_first);
      const std::vector<Buffer> w = allocate(world, list, last_first);
      step.bind("g", g);
      step.bind("w", w);
      for (std::size_t i = 0; i < list.size(); ++i) {
        std::ranges::fill(g[i].as<float>(), static_cast<float>(i + 1));
        std::ranges::fill(w[i].as<float>(), 10.0f);
      }
      world.barrier();
      step.run({{"lr", 0.5}});
      for (std::size_t i = 0; i < list.size(); ++i) {
        for (const float weight : w[i].as<float>())
          REQUIRE_ON_RANK(weight == 10.0f - 0.5f * static_cast<float>(i + 1));
      }
    }
  }));
}

TEST_CASE("memory of the process alone is bound where no other rank reaches it") {
  const List list = {3, 1, 2};
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = compile_sgd(world, "unfused", list);
    std::vector<std::vector<float>> g, w;
    for (const std::int64_t length : list) {
      g.emplace_back(static_cast<std::size_t>(length), 2.0f);
      w.emplace_back(static_cast<std::size_t>(length), 4.0f);
    }
    const std::vector<std::vector<float>>& read_only = g;
    step.bind("g", read_only);
    step.bind("w", w);
    step.run({{"lr", 1.0}});
    for (const std::vector<float>& one : w)
      REQUIRE_ON_RANK(one == std::vector<float>(one.size(), 2.0f));
    REQUIRE_ON_RANK(elements_of(step, "w") == std::vector<float>(6, 2.0f));
    REQUIRE_ON_RANK(step.buffers("w") == 3);
    REQUIRE_ON_RANK(step.data<float>("w", 1).data() == w[1].data());
    REQUIRE_ON_RANK(step.data<const float>("g", 2).size() == 2);
    const std::vector<std::vector<float>> other = {{1, 2, 3}, {4}, {5, 6}};
    step.write("w", other);
    REQUIRE_ON_RANK(w == other);
    std::vector<float> a(3), b(1), c(2);
    step.read("w", std::vector<std::span<float>>{a, b, c});
    REQUIRE_ON_RANK(a == other[0] && b == other[1] && c == other[2]);
  }));
}

TEST_CASE("what does not fit a list is refused") {
  World::local(2, [](World& world) {
    Executable step = compile_sgd(world, "fused", {3, 1});
    const std::string start = "'w', 4 x f32 on rank " + std::to_string(world.rank()) + ", is ";
    std::vector<float> memory(4);
    const auto bind = [&](std::vector<std::size_t> counts) {
      std::vector<std::span<float>> spans;
      for (const std::size_t count : counts) spans.emplace_back(memory.data(), count);
      return refusal<BackendError>([&] { step.bind("w", spans); });
    };
    REQUIRE_ON_RANK(bind({4}) ==
                    start + "scattered over 2 buffers, and 1 is given; give a list of 2");
    REQUIRE_ON_RANK(bind({1, 3}) == start + "given 1 elements as buffer 0; its list has 3 there");
    REQUIRE_ON_RANK(refusal<BackendError>([&] { step.data<float>("w"); }) ==
                    start +
                        "scattered over 2 buffers, and data gives one of them; say which, "
                        "data<T>(\"w\", i) with i below Executable::buffers(\"w\")");
    REQUIRE_ON_RANK(refusal<BackendError>([&] { step.data<float>("w", 2); }) ==
                    start + "asked for as buffer 2; it has 2, counted from 0");
    REQUIRE_ON_RANK(refusal<BackendError>([&] { step.bind("w", memory); }) ==
                    start + "scattered over 2 buffers, and 1 is given; give a list of 2");
    REQUIRE_ON_RANK(refusal<BackendError>([&] { step.write("w", std::vector<float>(3)); }) ==
                    start + "given 3 elements; its buffers have 4");
    REQUIRE_ON_RANK(refusal<BackendError>([&] { step.data<double>("w", 0); }) ==
                    start + "used as f64; use it as f32");
  });
  World::local(1, [](World& world) {
    Executable step = compile(programs::sgd(Mesh::over(world)), Schedule(), world, {{"n", 4}});
    const std::vector<std::vector<float>> two(2, std::vector<float>(2));
    REQUIRE_ON_RANK(refusal<BackendError>([&] { step.write("w", two); }) ==
                    "'w', 4 x f32 on rank 0, is one buffer, and 2 are given; give one");
    REQUIRE_ON_RANK(step.buffers("w") == 1);
  });
}

TEST_CASE("a rank with another list is an error on every rank") {
  const auto ends = outcomes_of(2, [](World& world) {
    (void)compile_sgd(world, "fused", world.rank() == 0 ? List{3, 1} : List{1, 3});
  });
  CHECK(ends[0].what ==
        "all ranks must compile the same, but rank 1 has other lists of buffers than rank 0; rank "
        "0 has lists of n: 3 1");
  CHECK(ends[1].what ==
        "all ranks must compile the same, but rank 1 has other lists of buffers than rank 0; rank "
        "1 has lists of n: 1 3");
}

TEST_CASE("tables take less than 1.2 % of BERT's gradient in f16") {
  List list;
  for (const bert::Parameter& parameter : bert::parameters()) list.push_back(parameter.count());
  REQUIRE(list.size() == 199);
  const auto most = static_cast<double>(2 * sum_of(list)) * 0.012;
  const programs::Shipped& lamb = *programs::find("lamb");
  for (const std::string_view schedule : lamb.schedules) {
    World::local(2, [&](World& world) {
      Executable step = compile(lamb.scattered(Mesh::over(world), programs::mixed(f16)),
                                shipped_schedule(lamb, schedule), world, {}, {{"n", list}});
      const std::uint64_t bytes = step.report().table_bytes;
      REQUIRE_ON_RANK((bytes > 0 && static_cast<double>(bytes) < most));
    });
  }
}

TEST_CASE("buckets cover a part in order, each inside one buffer") {
  for (const List& list : lists) {
    const std::int64_t total = sum_of(list);
    for (const std::int64_t begin : {std::int64_t{0}, total / 3, total - 1}) {
      for (const std::int64_t count : {std::int64_t{0}, (total - begin) / 2, total - begin}) {
        std::int64_t covered = 0;
        for (const jit::abi::Bucket& bucket : jit::make_buckets(list, begin, count)) {
          CHECK(bucket.begin == covered);
          CHECK((bucket.length >= 1 && bucket.length <= jit::bucket_elements));
          const List before(list.begin(), list.begin() + bucket.buffer);
          const std::int64_t start = sum_of(before);
          CHECK(bucket.start == start);
          CHECK(begin + bucket.begin >= start);
          CHECK(begin + bucket.begin + bucket.length <= start + list.at(bucket.buffer));
          covered += bucket.length;
        }
        CHECK(covered == count);
      }
    }
  }
}
