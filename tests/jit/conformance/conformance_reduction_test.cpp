// Reductions over tensor dimensions equal the reference, inside a rank and across ranks.
#include "elements.h"
#include "jit/conformance/conformance_batch.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> cube_sizes = {{{"A", 1}, {"B", 1}, {"C", 1}},
                                       {{"A", 3}, {"B", 5}, {"C", 7}},
                                       {{"A", 2}, {"B", 1}, {"C", 67}},
                                       {{"A", 19}, {"B", 4}, {"C", 3}}};

}  // namespace

TEST_CASE("reductions over every subset of dimensions equal the reference for every layout") {
  ConformanceBatch batch;
  for (const int ranks : {1, 2, 3}) {
    for (const Placement placement : {replicated, local, sliced(0), sliced(1), sliced(2)}) {
      for (const bool keep : {false, true}) {
        Program program("subsets", Mesh({{"world", ranks}}));
        const Dim A = program.dim("A"), B = program.dim("B"), C = program.dim("C");
        const Value x = program.input("x", f32, {A, B, C}, placement);
        for (int subset = 1; subset < 8; ++subset) {
          std::vector<int> dims;
          for (int d = 0; d < 3; ++d) {
            if ((subset >> d & 1) != 0) dims.push_back(d);
          }
          const std::string name = "sum_" + std::to_string(subset);
          program.output(name, sum(x, dims, keep).named(name));
        }
        batch.add(program, Schedule("none"), cube_sizes);
      }
    }
  }
  batch.require();
}

TEST_CASE("every reduction equals the reference on every dtype that it takes") {
  ConformanceBatch batch;
  for (const DType dtype : all_dtypes) {
    if (dtype == DType::boolean) continue;
    Program program("reductions", Mesh({{"world", 2}}));
    const Dim A = program.dim("A"), B = program.dim("B"), C = program.dim("C");
    const Value x = program.input("x", dtype, {A, B, C}, sliced(0));
    for (const Reduction reduction : all_reductions) {
      if (!reduces(reduction, dtype)) continue;
      const std::string name =
          std::string(to_string(reduction)) + "_" + std::string(to_string(dtype));
      const Reducer reducer{reduction};
      program.output(name + "_all", reducer(x).named(name + "_all"));            // across ranks
      program.output(name + "_inner", reducer(x, {-1}).named(name + "_inner"));  // contiguous
      program.output(name + "_middle", reducer(x, {1}, true).named(name + "_middle"));
    }
    if (is_float(dtype)) {
      program.output("norm_all", norm(x).named("norm_all"));
      program.output("norm_inner", norm(x, {2}, true).named("norm_inner"));
    }
    batch.add(program, Schedule("none"), cube_sizes);
  }
  batch.require();
}

TEST_CASE("a reduction reads long rows, which blocks share out") {
  for (const DType dtype : {f32, f16, f64}) {
    for (const int ranks : {1, 2}) {
      Program program("long_rows", Mesh({{"world", ranks}}));
      const Dim B = program.dim("B"), C = program.dim("C");
      const Value x = program.input("x", dtype, {B, C}, ranks == 1 ? replicated : sliced(1));
      const Value h = program.input("h", dtype, {C}, replicated);
      program.output("rows", sum(x, {1}).named("rows"));
      program.output("largest", max(dropout(x, 0.5, 1) + h, {1}).named("largest"));
      program.output("least", min(x * x).named("least"));
      require_conforms(program, Schedule("none"), ranks,
                       {Sizes{{"B", 1}, {"C", 50021}}, Sizes{{"B", 3}, {"C", 24580}}}, 2);
    }
  }
}

TEST_CASE("columns of any number and height equal the reference, alone and of many tensors") {
  const std::vector<Sizes> columns = {{{"A", 1}, {"B", 2}, {"C", 1100}},
                                      {{"A", 2}, {"B", 70}, {"C", 129}},
                                      {{"A", 1}, {"B", 5}, {"C", 300}},
                                      {{"A", 3}, {"B", 700}, {"C", 5}},
                                      {{"A", 1}, {"B", 1300}, {"C", 1}}};
  ConformanceBatch batch;
  for (const DType dtype : {f64, f32, bf16, i8}) {
    Program program("columns", Mesh({{"world", 2}}));
    const Dim A = program.dim("A"), B = program.dim("B"), C = program.dim("C");
    const Value x = program.input("x", dtype, {A, B, C}, replicated);
    const Value y = program.input("y", dtype, {A, B, C}, sliced(1));
    const Value h = program.input("h", dtype, {C}, replicated);
    const Value d = program.input("d", dtype, {A, B, Dim(1)}, replicated);
    program.output("largest", max(x, {1}).named("largest"));
    program.output("least", min(x + h, {0, 1}).named("least"));
    program.output("of_ranks", max(y * d, {1}, true).named("of_ranks"));
    // A slice of the kept dimension, and of the reduced one.
    program.output("kept", max(slice(x, 2), {1}).named("kept"));
    program.output("part", min(slice(x, 1) + h, {1}).named("part"));
    if (is_float(dtype)) {
      program.output("means", mean(x, {0, 1}).named("means"));
      program.output("norms", norm(dropout(x, 0.5, 1) + h, {1}).named("norms"));
    }
    batch.add(program, Schedule("none"), columns);
  }
  batch.require();
}

TEST_CASE("rows of any length equal the reference, one of a result and many") {
  std::vector<Sizes> lengths;
  for (const std::int64_t length : {1, 2, 3, 4, 5, 7, 15, 16, 33, 48, 255, 271, 1023, 1024})
    lengths.push_back({{"A", 3}, {"B", 70}, {"C", length}});
  lengths.push_back({{"A", 40}, {"B", 1}, {"C", 6}});
  ConformanceBatch batch;
  for (const DType dtype : {f64, f32, f16, u8}) {
    Program program("rows", Mesh({{"world", 2}}));
    const Dim A = program.dim("A"), B = program.dim("B"), C = program.dim("C");
    const Value x = program.input("x", dtype, {A, B, C}, replicated);
    const Value h = program.input("h", dtype, {C}, replicated);
    const Value d = program.input("d", dtype, {A, B, Dim(1)}, replicated);
    program.output("largest", max(x, {2}).named("largest"));
    program.output("least", min(x, {0, 2}).named("least"));
    program.output("outer", max(x + h, {0, 2}).named("outer"));
    program.output("shifted", min(x - d, {2}, true).named("shifted"));
    program.output("part", max(slice(x, 2), {2}).named("part"));
    program.output("kept", min(slice(x, 1) + d, {0, 2}).named("kept"));
    if (is_float(dtype)) {
      program.output("sums", sum(x, {2}).named("sums"));
      program.output("norms", norm(dropout(x, 0.5, 1) * h, {2}).named("norms"));
    }
    batch.add(program, Schedule("none"), lengths);
  }
  batch.require();
}

TEST_CASE("a row's sum has the same bits whatever rows are beside it") {
  const auto sums_of = [](std::int64_t rows, std::int64_t length, const std::vector<float>& data) {
    Program program("beside", Mesh({{"world", 1}}));
    const Dim B = program.dim("B"), C = program.dim("C");
    const Value x = program.input("x", f32, {B, C}, replicated);
    const Value h = program.input("h", f32, {C}, replicated);
    program.output("sums", sum(cast(x, f64) * cast(h, f64), {1}));
    Executable step =
        compile(program, Schedule("none"), World::self(), {{"B", rows}, {"C", length}});
    step.write("x", std::span(data).first(rows * length));
    step.write("h", std::span(data).last(length));
    step.run();
    return elements_of<double>(step, "sums");
  };
  constexpr std::int64_t most = 11;
  for (const std::int64_t length : {17, 32, 48, 271, 1030}) {
    std::vector<float> data(most * length);
    float next = 0.7f;
    for (float& x : data) x = next = 3.9f * next * (1 - next);
    const std::vector<double> together = sums_of(most, length, data);
    for (std::int64_t rows = 1; rows < most; ++rows) {
      const std::vector<double> fewer = sums_of(rows, length, data);
      for (std::int64_t row = 0; row < rows; ++row) {
        CAPTURE(length, rows, row);
        CHECK(fewer[row] == together[row]);
      }
    }
  }
}

TEST_CASE("a reduction reads what is computed on the way and broadcasts back") {
  for (const int ranks : {1, 2, 3}) {
    for (const Placement placement : {local, sliced(0), sliced(1)}) {
      Program program("softmax", Mesh({{"world", ranks}}));
      const Dim B = program.dim("B"), C = program.dim("C");
      const Value x = program.input("x", f32, {B, C}, placement);
      const Value w = program.input("w", f32, {C}, replicated);
      const Value y = program.state("y", f32, {B, C}, placement);
      const Value shifted = x * w - max(x * w, {1}, true);
      const Value exponential = exp(shifted).named("exponential");
      update(y, exponential / sum(exponential, {1}, true));
      program.output("norm_of_x", norm(x * w));
      require_conforms(
          program, Schedule("none"), ranks,
          {Sizes{{"B", 1}, {"C", 1}}, Sizes{{"B", 5}, {"C", 67}}, Sizes{{"B", 4}, {"C", 3}}}, 2);
    }
  }
}

TEST_CASE("a kernel with a collective reads what was reduced over some dimensions, none or all") {
  for (const std::vector<int>& dims : {std::vector<int>{}, {0}, {1}, {0, 1}}) {
    for (const char* protocol : {"simple", "ll"}) {
      Program program("reads", Mesh({{"world", 3}}));
      const Dim B = program.dim("B"), H = program.dim("H");
      const Value x = program.input("x", f32, {B, H}, sliced(0));
      const Value largest = dims.empty() ? coconet::max(x, dims) : coconet::max(x, dims, true);
      program.output("y", all_gather((x - largest).named("less")).named("whole"));
      Knobs knobs;
      knobs.protocol = protocol;
      INFO(dims.size() << " dimensions, " << protocol);
      require_conforms(program, Schedule().fuse("gathers", "all_gather", {"less", "whole"}, knobs),
                       3, {{{"B", 1}, {"H", 1}}, {{"B", 7}, {"H", 5}}}, 2);
    }
  }
}

TEST_CASE("reductions across both axes of a mesh equal the reference") {
  Program program("two_axes", Mesh({{"a", 2}, {"b", 2}}));
  const Dim B = program.dim("B"), C = program.dim("C");
  const Value x = program.input("x", f32, {B, C}, Layout::on({{"a", sliced(0)}, {"b", sliced(1)}}));
  program.output("all", sum(x).named("all"));
  program.output("rows", max(x, {0}).named("rows"));
  program.output("columns", mean(x, {1}, true).named("columns"));
  require_conforms(
      program, Schedule("none"), 4,
      {Sizes{{"B", 1}, {"C", 1}}, Sizes{{"B", 5}, {"C", 7}}, Sizes{{"B", 17}, {"C", 2}}});
}
