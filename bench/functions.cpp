// Times each function of one thread over 2^22 elements against PyTorch's (the peer), and against a
// copy of as many bytes (the floor): what memory alone takes. Softmax of rows, and gelu behind a
// bias, are functions here, too. All of them must compute what PyTorch does.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "copy.h"
#include "other_mpi.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace {

using coconet::DType;
using coconet::Program;
using coconet::Value;

constexpr std::int64_t elements = std::int64_t{1} << 22, columns = 1024;

/// Those of pointwise.def that calculate for longer than an addition does.
std::vector<std::string> functions() {
  std::vector<std::string> names;
  const auto add = [&](const char* name, int cost) {
    if (cost > 1 && std::string_view(name) != "divide") names.emplace_back(name);
  };
#define COCONET_POINTWISE(name, arity, rule, cost, device, reference, gradients) add(#name, cost);
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
  names.insert(names.end(), {"softmax", "bias_gelu"});
  return names;
}

/// Inputs that the function is made for, of either sign where it takes both: those of
/// torch_functions.py.
double input_of(const std::string& name, std::size_t i) {
  static const std::set<std::string> positive = {"log", "log1p", "pow", "sqrt", "rsqrt"};
  const double low = positive.contains(name) ? 0.1 : -4;
  return low + (4 - low) * static_cast<double>(i % 1009) / 1009;
}

template <class T>
coconet::Executable compiled(const coconet::World& world, const std::string& name) {
  constexpr DType dtype = coconet::dtype_of<T>;
  Program program(name, coconet::Mesh::over(world));
  const coconet::Shape shape = {coconet::Dim(elements / columns), coconet::Dim(columns)};
  const Value x = program.input("x", dtype, shape, coconet::replicated);
  std::size_t second = 0;
  if (name == "softmax") {
    program.output("y", coconet::softmax(x, 1));
  } else if (name == "pow") {
    second = static_cast<std::size_t>(elements);
    program.output("y", coconet::pow(x, program.input("b", dtype, shape, coconet::replicated)));
  } else if (name == "bias_gelu") {
    second = static_cast<std::size_t>(columns);
    const Value b = program.input("b", dtype, {shape.back()}, coconet::replicated);
    program.output("y", coconet::gelu(x + b));
  } else {
    program.output("y", coconet::detail::pointwise(name, {x}));
  }
  coconet::Executable step = coconet::compile(program, world);
  const auto fill = [&](const char* tensor, std::size_t count, auto value) {
    const std::span<T> to = step.data<T>(tensor);
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<float>(value(i)));
    if constexpr (sizeof(T) == 8) {
      for (std::size_t i = 0; i < count; ++i) to[i] = value(i);
    }
  };
  fill("x", static_cast<std::size_t>(elements), [&](std::size_t i) { return input_of(name, i); });
  if (name == "pow")
    fill("b", second, [](std::size_t i) { return 0.5 + 2 * static_cast<double>(i % 769) / 769; });
  if (name == "bias_gelu") fill("b", second, [&](std::size_t i) { return input_of(name, i) / 8; });
  return step;
}

template <class T>
void measure(const coconet::World& world, const std::string& name, bench::OtherMpi* torch,
             bench::Rows& rows) {
  coconet::Executable step = compiled<T>(world, name);
  const std::string full = name + " " + std::string(coconet::to_string(coconet::dtype_of<T>));
  const std::size_t tensors = name == "pow" ? 3 : 2;
  const bench::Copy copy(tensors * elements * sizeof(T));
  std::vector<bench::Contestant> contestants;
  std::vector<float> expected;
  // What is rounded to 16 bits lies half a unit off either side of a tie.
  constexpr float allowed = sizeof(T) == 2 ? 0x1p-7f : 2e-6f;
  if (torch != nullptr) {
    contestants.push_back(
        {.name = "PyTorch",
         .step = [&, torch](int t) { torch->run(full, t); },
         .most_steps = torch->make(full, elements),
         .elsewhere = [&, torch](int steps) { return torch->sample(full, steps); }});
    bench::verify(
        contestants.back(), [&] { return torch->results(full); }, 1, expected);
  }
  contestants.push_back({.name = "ours", .step = [&](int) { step.run(); }});
  bench::verify(contestants.back(), step.data<T>("y"), 1, expected, allowed);
  contestants.push_back({.name = "copy", .step = [&](int) { copy.step(); }});
  contestants.push_back({.name = "copy, streaming", .step = [&](int) { copy.stream(); }});
  bench::measure(contestants);
  bench::Row row{.name = full,
                 .n = elements,
                 .ms = bench::fastest(contestants, {"ours"}),
                 .floor_ms = bench::fastest(contestants, {"copy", "copy, streaming"})};
  if (torch != nullptr) row.peer_ms = bench::fastest(contestants, {"PyTorch"});
  rows.add(std::move(row));
  if (torch != nullptr) torch->drop();
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi({.cores = 1});
  if (world.size() != 1)
    throw std::invalid_argument("start the benchmark with mpirun -n 1: it times one thread");
  bench::Rows rows("functions", 1, true, options.json);
  std::unique_ptr<bench::OtherMpi> torch;
  if (!options.other_mpis.empty())
    torch = std::make_unique<bench::OtherMpi>(options.other_mpis.front(), 0);
  for (const std::string& name : functions()) {
    measure<float>(world, name, torch.get(), rows);
    if (options.quick) continue;
    measure<double>(world, name, torch.get(), rows);
    measure<coconet::BFloat16>(world, name, torch.get(), rows);
  }
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
