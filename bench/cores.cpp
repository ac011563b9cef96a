// Times steps that a rank spreads over all its cores against the same on one of them. Both end with
// the same bits.
#include <algorithm>
#include <list>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "jit/comm/worlds/cores.h"
#include "problem.h"
#include "rows.h"
#include "timing.h"

namespace {

using coconet::Executable;
using coconet::Program;
using coconet::Schedule;
using coconet::World;

/// A step, its scalars, and the tensors of it that are filled before and compared after.
struct Step {
  std::string name;
  Program program;
  Schedule schedule;
  std::vector<coconet::ScalarValue> scalars = {};
  std::vector<std::string> inputs;
  std::string result;
  coconet::Sizes sizes = {};
};

/// A step on one core, and on all of this process.
class Comparison {
 public:
  Comparison(const World& world, Step step, int cores) : step_(std::move(step)), cores_(cores) {
    for (const int used : {1, cores_}) {
      executables_.push_back(
          coconet::compile(step_.program, step_.schedule, world, step_.sizes, {}, {.cores = used}));
      fill(executables_.back());
    }
    require_same_bits();
  }

  void measure(std::size_t n, bench::Rows& rows) {
    std::vector<bench::Contestant> contestants;
    for (Executable& executable : executables_)
      contestants.push_back(
          {.name = step_.name, .step = [&](int) { executable.run(step_.scalars); }});
    bench::measure(contestants);
    rows.add({.name = step_.name + ", " + std::to_string(cores_) + " cores",
              .n = n,
              .ms = contestants[1].ms,
              .peer_ms = contestants[0].ms,
              .peer = "one core"});
  }

 private:
  void fill(Executable& executable) const {
    const bench::Gradient values{0};
    for (const std::string& name : step_.inputs) {
      const auto data = executable.data<float>(name);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = values(i);
    }
  }
  void require_same_bits() {
    for (Executable& executable : executables_) {
      for (int i = 0; i < 3; ++i) executable.run(step_.scalars);
    }
    if (!std::ranges::equal(executables_.front().data<float>(step_.result),
                            executables_.back().data<float>(step_.result)))
      throw std::runtime_error(step_.name + " computes other bits on several cores");
  }

  Step step_;
  int cores_;
  std::list<Executable> executables_;
};

Step optimizer(const World& world, const std::string& name, std::int64_t n) {
  Program program = coconet::programs::find(name)->build(coconet::Mesh::over(world), coconet::f32);
  return {name + " fused",
          std::move(program),
          Schedule::load(name + "-fused.json"),
          {{"lr", 1e-3}, {"t", 1}},
          {"g", "w"},
          "w",
          {{"n", n}}};
}

/// What follows the matmul of mlp_block.
Step rest_of_block(const World& world, std::int64_t rows, std::int64_t hidden) {
  Program program("rest", coconet::Mesh::over(world));
  const coconet::Shape shape = {1, rows, hidden};
  const coconet::Value layer = program.input("layer", coconet::f32, shape, coconet::local);
  const coconet::Value b = program.input("b", coconet::f32, {hidden}, coconet::replicated);
  const coconet::Value r = program.input("r", coconet::f32, shape, coconet::replicated);
  const coconet::Value sum = all_reduce(layer, coconet::sum).named("sum");
  program.output("out", (dropout(sum + b, 0.1, 1, program.scalar("t")) + r).named("out"));
  return {"mlp_block fused, without its matmul",
          std::move(program),
          Schedule::load("mlp_block-fused.json"),
          {{"t", 1}},
          {"layer", "b", "r"},
          "out"};
}

/// What more cores gain where there is nothing but memory to wait for.
Step addition(const World& world, std::int64_t n) {
  Program program("addition", coconet::Mesh::over(world));
  const coconet::Value x = program.input("x", coconet::f32, {n}, coconet::replicated);
  program.output("y", x + 1);
  return {"addition", std::move(program), Schedule("none"), {}, {"x"}, "y"};
}

Step softmax_of(const World& world, std::int64_t rows, std::int64_t columns) {
  Program program("rows", coconet::Mesh::over(world));
  const coconet::Value x = program.input("x", coconet::f32, {rows, columns}, coconet::replicated);
  program.output("y", softmax(x, 1));
  return {"softmax of rows of " + std::to_string(columns),
          std::move(program),
          Schedule("none"),
          {},
          {"x"},
          "y"};
}

Step product(const World& world, std::int64_t size) {
  Program program("product", coconet::Mesh::over(world));
  const coconet::Value a = program.input("a", coconet::f32, {size, size}, coconet::replicated);
  const coconet::Value b = program.input("b", coconet::f32, {size, size}, coconet::replicated);
  program.output("y", matmul(a, b));
  return {"matmul", std::move(program), Schedule("none"), {}, {"a", "b"}, "y"};
}

void run(const bench::Options& options) {
  const World world = World::mpi();
  bench::Rows rows("cores", world.size(), world.rank() == 0, options.json);
  const int cores = coconet::jit::cores_of_each({coconet::jit::available_cores()});
  const auto measure = [&](Step step, std::size_t n) {
    Comparison(world, std::move(step), cores).measure(n, rows);
  };
  for (const int exponent : options.quick ? std::vector{20} : std::vector{18, 20, 22, 24}) {
    const std::int64_t n = std::int64_t{1} << exponent, columns = 1024;
    for (const char* name : {"adam", "lamb"})
      measure(optimizer(world, name, n), static_cast<std::size_t>(n));
    measure(rest_of_block(world, n / columns, columns), static_cast<std::size_t>(n));
    measure(softmax_of(world, n / columns, columns), static_cast<std::size_t>(n));
    measure(addition(world, n), static_cast<std::size_t>(n));
  }
  for (const std::int64_t size : {512, 1024})
    measure(product(world, size), static_cast<std::size_t>(size * size));
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
