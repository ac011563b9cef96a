// Kernels with collectives inside equal the reference: every kind of kernel with every algorithm and every protocol of the
// tables, for every number of ranks.
#include "jit/conformance.h"
#include "sched/knobs.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> lengths = {{{"n", 1}}, {{"n", 5}}, {{"n", 1030}}, {{"n", 20011}}};
const std::vector<Sizes> areas = {
    {{"n", 1}, {"m", 1}}, {{"n", 3}, {"m", 2}}, {{"n", 7}, {"m", 17}}, {{"n", 67}, {"m", 131}}};

/// A program and the steps that make one kernel of it, but for the knobs.
struct Subject {
  const char* name;
  Program (*program)(int ranks, DType dtype);
  Schedule (*schedule)(const Knobs& knobs);
  const std::vector<Sizes>* sizes;
};

struct Start {
  Program p;
  Dim n, m;
  Start(const char* name, int ranks)
      : p(name, Mesh({{"world", ranks}})), n(p.dim("n")), m(p.dim("m", 2)) {}
};

const Subject subjects[] = {
    {"all_reduce with computation",
     [](int ranks, DType dtype) {
       Start s("ar_c", ranks);
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
     },
     &lengths},
    {"an all_reduce alone",
     [](int ranks, DType dtype) {
       Start s("ar", ranks);
       s.p.output("total",
                  all_reduce(s.p.state("g", dtype, {s.n, s.m}, local), sum).named("total"));
       return s.p;
     },
     [](const Knobs& knobs) { return Schedule("ar").fuse("ar", "all_reduce", {"total"}, knobs); },
     &areas},
    {"reduce, computation and broadcast",
     [](int ranks, DType dtype) {
       Start s("r_c_b", ranks);
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
     },
     &lengths},
    {"reduce_scatter with computation",
     [](int ranks, DType dtype) {
       Start s("rs_c", ranks);
       const Value g = s.p.state("g", dtype, {s.n, s.m}, local);
       const Value x = s.p.state("x", dtype, {s.n, s.m}, sliced(1));
       update(x, x + reduce_scatter(g, sum, 1).named("part") * 2);
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("rs_c").fuse("rs_c", "reduce_scatter", {"part", "x.new"}, knobs);
     },
     &areas},
    {"all_gather with computation",
     [](int ranks, DType dtype) {
       Start s("c_ag", ranks);
       const Value x = s.p.state("x", dtype, {s.n, s.m}, sliced(1));
       const Value bias = s.p.input("bias", dtype, {s.m}, replicated);
       const Value w = s.p.state("w", dtype, {s.n, s.m}, replicated);
       update(w, all_gather((x * 2 + bias).named("y")).named("whole"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("c_ag").fuse("c_ag", "all_gather", {"whole", "w.new"}, knobs);
     },
     &areas},
    {"reduce with computation",
     [](int ranks, DType dtype) {
       Start s("r_c", ranks);
       const Value g = s.p.state("g", dtype, {s.n}, local);
       s.p.output("y", (reduce(g, max, ranks / 2).named("total") * 2 + g).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("r_c").fuse("r_c", "reduce", {"total", "y"}, knobs);
     },
     &lengths},
    {"broadcast with computation",
     [](int ranks, DType dtype) {
       Start s("c_b", ranks);
       const Value g = s.p.input("g", dtype, {s.n}, local);
       s.p.output("y", broadcast(g * 2, ranks / 2).named("y"));
       return s.p;
     },
     [](const Knobs& knobs) { return Schedule("c_b").fuse("c_b", "broadcast", {"y"}, knobs); },
     &lengths},
    {"send with computation",
     [](int ranks, DType dtype) {
       Start s("c_send", ranks);
       const Value x = s.p.state("x", dtype, {s.n, s.m}, local);
       const Value bias = s.p.input("bias", dtype, {s.m}, replicated);
       const Value y = (x * 2 + bias).named("y");
       update(x, y);
       s.p.output("z", (ranks > 1 ? send(y, ranks > 2 ? 2 : 1) : y * 1).named("z"));
       return s.p;
     },
     [](const Knobs& knobs) {
       return Schedule("c_send").fuse("c_send", "send", {"x.new", "z"}, knobs);
     },
     &areas},
    {"send alone, backwards",
     [](int ranks, DType dtype) {
       Start s("send", ranks);
       const Value x = s.p.input("x", dtype, {s.n}, local);
       s.p.output("z", (ranks > 1 ? send(x, -1) : x * 1).named("z"));
       return s.p;
     },
     [](const Knobs& knobs) { return Schedule("send").fuse("send", "send", {"z"}, knobs); },
     &lengths},
    {"all_reduce along rows, with operands that are broadcast",
     [](int ranks, DType dtype) {
       Start s("biased", ranks);
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
     },
     &areas},
    {"all_reduce with reductions inside, one after the other",
     [](int ranks, DType dtype) {
       Start s("norms", ranks);
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
     },
     &lengths},
};

Knobs knobs_of(std::string_view algorithm, std::string_view protocol) {
  Knobs knobs;
  knobs.algorithm = algorithm;
  knobs.protocol = protocol;
  knobs.chunk_bytes = 1024;  // so that there are many chunks of little data
  return knobs;
}

void check(const Subject& subject, int ranks, DType dtype) {
  const Program program = subject.program(ranks, dtype);
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      INFO(subject.name << ", " << algorithm.name << ", " << protocol.name << ", "
                        << to_string(dtype));
      require_conforms(program, subject.schedule(knobs_of(algorithm.name, protocol.name)), ranks,
                       *subject.sizes, 2);
    }
  }
}

}  // namespace

TEST_CASE("every kind of kernel conforms with every algorithm and protocol on three ranks") {
  for (const Subject& subject : subjects) check(subject, 3, f32);
}

TEST_CASE("every algorithm and protocol conforms for every number of ranks") {
  for (const int ranks : {1, 2, 4, 5, 8}) check(subjects[0], ranks, f32);
}

TEST_CASE("every algorithm and protocol carries every dtype") {
  for (const DType dtype : all_dtypes) {
    if (dtype != DType::boolean) check(subjects[0], 3, dtype);
  }
}

TEST_CASE("what is not reduced may be of any dtype, bool too") {
  const Subject flags = {
      "flags",
      [](int ranks, DType) {
        Start s("flags", ranks);
        const Value x = s.p.input("x", boolean, {s.n}, sliced(0));
        s.p.output("all", all_gather(logical_not(x).named("turned")).named("all"));
        return s.p;
      },
      [](const Knobs& knobs) {
        return Schedule("flags").fuse("flags", "all_gather", {"turned", "all"}, knobs);
      },
      &lengths};
  check(flags, 3, DType::boolean);
}

TEST_CASE("mailboxes take tensors that lie at any element of the application's memory") {
  constexpr std::int64_t n = 1031;
  const auto run = [](World& world, const Knobs& knobs) {
    Program program("shifted", Mesh::over(world));
    const Value g = program.input("g", f16, {n}, local);
    program.output("total", all_reduce(g, sum).named("sum"));
    Executable step =
        compile(program, Schedule("shifted").fuse("shifted", "all_reduce", {"sum"}, knobs), world);
    // The first element is at no multiple of a word, a vector or a line.
    std::vector<std::uint16_t> in(n + 1, 0x3c00), out(n + 1);  // ones
    step.bind("g", f16, in.data() + 1, n);
    step.bind("total", f16, out.data() + 1, n);
    step.run();
    const std::vector<std::uint16_t> threes(n, 0x4200);
    if (!std::equal(threes.begin(), threes.end(), out.begin() + 1) || out[0] != 0)
      throw InternalError("rank " + std::to_string(world.rank()) + " got another sum");
  };
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      const Knobs knobs = knobs_of(algorithm.name, protocol.name);
      if (sched::works_in_place(knobs)) continue;  // whose tensors other ranks reach
      INFO(algorithm.name << ", " << protocol.name);
      REQUIRE_NOTHROW(World::local(3, [&](World& world) { run(world, knobs); }));
    }
  }
}
