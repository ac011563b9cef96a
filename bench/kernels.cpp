// Times single kernels that were cliffs once, each beside what it should cost about as much as:
// dropout beside none, a mask of booleans beside one of f32, reductions along every direction
// beside one of long rows, a product with a vector beside the same sums in a kernel. Every rank
// does the whole.
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "rows.h"
#include "timing.h"

namespace {

using coconet::Dim;
using coconet::DType;
using coconet::Executable;
using coconet::Program;
using coconet::Value;
using coconet::World;

constexpr coconet::DType f32 = coconet::f32;

/// Adds to the program what is timed.
using Build = std::function<void(Program&)>;

Value input(Program& program, const char* name, coconet::Shape shape, DType dtype = f32) {
  return program.input(name, dtype, std::move(shape), coconet::replicated);
}

/// Fills all inputs and states with small numbers, masks with ones and zeros in no order.
void fill(Executable& step, const std::vector<std::pair<const char*, DType>>& tensors) {
  for (const auto& [name, dtype] : tensors) {
    const std::size_t count = step.count(name);
    for (std::size_t i = 0; i < count; ++i) {
      const bool one = (i * 2654435761u >> 13 & 1u) != 0;
      if (dtype == coconet::boolean) {
        static_cast<std::uint8_t*>(step.data(name, dtype).data)[i] = one;
      } else if (std::string_view(name) == "mask") {
        static_cast<float*>(step.data(name, dtype).data)[i] = one ? 1.0f : 0.0f;
      } else {
        static_cast<float*>(step.data(name, dtype).data)[i] =
            0.02f * static_cast<float>(i % 19 + 1);
      }
    }
  }
}

class Comparison {
 public:
  Comparison(const World& world, bench::Rows& rows) : world_(world), rows_(rows) {}

  /// A program that `build` makes, with its inputs and states; `has_t` says that it has a scalar t.
  void add(std::string name, const Build& build,
           const std::vector<std::pair<const char*, DType>>& tensors, bool has_t = false,
           const coconet::Schedule& schedule = coconet::Schedule()) {
    Program program("kernels", coconet::Mesh::over(world_));
    build(program);
    Executable& step = steps_.emplace_back(coconet::compile(program, schedule, world_));
    fill(step, tensors);
    const auto run = [&step, has_t](int t) {
      if (has_t) {
        step.run({{"t", t}});
      } else {
        step.run();
      }
    };
    contestants_.push_back({.name = std::move(name), .step = run});
  }

  /// Rows of all but the first one, which is what they are measured by.
  void measure(std::size_t elements) {
    bench::measure(contestants_);
    for (std::size_t i = 1; i < contestants_.size(); ++i) {
      rows_.add({.name = contestants_[i].name,
                 .n = elements,
                 .ms = contestants_[i].ms,
                 .floor_ms = contestants_[0].ms});
    }
  }

 private:
  const World& world_;
  bench::Rows& rows_;
  std::list<Executable> steps_;
  std::vector<bench::Contestant> contestants_;
};

void measure_dropout(const World& world, std::size_t n, bench::Rows& rows) {
  const coconet::Shape shape = {Dim(static_cast<std::int64_t>(n) / 1024), Dim(1024)};
  const auto drop = [](Program& program, const Value& x, bool drops) {
    const Value t = program.scalar("t");
    return drops ? dropout(x, 0.1, 1, t) : x * (1 + 0 * t);
  };
  const auto alone = [&](bool drops) {
    return [&, drops](Program& program) {
      program.output("y", drop(program, input(program, "x", shape), drops));
    };
  };
  const auto in_block = [&](bool drops) {
    return [&, drops](Program& program) {
      const Value x = input(program, "x", shape), b = input(program, "b", {Dim(1024)});
      program.output("y", drop(program, x + b, drops) + input(program, "r", shape));
    };
  };
  Comparison of_alone(world, rows), of_block(world, rows);
  of_alone.add("x", alone(false), {{"x", f32}}, true);
  of_alone.add("dropout(x)", alone(true), {{"x", f32}}, true);
  of_alone.measure(n);
  of_block.add("x + b + r", in_block(false), {{"x", f32}, {"b", f32}, {"r", f32}}, true);
  of_block.add("dropout(x + b) + r", in_block(true), {{"x", f32}, {"b", f32}, {"r", f32}}, true);
  of_block.measure(n);
}

/// AdamW of the parameters whose mask is set.
void build_masked_adamw(Program& program, std::size_t n, DType mask_dtype) {
  const coconet::Shape shape = {Dim(static_cast<std::int64_t>(n))};
  const Value g = input(program, "g", shape), mask = input(program, "mask", shape, mask_dtype);
  const auto state = [&](const char* name) {
    return program.state(name, f32, shape, coconet::replicated);
  };
  const Value w = state("w"), m = state("m"), v = state("v"), t = program.scalar("t");
  const auto masked = [&](const Value& next, const Value& now) {
    return mask_dtype == coconet::boolean ? select(mask, next, now) : now + mask * (next - now);
  };
  const Value m1 = update(m, masked(0.9 * m + 0.1 * g, m));
  const Value v1 = update(v, masked(0.999 * v + 0.001 * (g * g), v));
  const Value denominator = sqrt(v1) / sqrt(1 - pow(0.999, t)) + 1e-8;
  const Value step_size = 0.001 / (1 - pow(0.9, t));
  update(w, masked(w * (1 - 0.001 * 0.01) - step_size * (m1 / denominator), w));
}

void measure_mask(const World& world, std::size_t n, bench::Rows& rows) {
  Comparison comparison(world, rows);
  const auto schedule =
      coconet::Schedule("adamw").fuse("adamw", "computation", {"m.new", "v.new", "w.new"});
  for (const DType dtype : {f32, coconet::boolean}) {
    comparison.add(
        "AdamW, mask of " + std::string(coconet::to_string(dtype)),
        [&](Program& program) { build_masked_adamw(program, n, dtype); },
        {{"g", f32}, {"mask", dtype}, {"w", f32}, {"m", f32}, {"v", f32}}, true, schedule);
  }
  comparison.measure(n);
}

void measure_reductions(const World& world, bench::Rows& rows) {
  struct Shape {
    std::int64_t rows, columns;
    int over;
  };
  Comparison comparison(world, rows);
  for (const Shape& shape :
       {Shape{1000, 4000, 1}, Shape{5, 800000, 0}, Shape{800000, 5, 1}, Shape{4000, 1000, 0}}) {
    comparison.add("sum of [" + std::to_string(shape.rows) + ", " + std::to_string(shape.columns) +
                       "] over " + std::to_string(shape.over),
                   [&](Program& program) {
                     const Value x = input(program, "x", {Dim(shape.rows), Dim(shape.columns)});
                     program.output("y", coconet::sum(x, {shape.over}));
                   },
                   {{"x", f32}});
  }
  comparison.measure(4000000);
}

void measure_vector(const World& world, std::int64_t n, bench::Rows& rows) {
  Comparison comparison(world, rows);
  const auto add = [&](std::string name, bool multiplies) {
    comparison.add(std::move(name),
                   [&, multiplies](Program& program) {
                     const Value a = input(program, "a", {Dim(n), Dim(n)});
                     if (multiplies) {
                       program.output("y", matmul(a, input(program, "p", {Dim(n), Dim(1)})));
                     } else {
                       program.output("y", coconet::sum(a * input(program, "p", {Dim(n)}), {1}));
                     }
                   },
                   {{"a", f32}, {"p", f32}});
  };
  add("sum(a * p)", false);
  add("a [" + std::to_string(n) + ", " + std::to_string(n) + "] times a vector", true);
  comparison.measure(static_cast<std::size_t>(n * n));
}

void run(const bench::Options& options) {
  const World world = World::mpi();
  bench::Rows rows("kernels", world.size(), world.rank() == 0, options.json);
  for (const int exponent : options.quick ? std::vector{22} : std::vector{18, 20, 22, 24})
    measure_dropout(world, std::size_t{1} << exponent, rows);
  measure_mask(world, std::size_t{1} << 21, rows);
  measure_reductions(world, rows);
  for (const std::int64_t n : {512, 2048}) measure_vector(world, n, rows);
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
