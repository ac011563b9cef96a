// Collectives of a group of ranks against their definition, by all ranks, as comm_checks.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/error.h"
#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/collectives.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/platform/platform.h"
#include "refusal.h"

namespace coconet::test {

/// Those that collectives take of `dtype`.
inline std::vector<Reduction> reductions_of(DType dtype) {
  std::vector<Reduction> all = {Reduction::sum, Reduction::max, Reduction::min, Reduction::prod};
  if (is_float(dtype)) all.push_back(Reduction::mean);
  return all;
}

inline void expect(bool holds, const std::string& claim) {
  if (!holds) throw std::runtime_error("not so: " + claim);
}

/// What `rank` puts at `index`: small whole numbers, whose sums and products over five ranks are
/// exact in any order and dtype, or wrap.
inline double element(int rank, std::size_t index, Reduction reduction) {
  const int step = static_cast<int>((index * 3 + static_cast<std::size_t>(rank) * 7) % 11);
  if (reduction == Reduction::prod) return step % 3 == 0 ? -1 : step % 3;
  return step - 5;
}

using Bytes = std::vector<std::byte>;

inline Bytes elements(int rank, std::size_t first, std::size_t count, DType dtype,
                      Reduction reduction) {
  Bytes data(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i)
    store_element(dtype, data.data(), i, element(rank, first + i, reduction));
  return data;
}

/// The reduction over the ranks of a group, by definition.
inline Bytes reduced(int ranks, std::size_t first, std::size_t count, DType dtype,
                     Reduction reduction) {
  Bytes result(count * size_of(dtype));
  std::vector<Bytes> parts;
  for (int rank = 0; rank < ranks; ++rank)
    parts.push_back(elements(rank, first, count, dtype, reduction));
  for (std::size_t i = 0; i < count; ++i) {
    double value = load_element(dtype, parts[0].data(), i);
    for (int rank = 1; rank < ranks; ++rank) {
      const double other = load_element(dtype, parts[rank].data(), i);
      switch (reduction) {
        case Reduction::sum:
        case Reduction::mean:
          value += other;
          break;
        case Reduction::max:
          value = std::max(value, other);
          break;
        case Reduction::min:
          value = std::min(value, other);
          break;
        default:
          value *= other;
      }
    }
    if (reduction == Reduction::mean) {
      // In the type that sums are kept in.
      value = dtype == f64 ? value / ranks : static_cast<float>(value) / static_cast<float>(ranks);
    }
    store_element(dtype, result.data(), i, value);
  }
  return result;
}

/// The ranks of a world in order.
inline std::vector<int> all_ranks(const jit::Comm& comm) {
  std::vector<int> all(static_cast<std::size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// The collectives of some ranks, or of all, as calls of this one.
class Group {
 public:
  explicit Group(jit::Comm& comm) : Group(comm, all_ranks(comm)) {}
  Group(jit::Comm& comm, const std::vector<int>& ranks)
      : rank_(static_cast<int>(std::ranges::find(ranks, comm.rank()) - ranks.begin())),
        size_(static_cast<int>(ranks.size())),
        collectives_(comm.collectives(ranks)) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  void refuse() { collectives_->refuse(); }
  /// Whether calls from here on go by MPI, where the ranks are processes.
  void go_by_mpi(bool by_mpi) { by_mpi_ = by_mpi; }

  void all_reduce(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction) {
    run(in, out,
        {.op = ir::Op::all_reduce, .dtype = dtype, .reduction = reduction, .count = count});
  }
  void reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType dtype,
                      Reduction reduction) {
    run(in, out,
        {.op = ir::Op::reduce_scatter, .dtype = dtype, .reduction = reduction, .counts = counts});
  }
  void all_gather(const void* in, void* out, std::span<const std::size_t> counts, DType dtype) {
    run(in, out, {.op = ir::Op::all_gather, .dtype = dtype, .counts = counts});
  }
  void all_to_all(const void* in, void* out, std::span<const std::size_t> counts, DType dtype) {
    run(in, out, {.op = ir::Op::all_to_all, .dtype = dtype, .counts = counts});
  }
  void reduce(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction,
              int root) {
    run(in, out,
        {.op = ir::Op::reduce,
         .dtype = dtype,
         .reduction = reduction,
         .count = count,
         .root = root});
  }
  void broadcast(const void* in, void* out, std::size_t count, DType dtype, int root) {
    run(in, out, {.op = ir::Op::broadcast, .dtype = dtype, .count = count, .root = root});
  }
  void send(const void* in, void* out, std::size_t count, DType dtype, int offset) {
    run(in, out, {.op = ir::Op::send, .dtype = dtype, .count = count, .offset = offset});
  }

  void run_all(std::span<jit::CollectiveCall> calls) {
    for (jit::CollectiveCall& call : calls) call.by_mpi = by_mpi_;
    collectives_->run_all(*queue_, calls);
  }

 private:
  void run(const void* in, void* out, jit::CollectiveCall call) {
    const jit::CollectiveCall::Operands operands{in, out};
    call.operands = {&operands, 1};
    call.by_mpi = by_mpi_;
    collectives_->run(*queue_, call);
  }

  int rank_, size_;
  bool by_mpi_ = false;
  std::shared_ptr<jit::Collectives> collectives_;
  std::unique_ptr<jit::Queue> queue_ = jit::host_platform().make_queue();
};

/// What each rank sends to each in an all_to_all, a row a sender: uneven counts that fit into
/// `counts` elements of each rank.
inline std::vector<std::size_t> all_to_all_counts(const std::vector<std::size_t>& counts) {
  const std::size_t ranks = counts.size();
  std::vector<std::size_t> matrix;
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to)
      matrix.push_back(std::min(counts[from], counts[to]) / (1 + (from + 2 * to) % ranks));
  }
  return matrix;
}

/// What `rank` gets of all ranks in an all_to_all with those counts.
inline Bytes taken_from_all(int rank, const std::vector<std::size_t>& matrix, std::size_t ranks,
                            DType dtype) {
  Bytes taken;
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto row = matrix.begin() + static_cast<std::ptrdiff_t>(from * ranks);
    const std::size_t start = std::accumulate(row, row + rank, std::size_t{0});
    std::ranges::copy(elements(static_cast<int>(from), start, row[rank], dtype, Reduction::sum),
                      std::back_inserter(taken));
  }
  return taken;
}

/// Every collective of `group`, with `counts` elements for the ranks, of one dtype under one
/// reduction, from `in` to `out`: memory of its own for all of the elements each.
inline void check_collectives(Group& group, const std::vector<std::size_t>& counts, DType dtype,
                              Reduction reduction, std::byte* in, std::byte* out) {
  const std::string what = " of " + std::string(to_string(dtype)) + " under " +
                           std::string(to_string(reduction)) + " on " +
                           std::to_string(group.size()) + " ranks";
  const int rank = group.rank();
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::size_t first = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
  const Bytes mine = elements(rank, 0, all, dtype, reduction);
  const Bytes untouched(all * size_of(dtype), std::byte{0x55});
  const auto put = [](std::byte* to, const Bytes& bytes) { std::ranges::copy(bytes, to); };
  const auto expect_out = [&](const Bytes& expected, const std::string& call) {
    expect(std::equal(expected.begin(), expected.end(), out), call + what);
  };
  put(in, mine);

  put(out, untouched);
  group.all_reduce(in, out, all, dtype, reduction);
  expect_out(reduced(group.size(), 0, all, dtype, reduction), "all_reduce");

  put(out, untouched);
  group.reduce_scatter(in, out, counts, dtype, reduction);
  expect_out(reduced(group.size(), first, counts[rank], dtype, reduction), "reduce_scatter");

  for (int root = 0; root < group.size(); ++root) {
    put(out, untouched);
    group.reduce(in, out, all, dtype, reduction, root);
    expect_out(rank == root ? reduced(group.size(), 0, all, dtype, reduction) : untouched,
               "reduce");

    put(out, mine);
    group.broadcast(out, out, all, dtype, root);
    expect_out(elements(root, 0, all, dtype, reduction), "broadcast in place");

    put(out, untouched);
    group.broadcast(in, out, all, dtype, root);
    expect_out(elements(root, 0, all, dtype, reduction), "broadcast");
  }

  for (int offset = 1 - group.size(); offset < group.size(); ++offset) {
    if (offset == 0 || reduction != Reduction::sum) continue;  // which a send does not do
    put(out, untouched);
    group.send(in, out, all, dtype, offset);
    const int from = rank - offset;
    expect_out(
        from >= 0 && from < group.size() ? elements(from, 0, all, dtype, reduction) : untouched,
        "send by " + std::to_string(offset));
  }

  if (reduction == Reduction::sum) {
    const std::vector<std::size_t> matrix = all_to_all_counts(counts);
    put(out, untouched);
    group.all_to_all(in, out, matrix, dtype);
    expect_out(taken_from_all(rank, matrix, counts.size(), dtype), "all_to_all");
  }

  Bytes blocks;
  for (int from = 0; from < group.size(); ++from)
    std::ranges::copy(elements(from, 0, counts[from], dtype, reduction),
                      std::back_inserter(blocks));
  put(out, untouched);
  group.all_gather(in, out, counts, dtype);
  expect_out(blocks, "all_gather");
  expect(std::equal(mine.begin(), mine.end(), in), "the operands are as they were" + what);
}

/// Checks the collectives in memory that no other rank reaches.
inline void check_collectives(Group& group, const std::vector<std::size_t>& counts, DType dtype,
                              Reduction reduction) {
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  Bytes in(all * size_of(dtype));
  Bytes out(all * size_of(dtype));
  check_collectives(group, counts, dtype, reduction, in.data(), out.data());
}

/// Several calls at once, as a tensor over buffers of uneven lengths needs them, some of them
/// empty: from `in` to `out`, memory for `count` f32 each.
inline void check_calls_at_once(Group& group, std::size_t count, std::byte* in, std::byte* out) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank());
  for (const ir::Op op : {ir::Op::all_reduce, ir::Op::reduce_scatter, ir::Op::all_gather}) {
    std::vector<std::vector<std::size_t>> counts;
    for (std::size_t call = 0, elements = 0; call < 300; ++call) {
      std::vector<std::size_t>& blocks = counts.emplace_back(ranks);
      const std::size_t longest = call % 50 == 7 ? count / 8 / ranks : 1 + call * call % 90;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        blocks[rank] = (call + rank) % 3 == 0 ? 0 : longest - rank % 2;
      elements += std::accumulate(blocks.begin(), blocks.end(), std::size_t{0});
      if (elements > count) blocks.assign(ranks, 0);
    }
    std::ranges::copy(elements(group.rank(), 0, count, f32, Reduction::sum), in);
    std::fill_n(out, count * size_of(f32), std::byte{0});
    std::vector<jit::CollectiveCall> calls;
    std::vector<jit::CollectiveCall::Operands> operands(counts.size());
    Bytes expected;
    std::vector<std::size_t> of_rank(ranks);  // elements of the calls before
    std::size_t of_all = 0;
    for (std::size_t number = 0; number < counts.size(); ++number) {
      const std::vector<std::size_t>& blocks = counts[number];
      const std::size_t all = std::accumulate(blocks.begin(), blocks.end(), std::size_t{0});
      const auto add = [&](const Bytes& bytes) {
        expected.insert(expected.end(), bytes.begin(), bytes.end());
      };
      const std::size_t in_block =
          std::accumulate(blocks.begin(), blocks.begin() + group.rank(), std::size_t{0});
      if (op == ir::Op::all_reduce) add(reduced(group.size(), of_all, all, f32, Reduction::sum));
      if (op == ir::Op::reduce_scatter)
        add(reduced(group.size(), of_all + in_block, blocks[own], f32, Reduction::sum));
      for (std::size_t from = 0; op == ir::Op::all_gather && from < ranks; ++from)
        add(elements(static_cast<int>(from), of_rank[from], blocks[from], f32, Reduction::sum));
      operands[number] = {
          in + (op == ir::Op::all_gather ? of_rank[own] : of_all) * size_of(f32),
          out + (op == ir::Op::reduce_scatter ? of_rank[own] : of_all) * size_of(f32)};
      jit::CollectiveCall call{.op = op, .dtype = f32};
      if (op == ir::Op::all_reduce) {
        call.count = all;
      } else {
        call.counts = blocks;
      }
      call.operands = {&operands[number], 1};
      calls.push_back(call);
      of_all += all;
      for (std::size_t rank = 0; rank < ranks; ++rank) of_rank[rank] += blocks[rank];
    }
    group.run_all(calls);
    expect(std::equal(expected.begin(), expected.end(), out),
           std::string(ir::to_string(op)) + " of many buffers at once on " +
               std::to_string(group.size()) + " ranks");
  }
}

/// Three all_reduces of `count` f32 at once, from `in` to `out`, but the second one's result is in
/// `elsewhere` unless that is null.
inline void check_mixed_memory(Group& group, std::size_t count, std::byte* in, std::byte* out,
                               std::byte* elsewhere) {
  const std::size_t bytes = count * size_of(f32);
  std::ranges::copy(elements(group.rank(), 0, 3 * count, f32, Reduction::sum), in);
  std::vector<jit::CollectiveCall::Operands> operands;
  for (std::size_t call = 0; call < 3; ++call) {
    const bool is_elsewhere = call == 1 && elsewhere != nullptr;
    operands.push_back({in + call * bytes, is_elsewhere ? elsewhere : out + call * bytes});
  }
  std::vector<jit::CollectiveCall> calls;
  for (const jit::CollectiveCall::Operands& one : operands) {
    calls.push_back(
        {.op = ir::Op::all_reduce, .dtype = f32, .count = count, .operands = {&one, 1}});
    std::fill_n(static_cast<std::byte*>(one.out), bytes, std::byte{0});
  }
  group.run_all(calls);
  for (std::size_t call = 0; call < 3; ++call) {
    const Bytes expected = reduced(group.size(), call * count, count, f32, Reduction::sum);
    expect(std::equal(expected.begin(), expected.end(),
                      static_cast<const std::byte*>(operands[call].out)),
           "all_reduce " + std::to_string(call) + " of three, one elsewhere");
  }
}

/// All dtypes and reductions, for even, uneven, partly empty and wholly empty blocks.
inline void check_all_collectives(Group& group) {
  for (const std::size_t shape : {0, 1, 2, 3}) {
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < group.size(); ++rank) {
      const std::size_t uneven[] = {0, 37, static_cast<std::size_t>(rank * 5 % 3),
                                    static_cast<std::size_t>(300 + rank)};
      counts.push_back(uneven[shape]);
    }
    for (const DType dtype : all_dtypes) {
      for (const Reduction reduction : reductions_of(dtype))
        check_collectives(group, counts, dtype, reduction);
    }
  }
}

}  // namespace coconet::test
