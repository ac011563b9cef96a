// Overlapped steps equal the reference: a matmul with every kind of kernel that can take its tiles,
// chains of kernels, and kernels of several passes, with every algorithm and protocol, on sizes
// that neither tiles nor chunks divide.
#include "jit/conformance/conformance_batch.h"
#include "jit/exchange/kernel_subjects.h"
#include "sched/knobs.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> product_areas = {{{"n", 1}, {"m", 1}, {"k", 1}},
                                          {{"n", 1}, {"m", 300}, {"k", 2}},
                                          {{"n", 301}, {"m", 3}, {"k", 3}},
                                          {{"n", 67}, {"m", 131}, {"k", 5}}};

struct Start {
  Program p;
  Dim n, m, k;
  Start(const char* name, int ranks)
      : p(name, Mesh({{"world", ranks}})), n(p.dim("n")), m(p.dim("m")), k(p.dim("k")) {}
  /// A product of [n, m], of which each rank has its own.
  Value product(DType dtype) {
    return matmul(p.input("a", dtype, {n, k}, local), p.input("b", dtype, {k, m}, replicated))
        .named("product");
  }
};

/// A program and the steps that make an overlap of it, but for the knobs.
struct Subject {
  const char* name;
  Program (*program)(int ranks, DType dtype);
  Schedule (*schedule)(const Knobs& knobs);
  int least_ranks = 1;
};

const Subject subjects[] = {
    {"a matmul and an all_reduce with computation",
     [](int ranks, DType dtype) {
       Start s("mm_ar_c", ranks);
       const Value r = s.p.input("r", dtype, {s.n, s.m}, replicated);
       s.p.output("y", (all_reduce(s.product(dtype), sum).named("total") * 2 + r).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("mm_ar_c")
           .split("total")
           .reorder("total.all_gather", {"y"})
           .fuse("ar_c", "all_reduce", {"total.reduce_scatter", "y.slice", "y.all_gather"}, knobs)
           .overlap({"product", "ar_c"});
     }},
    {"a matmul and an all_reduce alone",
     [](int ranks, DType dtype) {
       Start s("mm_ar", ranks);
       s.p.output("y", all_reduce(s.product(dtype), max).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("mm_ar").fuse("ar", "all_reduce", {"y"}, knobs).overlap({"product", "ar"});
     }},
    {"a matmul and a reduce_scatter along its columns",
     [](int ranks, DType dtype) {
       Start s("mm_rs", ranks);
       s.p.output("y", (reduce_scatter(s.product(dtype), sum, 1).named("part") * 2).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("mm_rs")
           .fuse("rs", "reduce_scatter", {"part", "y"}, knobs)
           .overlap({"product", "rs"});
     }},
    {"a matmul and a reduce, whose result one rank computes on",
     [](int ranks, DType dtype) {
       Start s("mm_r", ranks);
       const Value g = s.p.input("g", dtype, {s.n, s.m}, local);
       s.p.output("y", (reduce(s.product(dtype), sum, ranks / 2).named("total") + g).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("mm_r").fuse("r", "reduce", {"total", "y"}, knobs).overlap({"product", "r"});
     }},
    {"a matmul and a broadcast of computation on its product",
     [](int ranks, DType dtype) {
       Start s("mm_b", ranks);
       const Value twice = (s.product(dtype) * 2).named("twice");
       s.p.output("twice", twice);
       s.p.output("y", broadcast(twice, ranks - 1).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("mm_b")
           .fuse("b", "broadcast", {"twice", "y"}, knobs)
           .overlap({"product", "b"});
     }},
    {"a matmul and a send of computation on its product",
     [](int ranks, DType dtype) {
       Start s("mm_send", ranks);
       s.p.output("y", send((s.product(dtype) * 2).named("twice"), 1).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("mm_send")
           .fuse("send", "send", {"twice", "y"}, knobs)
           .overlap({"product", "send"});
     },
     2},
    {"a matmul of slices and a gather of computation on it",
     [](int ranks, DType dtype) {
       Start s("mm_ag", ranks);
       const Value part = matmul(s.p.input("a", dtype, {s.n, s.k}, sliced(0)),
                                 s.p.input("b", dtype, {s.k, s.m}, replicated))
                              .named("product");
       s.p.output("y", all_gather((part * 2).named("twice")).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("mm_ag")
           .fuse("gathers", "all_gather", {"twice", "y"}, knobs)
           .overlap({"product", "gathers"});
     }},
    {"a matmul and a collective with a reduction inside, which hands on what it computes",
     [](int ranks, DType dtype) {
       Start s("norms", ranks);
       const Value part = reduce_scatter(s.product(dtype), sum).named("part");
       const Value scaled = (part / (norm(part).named("length") + 1)).named("scaled");
       s.p.output("y", all_gather(scaled).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("norms")
           .fuse("scales", "reduce_scatter", {"part", "length", "scaled"}, knobs)
           .fuse("gathers", "all_gather", {"y"}, knobs)
           .overlap({"product", "scales", "gathers"});
     }},
    {"a gather along columns, and a broadcast of what was gathered",
     [](int ranks, DType dtype) {
       Start s("ag_b", ranks);
       const Value x = s.p.input("x", dtype, {s.n, s.m}, sliced(1));
       const Value g = s.p.input("g", dtype, {s.n, s.m}, local);
       const Value whole = all_gather((x * 2).named("twice")).named("whole");
       s.p.output("y", broadcast((whole + g).named("more"), ranks - 1).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("ag_b")
           .fuse("gathers", "all_gather", {"twice", "whole"}, knobs)
           .fuse("spreads", "broadcast", {"more", "y"}, knobs)
           .overlap({"gathers", "spreads"});
     }},
};

}  // namespace

TEST_CASE("overlapped steps conform with every algorithm and protocol") {
  ConformanceBatch batch;
  for (const Subject& subject : subjects) {
    for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
      for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
        const Knobs knobs = knobs_of(algorithm.name, protocol.name);
        if (sched::uses_multicast(knobs)) continue;  // which exchanges no chunks
        batch.add(subject.program(3, f32), subject.schedule(knobs), product_areas, 3);
      }
    }
  }
  batch.require();
}

TEST_CASE("overlapped steps conform for every number of ranks and float") {
  ConformanceBatch batch;
  for (const Subject& subject : subjects) {
    for (const int ranks : {1, 2, 4, 5}) {
      if (ranks < subject.least_ranks) continue;
      for (const DType dtype : {f64, f16}) {
        batch.add(subject.program(ranks, dtype), subject.schedule(knobs_of("ring", "simple")),
                  product_areas, 2);
      }
    }
  }
  batch.require();
}

TEST_CASE("several blocks each take and tell of their shares of tiles") {
  ConformanceBatch batch;
  for (const Subject& subject : subjects) {
    Knobs knobs = knobs_of("ring", "simple");
    knobs.channels = 3;
    batch.add(subject.program(2, f32), subject.schedule(knobs), product_areas, 2);
  }
  batch.require();
}
