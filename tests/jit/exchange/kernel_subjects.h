// One kernel of every kind that holds a collective: what conformance and race checks run with each
// algorithm and protocol.
#pragma once

#include <string_view>

#include "coconet/coconet.h"

namespace coconet::test {

/// A program and the steps that make one kernel of it, but for the knobs.
struct KernelSubject {
  const char* name;
  Program (*program)(int ranks, DType dtype);
  Schedule (*schedule)(const Knobs& knobs);
  int least_ranks = 1;
};

struct SubjectStart {
  Program p;
  Dim n, m;
  SubjectStart(const char* name, int ranks)
      : p(name, Mesh({{"world", ranks}})), n(p.dim("n")), m(p.dim("m", 2)) {}
};

inline const KernelSubject kernel_subjects[] = {
    {"all_reduce with computation",
     [](int ranks, DType dtype) {
       SubjectStart s("ar_c", ranks);
       const Value g = s.p.input("g", dtype, {s.n}, local);
       const Value x = s.p.state("x", dtype, {s.n}, replicated);
       update(x, x + 2 * all_reduce(g, sum).named("total"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("ar_c")
           .split("total")
           .reorder("total.all_gather", {"x.new"})
           .dead()
           .fuse("ar_c", "all_reduce", {"total.reduce_scatter", "x.all_gather", "x.new"}, knobs);
     }},
    {"an all_reduce alone",
     [](int ranks, DType dtype) {
       SubjectStart s("ar", ranks);
       s.p.output("total",
                  all_reduce(s.p.state("g", dtype, {s.n, s.m}, local), sum).named("total"));
       return s.p;
     },
     [](const Knobs& knobs) { return Schedule("ar").fuse("ar", "all_reduce", {"total"}, knobs); }},
    {"reduce, computation and broadcast",
     [](int ranks, DType dtype) {
       SubjectStart s("r_c_b", ranks);
       const Value g = s.p.state("g", dtype, {s.n}, local);
       const Value total = reduce(g, sum, ranks - 1).named("total");
       const Value own = s.p.state("own", dtype, {s.n}, local);
       const Value kept = (total + own).named("kept");
       update(own, kept);
       s.p.output("all", broadcast(kept, ranks - 1).named("all"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("r_c_b").fuse("r_c_b", "all_reduce", {"total", "own.new", "all"}, knobs);
     }},
    {"reduce_scatter with computation",
     [](int ranks, DType dtype) {
       SubjectStart s("rs_c", ranks);
       const Value g = s.p.state("g", dtype, {s.n, s.m}, local);
       const Value x = s.p.state("x", dtype, {s.n, s.m}, sliced(1));
       update(x, x + reduce_scatter(g, sum, 1).named("part") * 2);
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("rs_c").fuse("rs_c", "reduce_scatter", {"part", "x.new"}, knobs);
     }},
    {"all_gather with computation",
     [](int ranks, DType dtype) {
       SubjectStart s("c_ag", ranks);
       const Value x = s.p.state("x", dtype, {s.n, s.m}, sliced(1));
       const Value bias = s.p.input("bias", dtype, {s.m}, replicated);
       const Value w = s.p.state("w", dtype, {s.n, s.m}, replicated);
       update(w, all_gather((x * 2 + bias).named("y")).named("whole"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("c_ag").fuse("c_ag", "all_gather", {"whole", "w.new"}, knobs);
     }},
    {"reduce with computation",
     [](int ranks, DType dtype) {
       SubjectStart s("r_c", ranks);
       const Value g = s.p.state("g", dtype, {s.n}, local);
       s.p.output("y", (reduce(g, max, ranks / 2).named("total") * 2 + g).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("r_c").fuse("r_c", "reduce", {"total", "y"}, knobs);
     }},
    {"broadcast with computation",
     [](int ranks, DType dtype) {
       SubjectStart s("c_b", ranks);
       const Value g = s.p.input("g", dtype, {s.n}, local);
       s.p.output("y", broadcast(g * 2, ranks / 2).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) { return Schedule("c_b").fuse("c_b", "broadcast", {"y"}, knobs); }},
    {"send with computation",
     [](int ranks, DType dtype) {
       SubjectStart s("c_send", ranks);
       const Value x = s.p.state("x", dtype, {s.n, s.m}, local);
       const Value bias = s.p.input("bias", dtype, {s.m}, replicated);
       const Value y = (x * 2 + bias).named("y");
       update(x, y);
       s.p.output("z", send(y, ranks > 2 ? 2 : 1).named("z"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("c_send").fuse("c_send", "send", {"x.new", "z"}, knobs);
     },
     2},
    {"send alone, backwards",
     [](int ranks, DType dtype) {
       SubjectStart s("send", ranks);
       const Value x = s.p.input("x", dtype, {s.n}, local);
       s.p.output("z", send(x, -1).named("z"));
       return s.p;
     },
     [](const Knobs& knobs) { return Schedule("send").fuse("send", "send", {"z"}, knobs); }, 2},
    {"all_reduce along rows, with operands that are broadcast",
     [](int ranks, DType dtype) {
       SubjectStart s("biased", ranks);
       const Value g = s.p.state("g", dtype, {s.n, s.m}, local);
       const Value bias = s.p.input("bias", dtype, {s.m}, replicated);
       const Value column = s.p.input("column", dtype, {s.n, 1}, replicated);
       const Value x = s.p.state("x", dtype, {s.n, s.m}, replicated);
       update(x, (all_reduce(g, sum).named("total") + bias) * column + x);
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("biased")
           .split("total", "reduce_scatter+all_gather", 1)
           .reorder("total.all_gather", {"x.new"})
           .dead()
           .fuse("biased", "all_reduce", {"total.reduce_scatter", "x.all_gather", "x.new"}, knobs);
     }},
    {"all_reduce with reductions inside, one after the other",
     [](int ranks, DType dtype) {
       SubjectStart s("norms", ranks);
       const Value g = s.p.state("g", dtype, {s.n}, local);
       const Value x = s.p.state("x", dtype, {s.n}, replicated);
       const Value m = s.p.state("m", dtype, {s.n}, sliced(0));
       const Value m1 = update(m, m + reduce_scatter(g, sum).named("total"));
       const Value scaled = m1 / (norm(x) + 1);
       const Value longest = max(abs(scaled)).named("longest");
       s.p.output("longest", longest);
       const Value product = sum(scaled * x).named("product");
       update(x, all_gather((x - scaled / (longest + abs(product))).named("y")).named("whole"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("norms").fuse("norms", "all_reduce",
                                     {"total", "m.new", "longest", "whole", "x.new"}, knobs);
     }},
};

/// Chunks are as small as may be, so that there are many of little data.
[[nodiscard]] inline Knobs knobs_of(std::string_view algorithm, std::string_view protocol) {
  Knobs knobs;
  knobs.algorithm = algorithm;
  knobs.protocol = protocol;
  knobs.chunk_bytes = 1024;
  return knobs;
}

}  // namespace coconet::test
