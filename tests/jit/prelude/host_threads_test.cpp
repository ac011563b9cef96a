// Blocks of many threads on the host: what kernels are written in does there what it does on a GPU.
#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "child_process.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/random.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/host/compiler.h"
#include "jit/platform/platform.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr jit::Grid grids[] = {{.blocks = 1, .threads = 32},
                               {.blocks = 3, .threads = 32},
                               {.blocks = 2, .threads = 96},
                               {.blocks = 1, .threads = 1024}};

/// A kernel over i64 arrays `out` and `in`, the count of the latter and `mode`, whose body is
/// `statements`.
class TrialKernel {
 public:
  explicit TrialKernel(const std::string& statements, std::vector<std::string> headers = {}) {
    jit::KernelText text;
    text.name = "threads";
    text.headers = std::move(headers);
    text.source =
        "struct Args {\n  i64* out;\n  const i64* in;\n  index_t count;\n  u64 mode;\n};\n\n"
        "DEVICE void threads_block(const Args& a, const Block& block) {\n"
        "  const index_t at = block.index * block.threads + block.thread;\n" +
        statements + "}\nKERNEL_ENTRY(threads)\n";
    const jit::HostCompiler compiler(config().cxx, config().cxx_flags, config().compile_timeout,
                                     32);
    const jit::CompileResult compiled =
        compiler.compile(jit::complete_source(text, compiler.target()));
    INFO(compiled.log);
    REQUIRE(compiled.ok);
    kernel_ = jit::host_platform().load(compiled.binary, text.name);
  }
  void operator()(const jit::Grid& grid, std::vector<std::int64_t>& out,
                  const std::vector<std::int64_t>& in, std::uint64_t mode = 0) const {
    const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(out.data()),
                                   reinterpret_cast<std::uint64_t>(in.data()), in.size(), mode};
    jit::host_platform().make_queue()->launch(*kernel_, grid, words);
  }

 private:
  std::shared_ptr<const jit::Kernel> kernel_;
};

std::vector<std::int64_t> numbers(std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), std::int64_t{1});
  return values;
}

std::size_t threads_of(const jit::Grid& grid) {
  return static_cast<std::size_t>(grid.blocks) * static_cast<std::size_t>(grid.threads);
}

/// CHECKs that `kernel` leaves `expected` of each thread, its number in the grid and how many there
/// are in a block.
template <class Expected>
void check_threads(const TrialKernel& kernel, const Expected& expected) {
  for (const jit::Grid& grid : grids) {
    INFO(grid.blocks << " blocks of " << grid.threads << " threads");
    std::vector<std::int64_t> out(threads_of(grid)), of_all;
    for (std::int64_t at = 0; at < std::ssize(out); ++at)
      of_all.push_back(expected(at, grid.threads));
    kernel(grid, out, {});
    CHECK(out == of_all);
  }
}

}  // namespace

TEST_CASE("what a thread of a block wrote before a barrier is there after it") {
  const TrialKernel kernel(
      "  BLOCK_SHARED(block, i64, places, 1024);\n"
      "  i64 value = at;\n"
      "  for (int round = 0; round < 50; ++round) {\n"
      "    places[block.thread] = value;\n"
      "    block_barrier(block);\n"
      "    value = places[(block.thread + 1) % block.threads];\n"
      "    block_barrier(block);\n"
      "  }\n"
      "  a.out[at] = value;\n");
  check_threads(kernel, [](std::int64_t at, int threads) {
    return at / threads * threads + (at + 50) % threads;
  });
}

TEST_CASE("every thread of a block learns whether all of them are ok, vote after vote") {
  const TrialKernel kernel(
      "  for (int vote = 0; vote < 40; ++vote) {\n"
      "    const bool expected = vote % 3 != 1;\n"
      "    const bool all = all_in_block(block, expected || block.thread != vote % "
      "block.threads);\n"
      "    if (all != expected) ++a.out[at];\n"
      "    if (vote % 5 == 0) block_barrier(block);\n"
      "  }\n");
  check_threads(kernel, [](std::int64_t, int) { return 0; });
}

TEST_CASE("a shuffle takes the value of a thread further on in the warp") {
  const TrialKernel kernel(
      "  a.out[at] = shuffle_down(block, i64(at), 4) + 10000 * shuffle_down(block, i8(block.thread "
      "% 32), 31);\n");
  check_threads(kernel, [](std::int64_t at, int) {
    const std::int64_t lane = at % 32;
    return (lane < 28 ? at + 4 : at) + 10000 * (lane == 0 ? 31 : lane);
  });
}

TEST_CASE("all threads of a block get the reduction of any number of elements") {
  const TrialKernel kernel(
      "  const auto elements = [&]<int N>(width<N, false>, index_t j) {\n"
      "    return load<N>(a.in + j);\n  };\n"
      "  const i64 sum = block_reduce<2, sum_of, i64>(block, 0, a.count, a.mode, elements);\n"
      "  const i64 most = block_reduce<1, max_of, i64>(block, 0, a.count, a.mode, elements);\n"
      "  a.out[at] = sum * 100000 + most;\n");
  for (const jit::Grid& grid : grids) {
    for (const std::int64_t count : {1, 2, 31, 33, 300, 2003}) {
      for (const std::uint64_t mode : {0, 1}) {
        std::vector<std::int64_t> out(threads_of(grid));
        kernel(grid, out, numbers(count), mode);
        CHECK(out ==
              std::vector<std::int64_t>(out.size(), count * (count + 1) / 2 * 100000 + count));
      }
    }
  }
}

TEST_CASE("blocks reduce segments of results, launch after launch, and one keeps each result") {
  // Out: a result and how often it was kept, for each of three; then the segments' memory.
  const TrialKernel kernel(
      "  const index_t length = 10, each = a.count / 3;\n"
      "  const Segments segments{(each + length - 1) / length, length, "
      "reinterpret_cast<u64*>(a.out + 6)};\n"
      "  reduce_segments<sum_of, i64>(block, segments, 3, each,\n"
      "      [&](index_t o, index_t begin, index_t end) -> i64 {\n"
      "    return block_reduce<2, sum_of, i64>(block, begin, end, a.mode,\n"
      "        [&]<int N>(width<N, false>, index_t j) { return load<N>(a.in + o * each + j); });\n"
      "  }, [&](index_t o, i64 total) {\n"
      "    if (is_leader(block)) a.out[2 * o] = total, ++a.out[2 * o + 1];\n"
      "  });\n",
      {"segments.h"});
  for (const jit::Grid& grid : grids) {
    for (const std::int64_t each : {10, 11, 103}) {
      if (grid.threads == 1024 && each > 11) continue;  // seconds of barriers
      std::vector<std::int64_t> out(6 + 3 * (1 + (each + 9) / 10));
      for (int launch = 1; launch <= 3; ++launch) {
        kernel(grid, out, numbers(3 * each), 1);
        for (std::int64_t o = 0; o < 3; ++o) {
          CHECK(out[2 * o] == each * (2 * o * each + each + 1) / 2);
          CHECK(out[2 * o + 1] == launch);
          CHECK(out[6 + o] == 0);  // the count of the next launch
        }
      }
    }
  }
}

TEST_CASE("neighbouring threads reduce columns, the same bits for any number of blocks") {
  // Out: the sums of 1 / in over the rows of `mode` / 2 columns; then the segments' memory.
  const TrialKernel kernel(
      "  const index_t columns = index_t(a.mode / 2), rows = a.count / columns, length = 40;\n"
      "  const Segments segments{(rows + length - 1) / length, length, "
      "reinterpret_cast<u64*>(a.out + columns)};\n"
      "  const auto row = [&](index_t, index_t q) {\n"
      "    return [=, &a]<int N>(width<N, false>, index_t c) {\n"
      "      vec<N, f64> values;\n"
      "      const auto in = load<N>(a.in + q * columns + c);\n"
      "      for (int l = 0; l < N; ++l) values[l] = 1 / f64(in[l]);\n"
      "      return values;\n    };\n  };\n"
      "  reduce_columns<2, sum_of, f64, true>(block, segments, columns, rows, columns, a.mode, "
      "row,\n"
      "      [&](index_t o, f64 total) { a.out[o] += __builtin_bit_cast(i64, total); });\n",
      {"segments.h", "columns.h"});
  for (const std::size_t columns : {1, 5, 70}) {
    for (const std::size_t rows : {1, 90}) {
      INFO(columns << " columns, " << rows << " rows");
      const std::vector<std::int64_t> in = numbers(static_cast<std::int64_t>(columns * rows));
      const std::size_t segments = (rows + 39) / 40;
      const auto sums = [&](const jit::Grid& grid, std::uint64_t mode) {
        std::vector<std::int64_t> out(columns * (2 + segments));
        kernel(grid, out, in, mode + 2 * columns);
        for (std::size_t c = 0; c < columns; ++c) CHECK(out[columns + c] == 0);  // counts
        out.resize(columns);
        return out;
      };
      const auto whole = sums({.blocks = 1, .threads = 32}, 0);
      double expected = 0;
      for (std::size_t q = 0; q < rows; ++q) expected += 1 / static_cast<double>(q * columns + 1);
      CHECK(std::abs(std::bit_cast<double>(whole[0]) - expected) < 1e-12 * expected);
      CHECK(sums({.blocks = 3, .threads = 32}, 0) == whole);
      const auto in_vectors = sums({.blocks = 1, .threads = 32}, 1);
      CHECK(std::abs(std::bit_cast<double>(in_vectors[0]) - expected) < 1e-12 * expected);
      CHECK(sums({.blocks = 2, .threads = 32}, 1) == in_vectors);
    }
  }
}

TEST_CASE("a few threads reduce a short row, the same bits for any number of blocks") {
  // Out: the sums of 1 / in over `mode` results' rows, each of two pieces; then the segments'
  // memory.
  const TrialKernel kernel(
      "  const index_t results = 7, rows = index_t(a.mode), length = a.count / (results * rows);\n"
      "  const Segments segments{(rows + 39) / 40, 40, reinterpret_cast<u64*>(a.out + results)};\n"
      "  const auto row = [&](index_t o, index_t q) {\n"
      "    return [=, &a]<int N>(width<N, false>, index_t j) {\n"
      "      vec<N, f64> values;\n"
      "      for (int l = 0; l < N; ++l) values[l] = 1 / f64(a.in[(q * results + o) * length + j + "
      "l]);\n"
      "      return values;\n    };\n  };\n"
      "  reduce_rows<1, sum_of, f64, true>(block, segments, results, rows, length, 0, row,\n"
      "      [&](index_t o, f64 total) { a.out[o] += __builtin_bit_cast(i64, total); });\n",
      {"segments.h", "columns.h", "rows.h"});
  for (const std::size_t length : {1, 5, 40}) {
    for (const std::size_t rows : {1, 50}) {
      INFO(rows << " rows of " << length);
      const std::vector<std::int64_t> in = numbers(static_cast<std::int64_t>(7 * length * rows));
      const auto sums = [&](const jit::Grid& grid) {
        std::vector<std::int64_t> out(7 * (2 + (rows + 39) / 40));
        kernel(grid, out, in, rows);
        out.resize(7);
        return out;
      };
      const auto whole = sums({.blocks = 1, .threads = 32});
      double expected = 0;
      for (std::size_t q = 0; q < rows; ++q) {
        for (std::size_t j = 0; j < length; ++j)
          expected += 1 / static_cast<double>((q * 7 + 6) * length + j + 1);
      }
      CHECK(std::abs(std::bit_cast<double>(whole[6]) - expected) < 1e-12 * expected);
      CHECK(sums({.blocks = 3, .threads = 32}) == whole);
    }
  }
}

TEST_CASE("a vector's random words are the reference's, wherever it begins") {
  const TrialKernel kernel(
      "  const auto draw = [&]<int N>(width<N, false>, i64* out, i64 index) {\n"
      "    RandomWords random{0x123456789abcdefull, 0xfedcba9876543210ull};\n"
      "    const auto words = random.of<N>(index);\n"
      "    for (int l = 0; l < N; ++l) out[l] = words[l];\n"
      "  };\n"
      "  for (index_t i = at; i < a.count; i += block.count * block.threads) {\n"
      "    i64* const out = a.out + 15 * i;\n"
      "    draw(width<1, false>{}, out, a.in[i]);\n"
      "    draw(width<2, false>{}, out + 1, a.in[i]);\n"
      "    draw(width<4, false>{}, out + 3, a.in[i]);\n"
      "    draw(width<8, false>{}, out + 7, a.in[i]);\n"
      "  }\n",
      {"philox.h", "random_words.h"});
  std::vector<std::int64_t> first;
  for (const std::int64_t start : {std::int64_t{0}, std::int64_t{1} << 34, std::int64_t{1} << 60}) {
    for (std::int64_t i = 0; i < 9; ++i) first.push_back(start + i - (start > 0 ? 4 : 0));
  }
  std::vector<std::int64_t> out(15 * first.size()), expected;
  kernel(grids[0], out, first);
  for (const std::int64_t begin : first) {
    for (const std::int64_t lanes : {1, 2, 4, 8}) {
      for (std::int64_t l = 0; l < lanes; ++l) {
        expected.push_back(ir::random_word(static_cast<std::uint64_t>(begin + l), 0x123456789abcdef,
                                           0xfedcba9876543210));
      }
    }
  }
  CHECK(out == expected);
}

TEST_CASE("the threads of a grid share out every element once, in vectors and one by one") {
  const TrialKernel kernel(
      "  for_each<2>(block, a.count, a.mode, [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) "
      "{\n"
      "    for (int l = 0; l < N; ++l) a.out[i + l] += a.in[i + l];\n"
      "  });\n");
  for (const jit::Grid& grid : grids) {
    for (const std::int64_t count : {0, 1, 2, 63, 64, 65, 999}) {
      for (const std::uint64_t mode : {0, 1, 3}) {
        std::vector<std::int64_t> out(static_cast<std::size_t>(count));
        kernel(grid, out, numbers(count), mode);
        CHECK(out == numbers(count));
      }
    }
  }
}

TEST_CASE("a word that threads hand on without a barrier comes whole") {
  // From thread to thread, in words whose upper half says that the lower one is there.
  const TrialKernel kernel(
      "  u64* const words = reinterpret_cast<u64*>(a.out);\n"
      "  u64 word = u64(1) << 32;\n"
      "  for (u64 looks = 1; block.thread > 0 && (word = load_relaxed(words + at - 1)) >> 32 != 1; "
      "++looks) {\n"
      "    relax(looks, 0);\n"
      "  }\n"
      "  store_relaxed(words + at, u64(1) << 32 | u32(u32(word) + 3));\n");
  check_threads(kernel, [](std::int64_t at, int threads) {
    return std::int64_t{1} << 32 | 3 * (at % threads + 1);
  });
}

TEST_CASE("a launch of more threads", "[.threads_to_spare]") {
  const TrialKernel kernel("  block_barrier(block);\n");
  std::vector<std::int64_t> out;
  try {
    kernel({.blocks = 2, .threads = 1024}, out, {});
  } catch (const BackendError& error) {
    std::puts(error.what());
  }
}

TEST_CASE("a launch of more threads than the system starts says so, and runs none of them") {
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // which need all address space
  // Every thread's stack takes 8 MiB of the address space.
  const ChildOutput child = run_shell("ulimit -v 4000000; ulimit -s 8192; '" +
                                      std::filesystem::read_symlink("/proc/self/exe").string() +
                                      "' --use-colour no '[threads_to_spare]'");
  INFO(child.text);
  CHECK(
      child.text.find("kernel 'threads' cannot run: 2 blocks of 1024 threads must run at once, and "
                      "the system starts no more than ") != std::string::npos);
  CHECK(child.text.find(" threads; lower COCONET_HOST_THREADS or the knob channels") !=
        std::string::npos);
#endif
}
