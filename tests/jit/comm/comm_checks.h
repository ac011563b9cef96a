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
#include "jit/comm/collective_checks.h"
#include "jit/comm/collectives/collectives.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/platform/platform.h"
#include "refusal.h"

namespace coconet::test {

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
