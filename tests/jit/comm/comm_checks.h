// Checks of a world that hold for every kind of it. They are run by all ranks and throw what they
// find: ranks may be threads, and Catch's macros are for one thread.
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

/// Runs the collectives in the group of all ranks, in each of two interleaved ones, and in one that
/// counts down.
inline void check_groups(jit::Comm& comm) {
  Group whole(comm);
  check_all_collectives(whole);

  std::vector<int> alternate;
  for (int rank = comm.rank() % 2; rank < comm.size(); rank += 2) alternate.push_back(rank);
  Group half(comm, alternate);
  expect(half.rank() == comm.rank() / 2, "a group counts its ranks in its own order");
  check_all_collectives(half);

  std::vector<int> down = all_ranks(comm);
  std::ranges::reverse(down);
  Group backwards(comm, down);
  expect(backwards.rank() == comm.size() - 1 - comm.rank(), "a group may count down");
  check_collectives(backwards, std::vector<std::size_t>(comm.size(), 5), f32, Reduction::sum);

  // A group of these ranks made a second time, and both kinds in turn.
  Group again(comm);
  for (int round = 0; round < 3; ++round) {
    check_collectives(again, std::vector<std::size_t>(comm.size(), 3), f64, Reduction::max);
    check_collectives(half, std::vector<std::size_t>(half.size(), 4), i32, Reduction::sum);
  }
}

/// A rank that cannot take part in a call tells the others so, and all go on after a barrier.
inline void check_refusals(jit::Comm& comm) {
  Group group(comm);
  if (comm.size() == 1) return;
  const float in = 1;
  for (int who = 0; who < comm.size(); ++who) {
    float out = 0;
    if (comm.rank() == who) {
      group.refuse();
    } else {
      bool refused = false;
      try {
        group.all_reduce(&in, &out, 1, f32, Reduction::sum);
      } catch (const jit::Refused& e) {
        refused = e.what() == "rank " + std::to_string(who) + " refused to take part in all_reduce";
      }
      expect(refused && out == 0, "a refusal is heard before anything is written");
    }
    comm.barrier();
    group.all_reduce(&in, &out, 1, f32, Reduction::sum);
    expect(out == static_cast<float>(comm.size()), "a group is as before after a refusal");
  }
}

/// Sums of integers wrap; the largest and smallest of floats are NaN when an operand is, and come
/// with the same bits on all ranks. In messages of `count` elements, 2 or more.
inline void check_edges(jit::Comm& comm, std::size_t count) {
  Group group(comm);
  const int last = comm.size() - 1;

  const std::vector<std::int8_t> hundreds(count, 100);
  std::vector<std::int8_t> wrapped(count);
  group.all_reduce(hundreds.data(), wrapped.data(), count, i8, Reduction::sum);
  expect(wrapped.back() == static_cast<std::int8_t>(100 * comm.size()), "sums of i8 wrap");

  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const Reduction reduction : {Reduction::max, Reduction::min}) {
      // A NaN on the last rank only; zeros of both signs.
      Bytes in(count * size_of(dtype));
      Bytes out(count * size_of(dtype));
      const double nan = std::numeric_limits<double>::quiet_NaN();
      store_element(dtype, in.data(), 0, comm.rank() == last ? nan : comm.rank());
      store_element(dtype, in.data(), 1, comm.rank() % 2 == 0 ? 0.0 : -0.0);
      group.all_reduce(in.data(), out.data(), count, dtype, reduction);
      const double largest = load_element(dtype, out.data(), 0);
      const std::string name(to_string(dtype));
      expect(largest != largest, "max and min of a NaN are NaN, " + name);
      const std::string bits(reinterpret_cast<const char*>(out.data()), out.size());
      for (const std::string& other : comm.all_gather(bits)) {
        expect(other == bits, "max and min have the same bits on all ranks, " + name);
      }
    }
  }
}

/// Memory is aligned, zeroed, and one rank's writes are there for the others on its node after a
/// barrier.
inline void check_memory(jit::Comm& comm) {
  const std::vector<int>& here = comm.nodes().beside(comm.rank());
  const auto place =
      static_cast<std::size_t>(std::find(here.begin(), here.end(), comm.rank()) - here.begin());
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
    const auto memory = comm.allocate(bytes);
    expect(memory->bytes() == bytes && memory->rank() == comm.rank(),
           "memory knows its size and its rank");
    for (int rank = 0; rank < comm.size(); ++rank) {
      const bool beside = std::find(here.begin(), here.end(), rank) != here.end();
      expect(beside == (memory->base(rank) != nullptr), "blocks of this node are in reach, only");
    }
    for (const int rank : here) {
      const std::byte* base = memory->base(rank);
      expect(reinterpret_cast<std::uintptr_t>(base) % 4096 == 0, "every block starts at a page");
      for (std::size_t i = 0; i < bytes; ++i) expect(base[i] == std::byte{0}, "memory is zeroed");
    }
    comm.barrier();
    // Each rank writes its part of every block.
    for (const int rank : here) {
      for (std::size_t i = place; i < bytes; i += here.size()) {
        memory->base(rank)[i] = static_cast<std::byte>(place + 1);
      }
    }
    comm.barrier();
    for (const int rank : here) {
      for (std::size_t i = 0; i < bytes; ++i) {
        const auto writer = static_cast<std::byte>(i % here.size() + 1);
        expect(memory->base(rank)[i] == writer, "every rank sees what the others wrote");
      }
    }
    comm.barrier();
  }
}

/// Messages of different lengths, also longer than what the board holds at once.
inline void check_messages(jit::Comm& comm) {
  const auto message = [](int rank, std::size_t length) {
    std::string text(length, static_cast<char>('a' + rank));
    for (std::size_t i = 0; i < length; i += 1000) text[i] = static_cast<char>('0' + i / 1000 % 10);
    return text;
  };
  for (const std::size_t unit : {0, 1, 300, 262136, 262137, 700000}) {
    const auto length = [&](int rank) { return rank % 2 == 0 ? unit * (rank + 1) : unit / 3; };
    const std::vector<std::string> all = comm.all_gather(message(comm.rank(), length(comm.rank())));
    for (int rank = 0; rank < comm.size(); ++rank) {
      expect(all[rank] == message(rank, length(rank)), "all_gather brings every rank's message");
      const std::string sent =
          rank == comm.rank() ? message(rank, length(rank)) : "counts for nothing";
      expect(comm.broadcast(sent, rank) == message(rank, length(rank)),
             "broadcast brings the root's message");
    }
  }
}

inline void expect_contains(const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) {
    throw std::runtime_error("not found: \"" + part + "\"\nin:        \"" + text + "\"");
  }
}

/// What goes wrong on some ranks of a collective call goes wrong on all, and the world lives on.
inline void check_agreement(jit::Comm& comm) {
  const int last = comm.size() - 1;
  const std::string who = "rank " + std::to_string(last);
  const std::string thrown = refusal<Error>([&] {
    together(comm, [&] {
      if (comm.rank() == last) throw CompileError("no compiler");
    });
  });
  expect(thrown == (comm.rank() == last ? "no compiler" : who + ": no compiler"),
         "together tells who failed");
  together(comm, [] {});
  if (comm.size() == 1) return;

  // Of several failures, the others hear of the lowest rank's.
  const std::string heard = refusal<Error>([&] {
    together(comm, [&] {
      if (comm.rank() > 0) throw ProgramError("mine " + std::to_string(comm.rank()));
    });
  });
  expect(heard == (comm.rank() == 0 ? "rank 1: mine 1" : "mine " + std::to_string(comm.rank())),
         "together tells the lowest rank's failure, and each rank its own");

  expect_contains(refusal<CommError>([&] { (void)comm.allocate(comm.rank() == last ? 8 : 16); }),
                  who +
                      " allocates 8 bytes, but rank 0 16; allocate is collective, all ranks must "
                      "ask for the same size");
  expect_contains(refusal<CommError>([&] { (void)comm.allocate(std::size_t{1} << 60); }),
                  "cannot allocate 1152921504606846976 bytes on each of " +
                      std::to_string(comm.nodes().beside(comm.rank()).size()) + " ranks");
  expect_contains(refusal<CommError>([&] { (void)comm.collectives({0}); }),
                  "rank 1 passes the group {0}, which must hold that rank once");
  expect_contains(refusal<CommError>([&] {
                    std::vector<int> mine{comm.rank()};
                    if (comm.rank() == 0) mine = {0, 1};
                    (void)comm.collectives(mine);
                  }),
                  "rank 0 passes the group {0, 1}, but rank 1 passes {1}; all ranks of a group "
                  "must pass the same one");
  expect_contains(
      refusal<CommError>([&] {
        (void)comm.collectives({comm.rank(), 9});
      }),
      "rank 0 passes the group {0, 9}, but the world has the ranks 0 to " + std::to_string(last));
}

/// A rank that cannot run a step is heard of on all, and the world lives on.
inline void check_failures_before_a_step(jit::Comm& comm) {
  for (int round = 0; round < 3; ++round) {
    expect(!comm.any_failed(false, 0), "no rank has failed");
    for (int who = 0; who < comm.size(); ++who)
      expect(comm.any_failed(comm.rank() == who, 0), "all hear of one that has");
    expect(comm.any_failed(true, 0), "all have failed");
  }
}

inline void check_world(jit::Comm& comm) {
  check_memory(comm);
  check_messages(comm);
  check_groups(comm);
  check_refusals(comm);
  check_edges(comm, 2);
  check_agreement(comm);
  check_failures_before_a_step(comm);
  comm.barrier();
}

}  // namespace coconet::test
