// Collectives equal the reference: the library's, and those inside fused kernels for every row of
// the algorithm table.
#include <cstdlib>

#include "coconet/programs.h"
#include "elements.h"
#include "ir/access.h"
#include "jit/conformance/conformance_batch.h"
#include "jit/exchange/algorithm.h"
#include "jit/exchange/kernel_subjects.h"
#include "precisions.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;

namespace {

// Where sums are compared, operands are states, which are positive: sums of few numbers of both
// signs may nearly cancel, and leave mostly rounding.
const std::vector<Sizes> lengths = {{{"n", 1}}, {{"n", 2}},  {{"n", 3}},
                                    {{"n", 7}}, {{"n", 17}}, {{"n", 1030}}};
const std::vector<Sizes> collective_areas = {
    {{"n", 1}, {"m", 1}}, {{"n", 2}, {"m", 3}}, {{"n", 7}, {"m", 17}}, {{"n", 17}, {"m", 2}}};

/// An all_reduce inside one kernel: of `g` [n], times 2, written to state `x` and gathered.
Program reduce_and_write(int ranks, Reduction reduction, DType dtype) {
  Program program("reduce_and_write", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n");
  const Value g = program.input("g", dtype, {n}, local);
  const Value x = program.state("x", dtype, {n}, replicated);
  update(x, x + 2 * all_reduce(g, reduction).named("total")).named("x.new");
  return program;
}

Knobs knobs_of(const jit::Algorithm& algorithm, int channels = 0) {
  Knobs knobs;
  knobs.algorithm = algorithm.name;
  knobs.channels = channels;
  return knobs;
}

/// An update of a matrix, with operands that are broadcast along either dimension.
Program biased(int ranks) {
  Program program("biased", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n"), m = program.dim("m");
  const Value g = program.input("g", f32, {n, m}, local);
  const Value bias = program.input("bias", f32, {m}, replicated);
  const Value column = program.input("column", f32, {n, 1}, replicated);
  const Value x = program.state("x", f32, {n, m}, replicated);
  update(x, (all_reduce(g, sum).named("total") + bias) * column + x).named("x.new");
  return program;
}

void add_fused(int ranks, Reduction reduction, DType dtype, ConformanceBatch& batch) {
  for (const jit::Algorithm* algorithm : jit::algorithms()) {
    const Knobs knobs = knobs_of(*algorithm);
    if (!runs_here(knobs, ranks)) continue;
    batch.add(reduce_and_write(ranks, reduction, dtype), fused_update("x", 0, knobs), lengths, 2);
  }
}

}  // namespace

TEST_CASE(
    "library collectives equal the reference for every reduction, dtype and number of ranks") {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const DType dtype : all_dtypes) {
      Program program("library", Mesh({{"world", ranks}}));
      const Dim n = program.dim("n");
      const Value g = program.state("g", dtype, {n}, local);
      const Value slices = program.input("slices", dtype, {n}, sliced(0));
      program.output("gathered", all_gather(slices).named("gathered"));
      for (const int offset : {1, -1, 2}) {
        if (std::abs(offset) >= ranks) continue;
        const std::string name = "send_" + std::to_string(offset);
        program.output(name, send(g, offset).named(name));
      }
      for (const int root : {0, ranks - 1}) {
        const std::string suffix = "_" + std::to_string(root);
        if (ir::graph_of(program)->find("broadcast" + suffix) >= 0) continue;  // one rank
        program.output("broadcast" + suffix, broadcast(g, root).named("broadcast" + suffix));
        if (dtype == DType::boolean) continue;
        program.output("reduce" + suffix, reduce(g, Reduction::sum, root).named("reduce" + suffix));
      }
      for (const Reduction reduction : all_reductions) {
        if (!reduces(reduction, dtype)) continue;
        const std::string name(to_string(reduction));
        program.output("all_" + name, all_reduce(g, reduction).named("all_" + name));
        program.output("scatter_" + name, reduce_scatter(g, reduction).named("scatter_" + name));
        program.output("reduce_" + name, reduce(g, reduction, ranks / 2).named("reduce_" + name));
      }
      require_conforms(program, Schedule("none"), ranks, lengths);
    }
  }
}

TEST_CASE("library collectives slice any dimension") {
  for (const int ranks : {1, 2, 3, 5}) {
    Program program("dimensions", Mesh({{"world", ranks}}));
    const Dim n = program.dim("n"), m = program.dim("m");
    const Value g = program.input("g", f32, {n, m, 2}, local);
    for (int dim = 0; dim < 3; ++dim) {
      const std::string suffix = "_" + std::to_string(dim);
      program.output("scatter" + suffix, reduce_scatter(g, sum, dim).named("scatter" + suffix));
      const Value slices = program.input("slices" + suffix, f32, {n, m, 2}, sliced(dim));
      program.output("gathered" + suffix, all_gather(slices).named("gathered" + suffix));
      for (const int other : {0, 1, 2}) {
        if (other == dim) continue;
        const std::string name = "from" + suffix + "_to_" + std::to_string(other);
        program.output(name, all_to_all(slices, other).named(name));
      }
    }
    require_conforms(program, Schedule("none"), ranks, collective_areas);
  }
}

TEST_CASE("all_to_all slices every dtype along another dimension, and back") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const DType dtype : all_dtypes) {
      Program program("reshard", Mesh({{"world", ranks}}));
      const Dim n = program.dim("n"), m = program.dim("m");
      const Value rows = program.state("rows", dtype, {n, m}, sliced(0));
      const Value columns = all_to_all(rows, 1).named("columns");
      program.output("columns", columns);
      program.output("again", all_to_all(columns, 0).named("again"));
      require_conforms(program, Schedule("none"), ranks, collective_areas);
    }
  }
}

TEST_CASE("all_to_all writes a state, and works along one axis of a mesh") {
  Program program("reshard", Mesh({{"a", 2}, {"b", 2}}));
  const Dim n = program.dim("n"), m = program.dim("m");
  const auto on = [](int a, int b) { return Layout::on({{"a", sliced(a)}, {"b", sliced(b)}}); };
  const Value x = program.input("x", f32, {n, m, 5}, on(0, 1));
  const Value y = program.state("y", f32, {n, m, 5}, on(2, 1));
  update(y, all_to_all(x, 2, "a").named("moved"));
  program.output("z", all_to_all(y * 2, 0, "b").named("z"));
  require_conforms(program, Schedule("none"), 4, collective_areas);
}

TEST_CASE("library collectives work along each axis of a mesh") {
  for (const Mesh& mesh : {Mesh({{"a", 2}, {"b", 2}}), Mesh({{"a", 3}, {"b", 2}})}) {
    for (const char* axis : {"a", "b"}) {
      const char* other = axis[0] == 'a' ? "b" : "a";
      Program program("axes", mesh);
      const Dim n = program.dim("n"), m = program.dim("m");
      const Value g = program.input("g", f32, {n, m}, local);
      const Value part =
          program.input("part", f32, {n, m}, Layout::on({{axis, local}, {other, sliced(0)}}));
      const Value slices =
          program.input("slices", f32, {n, m}, Layout::on({{axis, sliced(0)}, {other, sliced(1)}}));
      const Value x = program.state("x", f32, {n, m}, Layout::on({{other, local}}));
      update(x, x + all_reduce(g, sum, axis));
      program.output("all", all_reduce(part, max, axis).named("all"));
      program.output("scatter", reduce_scatter(part, sum, 1, axis).named("scatter"));
      program.output("gathered", all_gather(slices, axis).named("gathered"));
      program.output("root", reduce(part, sum, 1, axis).named("root"));
      program.output("copies", broadcast(part, 1, axis).named("copies"));
      program.output("sent", send(part, 1, axis).named("sent"));
      program.output("sent_back", send(g, -1, axis).named("sent_back"));
      program.output("everywhere",
                     all_reduce(all_reduce(g, sum, axis), sum, other).named("everywhere"));
      require_conforms(program, Schedule("none"), mesh.size(), collective_areas, 2);
    }
  }
}

TEST_CASE("sends keep the layout along the other axis, for every dtype and offset") {
  for (const Mesh& mesh : {Mesh({{"pp", 3}, {"tp", 2}}), Mesh({{"tp", 2}, {"pp", 3}})}) {
    for (const DType dtype : all_dtypes) {
      Program program("sends", mesh);
      const Dim n = program.dim("n"), m = program.dim("m");
      for (const auto& [name, along_tp] : {std::pair<std::string, Placement>{"own", coconet::local},
                                           {"same", coconet::replicated},
                                           {"rows", sliced(0)},
                                           {"columns", sliced(1)}}) {
        const Value x =
            program.input(name, dtype, {n, m}, Layout::on({{"pp", local}, {"tp", along_tp}}));
        for (const int offset : {1, -1, 2}) {
          const std::string sent = name + "_by_" + std::to_string(offset);
          program.output(sent, send(x, offset, "pp").named(sent));
        }
      }
      require_conforms(program, Schedule("none"), mesh.size(), collective_areas);
    }
  }
}

TEST_CASE("what is sent may be written to a state, also to the one that it is sent from") {
  for (const int ranks : {2, 3, 5}) {
    Program program("relay", Mesh({{"world", ranks}}));
    const Dim n = program.dim("n");
    const Value own = program.state("own", f32, {n}, local);
    const Value other = program.state("other", f32, {n}, local);
    update(own, send(own));
    update(other, send(own * 2 + other, -1));
    require_conforms(program, Schedule("none"), ranks, lengths, 3);
  }
}

TEST_CASE("a state may become its own reduction inside a kernel, whose root reads it meanwhile") {
  Program program("own", Mesh({{"world", 4}}));
  const Dim n = program.dim("n");
  const Value g = program.input("g", i32, {n}, local), x = program.state("x", i32, {n}, local);
  update(x, reduce(x, Reduction::max, 2).named("most") + g);
  const Schedule schedule = Schedule("own").fuse("own", "reduce", {"most", "x.new"});
  // A rank that does not wait for the root is early in some of the steps.
  require_all_conform(program, schedule, 4, cases_with({{{"n", 1}}, {{"n", 1030}}}, 60));
}

TEST_CASE("fused collectives equal the reference for every algorithm, reduction and dtype") {
  ConformanceBatch batch;
  for (const DType dtype : all_dtypes) {
    for (const Reduction reduction : all_reductions) {
      if (reduces(reduction, dtype)) add_fused(3, reduction, dtype, batch);
    }
  }
  batch.require();
}

TEST_CASE(
    "fused collectives equal the reference for every algorithm, reduction and number of ranks") {
  ConformanceBatch batch;
  for (const int ranks : {1, 2, 5}) {
    for (const Reduction reduction : all_reductions) add_fused(ranks, reduction, f32, batch);
  }
  batch.require();
}

TEST_CASE("fused collectives equal the reference with many channels and every vector width") {
  ConformanceBatch batch;
  for (const jit::Algorithm* algorithm : jit::algorithms()) {
    if (!runs_here(knobs_of(*algorithm), 2)) continue;
    const Program program = reduce_and_write(2, Reduction::mean, f32);
    for (const int channels : {2, 7, 64}) {
      batch.add(program, fused_update("x", 0, knobs_of(*algorithm, channels)), lengths, 2);
    }
    for (const int vector_bytes : {4, 8, 16, 32, 64}) {
      Knobs knobs = knobs_of(*algorithm, 3);
      knobs.vector_bytes = vector_bytes;
      batch.add(program, fused_update("x", 0, knobs), lengths, 2);
    }
  }
  batch.require();
}

TEST_CASE("fused collectives slice any dimension and read broadcast operands at the global index") {
  for (const int ranks : {2, 3}) {
    for (const int dim : {0, 1})
      require_conforms(biased(ranks), fused_update("x", dim), ranks, collective_areas, 2);
  }
}

TEST_CASE("fused collectives of tensors that do not fit the caches equal the reference") {
  const jit::Algorithm& algorithm = *jit::algorithms().front();
  for (const DType dtype : {f32, f16}) {
    for (const int channels : {1, 3}) {
      require_conforms(reduce_and_write(2, Reduction::sum, dtype),
                       fused_update("x", 0, knobs_of(algorithm, channels)), 2,
                       {Sizes{{"n", 1 << 20}}, Sizes{{"n", 1048583}}});
    }
  }
  // Rows that begin anywhere.
  for (const int dim : {0, 1}) {
    require_conforms(biased(2), fused_update("x", dim), 2,
                     {Sizes{{"n", 4099}, {"m", 67}}, Sizes{{"n", 67}, {"m", 8192}}});
  }
}

TEST_CASE("reductions inside a kernel of many blocks have the same bits on all ranks, every time") {
  constexpr int ranks = 3;
  const KernelSubject& norms = *std::ranges::find(
      kernel_subjects, std::string("all_reduce with reductions inside, one after the other"),
      &KernelSubject::name);
  Knobs knobs;
  knobs.channels = 5;  // as threads they come to a barrier in any order
  std::vector<std::vector<double>> results(3 * ranks);
  for (int run = 0; run < 3; ++run) {
    World::local(ranks, [&](World& world) {
      Executable step =
          compile(norms.program(ranks, f64), norms.schedule(knobs), world, {{"n", 1237}});
      for (const char* name : {"g", "x", "m"}) {
        std::vector<double> values(step.count(name));
        for (double i = *name == 'g' ? world.rank() : 0; double& value : values) value = 1 / ++i;
        step.write(name, values);
      }
      step.run();
      results[run * ranks + world.rank()] = elements_of<double>(step, "x");
    });
  }
  for (const std::vector<double>& result : results) CHECK(result == results.front());
}

TEST_CASE("fused collectives work along each axis of a mesh") {
  for (const Mesh& mesh : {Mesh({{"a", 2}, {"b", 2}}), Mesh({{"a", 3}, {"b", 2}})}) {
    for (const char* axis : {"a", "b"}) {
      const char* other = axis[0] == 'a' ? "b" : "a";
      Program program("fused_axes", mesh);
      const Dim n = program.dim("n");
      const Value g = program.input("g", f32, {n}, local);
      const Value x = program.state("x", f32, {n}, Layout::on({{other, local}}));
      update(x, x + 0.5 * all_reduce(g, sum, axis).named("total")).named("x.new");
      require_conforms(program, fused_update("x"), mesh.size(), lengths, 3);
    }
  }
}

TEST_CASE("the halves of a split all_reduce equal the whole") {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const char* into : {"reduce_scatter+all_gather", "reduce+broadcast"}) {
      Schedule schedule(into);
      schedule.split("total", into);
      require_conforms(reduce_and_write(ranks, Reduction::mean, f32), schedule, ranks, lengths, 2);
    }
  }
}

TEST_CASE("hierarchical collectives equal the reference, whole and with computation on slices") {
  for (const Mesh& mesh : {Mesh({{"node", 2}, {"gpu", 2}}), Mesh({{"node", 3}, {"gpu", 2}}),
                           Mesh({{"node", 2}, {"gpu", 3}})}) {
    for (const Reduction reduction : all_reductions) {
      Program program("hierarchy", mesh);
      const Dim n = program.dim("n"), m = program.dim("m");
      const Value g = program.state("g", f32, {n, m}, local);
      const Value w = program.state("w", f32, {n, m}, replicated);
      const Value v = program.state("v", f32, {n, m}, replicated);
      const Value inner = all_reduce(g, reduction, "gpu");
      const Value total = all_reduce(inner, reduction, "node").named("total");
      const Value v1 = update(v, 0.5 * v + total).named("v.new");
      update(w, w - 0.25 * v1).named("w.new");
      for (const int dim : {0, 1}) {
        Schedule whole("hierarchical along " + std::to_string(dim));
        whole.split("total", "hierarchical", dim);
        require_conforms(program, whole, mesh.size(), collective_areas, 2);
        Schedule slices = whole;
        slices.reorder("total.all_gather", {"v.new", "w.new"}).as_slice("v").dead();
        slices.fuse("on_slices", "computation", {"v.new", "w.slice"});
        require_conforms(program, slices, mesh.size(), collective_areas, 2);
      }
    }
  }
}

TEST_CASE("optimizers that are fused inside nodes equal the reference") {
  for (const auto& [shipped, precision] : usual_programs()) {
    for (const std::string_view name : shipped.across_nodes) {
      const Schedule schedule = shipped_schedule(shipped, name);
      for (const Mesh& mesh : {shipped.mesh_of_nodes(4, 2), shipped.mesh_of_nodes(6, 2)}) {
        for (const programs::TrainingOptions& asked :
             {programs::TrainingOptions(),
              programs::TrainingOptions{.max_norm = 1, .loss_scaling = true, .groups = true}}) {
          require_conforms(shipped.with(mesh, precision, asked, programs::Storage::whole, {}),
                           schedule, mesh.size(), lengths, 2);
        }
      }
    }
  }
}

TEST_CASE("a pipeline that computes on slices and sends them equals one that sends the whole") {
  for (const Mesh& mesh :
       {Mesh({{"pp", 2}, {"tp", 2}}), Mesh({{"pp", 3}, {"tp", 2}}), Mesh({{"pp", 2}, {"tp", 3}})}) {
    Program program("hand_off", mesh);
    const Dim n = program.dim("n"), m = program.dim("m");
    const Value x = program.input("x", f32, {n, m}, local);
    const Value bias = program.input("bias", f32, {m}, Layout::on({{"pp", local}}));
    const Value r = program.input("r", f32, {n, m}, Layout::on({{"pp", local}}));
    const Value total = all_reduce(x, sum, "tp").named("total");
    const Value computed = (total + bias + r).named("computed");
    program.output("handed", send(computed, 1, "pp").named("handed_on"));
    program.output("returned", send(computed, -1, "pp").named("handed_back"));
    require_conforms(program, Schedule("AR-C-Send"), mesh.size(), collective_areas);
    for (const int dim : {0, 1}) {
      Schedule schedule("RS-C-Send-AG along " + std::to_string(dim));
      schedule.split("total", "reduce_scatter+all_gather", dim);
      schedule.reorder("total.all_gather", {"handed_on", "handed_back"}).dead();
      require_conforms(program, schedule, mesh.size(), collective_areas);
    }
  }
}
