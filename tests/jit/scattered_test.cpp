// Scattered tensors: programs over lists of buffers equal the reference, whatever the lengths are, and tables stay small.
#include <array>

#include "jit/bucket_table.h"
#include "jit/shipped_conformance.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;

namespace {

using List = std::vector<std::int64_t>;

std::int64_t sum_of(const List& list) {
  std::int64_t sum = 0;
  for (const std::int64_t length : list) sum += length;
  return sum;
}

/// One buffer, buffers shorter than a vector, ones that begin and end inside of the buckets of others, and slices that
/// begin and end in any of them.
const std::vector<List> lists = {{1},
                                 {17},
                                 {1, 1, 1},
                                 {5, 1, 64, 3},
                                 {4096, 4096},
                                 {1, 4097, 2, 8191, 1, 300},
                                 {9000, 1, 1, 1, 1, 1, 1, 1, 1000}};

std::vector<Checked> cases_of(const std::vector<List>& all, int iterations) {
  std::vector<Checked> cases;
  for (const List& list : all) {
    Checked checked;
    checked.sizes = {{"n", sum_of(list)}};
    checked.options.drive.iterations = iterations;
    checked.options.lists = {{"n", list}};
    cases.push_back(checked);
  }
  return cases;
}

}  // namespace

TEST_CASE("every optimizer over lists of buffers equals the reference under every schedule") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.scattered == nullptr) continue;
    for (const DType dtype : shipped.dtypes) {
      // The dtypes of a program differ in the kernels' text alone, which needs no further ranks.
      const std::vector<int> counts =
          dtype == shipped.dtypes.front() ? std::vector{1, 2, 3} : std::vector{2};
      for (const std::string_view schedule : shipped.schedules) {
        for (const int ranks : counts) {
          INFO(to_string(dtype));
          require_conforms(shipped.scattered(shipped.mesh(ranks), dtype),
                           shipped_schedule(shipped, schedule), ranks, cases_of(lists, 2));
        }
      }
    }
  }
}

TEST_CASE("buckets cover a part in order, each inside one buffer") {
  for (const List& list : lists) {
    const std::int64_t total = sum_of(list);
    for (const std::int64_t begin : {std::int64_t{0}, total / 3, total - 1}) {
      for (const std::int64_t count : {std::int64_t{0}, (total - begin) / 2, total - begin}) {
        std::int64_t covered = 0;
        for (const jit::Bucket& bucket : jit::make_buckets(list, begin, count)) {
          CHECK(bucket.begin == covered);
          CHECK((bucket.length >= 1 && bucket.length <= jit::bucket_elements));
          const List before(list.begin(), list.begin() + bucket.buffer);
          const std::int64_t start = sum_of(before);
          CHECK(begin + bucket.begin >= start);
          CHECK(begin + bucket.begin + bucket.length <= start + list.at(bucket.buffer));
          covered += bucket.length;
        }
        CHECK(covered == count);
      }
    }
  }
}
