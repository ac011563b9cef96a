// Times the library's collectives, each behind a loop that writes its operand, on the library's
// memory and on the application's, against MPI's, in place and not.
#include <mpi.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "memory.h"
#include "peers.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace {

using coconet::Dim;
using coconet::Executable;
using coconet::Program;
using coconet::Value;

/// What a collective makes of `x`, of which a rank has `n` elements, or an n-th of the ranks.
struct Collective {
  const char* name;
  Value (*of)(Program& program, const Dim& n);
  bool can_be_in_place = true;  ///< MPI's
};

Value local(Program& program, const Dim& n) {
  return program.input("x", coconet::f32, {n}, coconet::local);
}

constexpr Collective collectives[] = {
    {"all_reduce",
     [](Program& p, const Dim& n) { return coconet::all_reduce(local(p, n), coconet::sum); }},
    {"reduce_scatter",
     [](Program& p, const Dim& n) { return coconet::reduce_scatter(local(p, n), coconet::sum); }},
    {"all_gather",
     [](Program& p, const Dim& n) {
       return coconet::all_gather(p.input("x", coconet::f32, {n}, coconet::sliced(0)));
     }},
    {"reduce", [](Program& p, const Dim& n) { return coconet::reduce(local(p, n), coconet::sum); }},
    {"broadcast", [](Program& p, const Dim& n) { return coconet::broadcast(local(p, n)); }, false},
    {"all_to_all",
     [](Program& p, const Dim& n) {
       const Dim rank = p.dim("rank");
       return coconet::all_to_all(p.input("x", coconet::f32, {rank, n}, coconet::sliced(0)), 1);
     }},
    {"send", [](Program& p, const Dim& n) { return coconet::send(local(p, n)); }, false},
};

Executable compile(const coconet::World& world, const Collective& collective, std::size_t n) {
  Program program(collective.name, coconet::Mesh::over(world));
  const Dim dim = program.dim("n");
  program.output("y", collective.of(program, dim));
  coconet::Sizes dims = {{"n", static_cast<std::int64_t>(n)}};
  if (std::string_view(collective.name) == "all_to_all") dims["rank"] = world.size();
  return coconet::compile(program, coconet::Schedule(), world, dims);
}

void measure(const coconet::World& world, const Collective& collective, std::size_t n,
             bench::Peers& peers, bench::Rows& rows) {
  std::vector<bench::Contestant> contestants;
  std::vector<float> expected;
  const auto verify = [&](const auto& contestant, const auto& results) {
    bench::verify(contestant, results, 1, expected);
  };
  peers.enter(contestants, collective.name, n, verify);
  if (collective.can_be_in_place)
    peers.enter(contestants, std::string(collective.name) + bench::in_place, n, verify);

  Executable reached = compile(world, collective, n);
  Executable own = compile(world, collective, n);
  const bench::Array in = bench::make_array(own.count("x"));
  const bench::Array out = bench::make_array(own.count("y"));
  own.bind("x", std::span(in.get(), own.count("x")));
  own.bind("y", std::span(out.get(), own.count("y")));
  const auto enter = [&](const char* name, Executable& step, std::span<float> x,
                         std::span<float> y) {
    contestants.push_back({.name = name,
                           .begin =
                               [&world, x] {
                                 std::ranges::copy(bench::make_gradient(x.size(), world.rank()),
                                                   x.begin());
                                 world.barrier();
                               },
                           .step =
                               [&step, x](int) {
                                 bench::write_again(x);
                                 step.run();
                               }});
    verify(contestants.back(), y);
  };
  enter("ours", reached, reached.data<float>("x"), reached.data<float>("y"));
  enter("ours, own memory", own, {in.get(), own.count("x")}, {out.get(), own.count("y")});
  bench::measure(contestants);
  for (const char* const memory : {"", ", own memory"}) {
    bench::Row row{.name = std::string(collective.name) + memory,
                   .n = n,
                   .ms = bench::fastest(contestants, {std::string("ours") + memory})};
    bench::Peers::put_fastest(contestants, row);
    rows.add(std::move(row));
  }
  peers.clear();
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  bench::Rows rows("collectives", world.size(), world.rank() == 0, options.json);
  bench::Peers peers(options.other_mpis, world.rank(), world.size());
  for (const Collective& collective : collectives) {
    for (const int exponent : options.quick ? std::vector{4, 10, 14, 18, 22}
                                            : std::vector{4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24})
      measure(world, collective, std::size_t{1} << exponent, peers, rows);
  }
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
