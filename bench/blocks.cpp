// Times the ends of a transformer's layers, divided over ranks, and the hand-off between the stages
// of a pipeline, under every schedule, against what an application writes with the same matmul
// library, MPI and one vectorized loop. All must compute the same.
#include <list>
#include <string>
#include <vector>

#include "block_peer.h"
#include "coconet/coconet.h"
#include "rows.h"
#include "schedule_of.h"
#include "timing.h"
#include "verify.h"

namespace {

using coconet::Executable;
using coconet::Program;
using coconet::Schedule;
using coconet::World;

struct Sizes {
  std::int64_t batch, sequence, hidden;
  [[nodiscard]] std::size_t rows() const { return static_cast<std::size_t>(batch * sequence); }
  [[nodiscard]] std::size_t elements() const { return rows() * static_cast<std::size_t>(hidden); }
  [[nodiscard]] coconet::Sizes named() const {
    return {{"B", batch}, {"S", sequence}, {"H", hidden}};
  }
  [[nodiscard]] std::string str() const {
    return "B" + std::to_string(batch) + " S" + std::to_string(sequence) + " H" +
           std::to_string(hidden);
  }
};

/// Tensors on this rank that all contestants share, as where their pages lie can make a difference.
template <class Element>
class Tensor {
 public:
  Tensor(const World& world, std::size_t count, std::size_t stride)
      : buffer_(world.allocate(coconet::dtype_of<Element>, count)) {
    const auto rank = static_cast<std::size_t>(world.rank());
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>((stride * i + 3 * rank) % 19) - 9;
      span()[i] = static_cast<Element>(0.02 * value);
    }
  }
  [[nodiscard]] std::span<Element> span() const { return buffer_.as<Element>(); }
  [[nodiscard]] const coconet::Buffer& buffer() const { return buffer_; }

 private:
  coconet::Buffer buffer_;
};

/// An executable, its tensors bound.
template <class Element>
Executable bound(const Program& program, const Schedule& schedule, const World& world,
                 const coconet::Sizes& sizes,
                 std::initializer_list<std::pair<const char*, const Tensor<Element>*>> tensors) {
  Executable step = coconet::compile(program, schedule, world, sizes);
  for (const auto& [name, tensor] : tensors) step.bind(name, tensor->buffer());
  return step;
}

bench::Contestant contestant(std::string name, const World& world, std::function<void(int)> step) {
  return {.name = std::move(name), .begin = [&world] { world.barrier(); }, .step = std::move(step)};
}

/// What remains of a block without its matmul, whose result is `layer`.
Program rest_of_block(const coconet::Mesh& mesh, coconet::DType dtype) {
  Program program("rest", mesh);
  const coconet::Shape shape = {program.dim("B"), program.dim("S"), program.dim("H")};
  const coconet::Value layer = program.input("layer", dtype, shape, coconet::local);
  const coconet::Value b = program.input("b", dtype, {shape.back()}, coconet::replicated);
  const coconet::Value r = program.input("r", dtype, shape, coconet::replicated);
  const coconet::Value sum = all_reduce(layer, coconet::sum).named("sum");
  program.output("out", (dropout(sum + b, 0.1, 1, program.scalar("t")) + r).named("out"));
  return program;
}

Program product(const coconet::Mesh& mesh, coconet::DType dtype) {
  Program program("product", mesh);
  const coconet::Dim batch = program.dim("B"), sequence = program.dim("S");
  const coconet::Dim inner = program.dim("F"), hidden = program.dim("H");
  const coconet::Value x = program.input("x", dtype, {batch, sequence, inner}, coconet::sliced(2));
  const coconet::Value w = program.input("w", dtype, {inner, hidden}, coconet::sliced(0));
  program.output("layer", matmul(x, w).named("layer"));
  return program;
}

/// The largest difference that rounding at other places makes, for the largest result.
template <class Element>
constexpr float allowed = sizeof(Element) == 4 ? 1e-5f : 0x1p-7f;

const char* const schedules[] = {"unfused", "fused", "overlapped", "automatic"};

/// The rows of a block that was measured: what is behind its matmul, and the whole under each
/// schedule.
void add_rows(const std::vector<bench::Contestant>& contestants, const std::string& name,
              const Sizes& sizes, bench::Rows& rows) {
  const auto ms = [&](const char* of) { return bench::fastest(contestants, {of}); };
  const std::string what = name + sizes.str() + " ";
  rows.add({what + "behind the matmul", sizes.elements(), ms("rest"),
            bench::fastest(contestants, {"peer, rest", "peer, rest, in place"})});
  for (const char* const schedule : schedules) {
    rows.add({.name = what + schedule,
              .n = sizes.elements(),
              .ms = ms(schedule),
              .peer_ms = bench::fastest(contestants, {"peer", "peer, in place"}),
              .floor_ms = ms("matmul, rest")});
  }
}

/// mlp_block or attention_block.
template <class Element>
void measure_block(const World& world, const std::string& name, Sizes sizes, bench::Rows& rows) {
  const coconet::DType dtype = coconet::dtype_of<Element>;
  const coconet::Mesh mesh = coconet::Mesh::over(world);
  const std::int64_t inner = name == "mlp_block" ? 4 * sizes.hidden : sizes.hidden;
  const auto own = static_cast<std::size_t>(inner / world.size());
  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  coconet::Sizes with_inner = sizes.named(), of_block = sizes.named();
  with_inner["F"] = inner;
  if (name == "mlp_block") of_block = with_inner;

  const Tensor<Element> x(world, sizes.rows() * own, 7), w(world, own * hidden, 5);
  Tensor<Element> b(world, hidden, 3), r(world, sizes.elements(), 11);
  const Tensor<Element> layer(world, sizes.elements(), 1), out(world, sizes.elements(), 1);
  for (Tensor<Element>* const replicated : {&b, &r}) {
    MPI_Bcast(replicated->span().data(), static_cast<int>(replicated->span().size_bytes()),
              MPI_BYTE, 0, MPI_COMM_WORLD);
  }

  Executable matmul = bound<Element>(product(mesh, dtype), Schedule("none"), world, with_inner,
                                     {{"x", &x}, {"w", &w}, {"layer", &layer}});
  bench::BlockPeer<Element> peer(sizes.rows(), hidden, MPI_COMM_WORLD);
  Executable rest =
      bound<Element>(rest_of_block(mesh, dtype), Schedule::load("mlp_block-fused.json"), world,
                     sizes.named(), {{"layer", &layer}, {"b", &b}, {"r", &r}, {"out", &out}});
  std::list<Executable> steps;
  std::vector<bench::Contestant> contestants;
  contestants.push_back(contestant("matmul", world, [&](int) { matmul.run(); }));
  for (const bool in_place : {false, true}) {
    const auto finish = [&, in_place](int t) {
      peer.finish(layer.span(), in_place, b.span(), r.span(), out.span(), t);
    };
    contestants.push_back(
        contestant(in_place ? "peer, in place" : "peer", world, [&, finish](int t) {
          matmul.run();
          finish(t);
        }));
    contestants.push_back(
        contestant(in_place ? "peer, rest, in place" : "peer, rest", world, finish));
    // In place the sum of one step is what the next one adds up.
    if (in_place) contestants.back().most_steps = 40;
  }
  contestants.push_back(contestant("rest", world, [&](int t) { rest.run({{"t", t}}); }));
  // Each finds the caches as the other one leaves them.
  contestants.push_back(contestant("matmul, rest", world, [&](int t) {
    matmul.run();
    rest.run({{"t", t}});
  }));
  for (const std::string schedule : schedules) {
    Executable& step = steps.emplace_back(bound<Element>(
        coconet::programs::find(name)->build(mesh, dtype), bench::schedule_of(name, schedule),
        world, of_block, {{"x", &x}, {"w", &w}, {"b", &b}, {"r", &r}, {"out", &out}}));
    contestants.push_back(contestant(schedule, world, [&step](int t) { step.run({{"t", t}}); }));
  }
  std::vector<float> expected;
  for (std::size_t i = 1; i < contestants.size(); ++i) {
    matmul.run();
    bench::verify(contestants[i], out.span(), 1, expected, allowed<Element>);
  }

  bench::measure(contestants);
  add_rows(contestants, name + " " + std::string(coconet::to_string(dtype)) + " ", sizes, rows);
}

/// pipeline_block of two stages.
template <class Element>
void measure_pipeline(const World& world, Sizes sizes, bench::Rows& rows) {
  const coconet::DType dtype = coconet::dtype_of<Element>;
  const int of_stage = world.size() / 2;
  const coconet::Mesh mesh({{"pp", 2}, {"tp", of_stage}});
  const bool is_first = world.rank() < of_stage;
  MPI_Comm stage = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_first ? 0 : 1, world.rank(), &stage);

  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  const Tensor<Element> x(world, sizes.elements(), 7), out(world, sizes.elements(), 0);
  const Tensor<Element> b(world, hidden, 3), r(world, sizes.elements(), 11);
  for (const Tensor<Element>* const of_all : {&b, &r}) {
    MPI_Bcast(of_all->span().data(), static_cast<int>(of_all->span().size_bytes()), MPI_BYTE, 0,
              stage);
  }
  std::ranges::fill(out.span(), Element{});
  bench::BlockPeer<Element> peer(sizes.rows(), hidden, stage);
  std::list<Executable> steps;
  std::vector<bench::Contestant> contestants;
  const std::vector<Element> whole(x.span().begin(), x.span().end());
  for (const bool in_place : {false, true}) {
    contestants.push_back(
        contestant(in_place ? "peer, in place" : "peer", world, [&, in_place](int t) {
          peer.hand_on(x.span(), in_place, b.span(), r.span(), out.span(), t,
                       is_first ? world.rank() + of_stage : -1, world.rank() - of_stage);
        }));
    contestants.back().begin = [&] {
      std::ranges::copy(whole, x.span().begin());
      world.barrier();
    };
    contestants.back().most_steps = 40;
  }
  for (const std::string schedule : schedules) {
    Executable& step = steps.emplace_back(
        bound<Element>(coconet::programs::pipeline_block(mesh, dtype),
                       bench::schedule_of("pipeline_block", schedule), world, sizes.named(),
                       {{"x", &x}, {"b", &b}, {"r", &r}, {"out", &out}}));
    contestants.push_back(contestant(schedule, world, [&step](int t) { step.run({{"t", t}}); }));
  }
  std::vector<float> expected;
  for (bench::Contestant& one : contestants) {
    std::ranges::copy(whole, x.span().begin());
    bench::verify(one, out.span(), 1, expected, allowed<Element>);
  }

  bench::measure(contestants);
  for (const char* const schedule : schedules) {
    rows.add({"pipeline_block " + std::string(coconet::to_string(dtype)) + " " + sizes.str() + " " +
                  schedule,
              sizes.elements(), bench::fastest(contestants, {schedule}),
              bench::fastest(contestants, {"peer", "peer, in place"})});
  }
  MPI_Comm_free(&stage);
}

template <class Element>
void measure_all(const World& world, const bench::Options& options, bench::Rows& rows) {
  if (world.size() == 2) {
    const std::vector<Sizes> blocks =
        options.quick
            ? std::vector<Sizes>{{8, 128, 768}}
            : std::vector<Sizes>{
                  {1, 128, 768}, {8, 128, 768}, {16, 128, 1024}, {1, 1024, 1024}, {1, 128, 3072}};
    for (const char* const name : {"attention_block", "mlp_block"}) {
      for (const Sizes& sizes : blocks) measure_block<Element>(world, name, sizes, rows);
    }
  }
  const std::vector<Sizes> hand_offs =
      options.quick
          ? std::vector<Sizes>{{8, 512, 1024}}
          : std::vector<Sizes>{{1, 128, 768}, {8, 128, 768}, {8, 512, 1024}, {4, 1024, 3072}};
  for (const Sizes& sizes : hand_offs) measure_pipeline<Element>(world, sizes, rows);
}

void run(const bench::Options& options) {
  const World world = World::mpi();
  bench::Rows rows("blocks", world.size(), world.rank() == 0, options.json);
  measure_all<float>(world, options, rows);
  measure_all<coconet::BFloat16>(world, options, rows);
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
