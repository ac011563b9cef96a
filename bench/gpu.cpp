// Times steps on one GPU: fused Adam and LAMB against a copy of as many bytes and against torch's
// Adam, steps of ranks that share the GPU, the launch of a step against a bare launch, and what
// compile() takes.
// One part a process; bench/gpu.sh starts them and makes a table of what they print.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>

#include "coconet/coconet.h"
#include "coconet/config.h"
#include "gpu_matmul.h"
#include "gpu_probes.h"
#include "gpu_ranks.h"
#include "gpu_steps.h"
#include "gpu_table.h"
#include "gpu_timing.h"
#include "jit/codegen/codegen.h"
#include "jit/comm/access.h"
#include "jit/platform/cuda/driver.h"
#include "jit/platform/cuda/nvrtc.h"

namespace {
using bench::Table;
using clock = std::chrono::steady_clock;

constexpr const char* usage =
    "usage: bench_gpu "
    "hold|copy|handshakes|barriers|optimizers|ranks|lamb|bias|algorithms|multicast|"
    "blocks|blocks-over-gpus|overlap|matmul|launch|compile-cold|compile-warm [--small] [--torch "
    "FILE] [--json FILE]";

struct Options {
  std::string part;
  bool small = false;              ///< sizes for trying the program itself
  std::map<int, double> torch_ms;  ///< of torch.optim.Adam, by the exponent of the size
  std::string json;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--small") {
      options.small = true;
    } else if (argument == "--json" && i + 1 < argc) {
      options.json = argv[++i];
    } else if (argument == "--torch" && i + 1 < argc) {
      std::ifstream lines(argv[++i]);  // "20 0.0123"
      int exponent = 0;
      double ms = 0;
      while (lines >> exponent >> ms) options.torch_ms[exponent] = ms;
    } else if (options.part.empty() && !argument.starts_with("-")) {
      options.part = argument;
    } else {
      throw std::invalid_argument(usage);
    }
  }
  return options;
}

double us_between(clock::time_point begin, clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

coconet::Executable compile_adam(const coconet::World& world, std::int64_t n,
                                 const std::string& schedule,
                                 const coconet::programs::AdamOptions& options = {}) {
  return coconet::compile(
      coconet::programs::adam(coconet::Mesh::over(world), coconet::f32, options),
      coconet::Schedule::load("adam-" + schedule + ".json"), world, {{"n", n}});
}

/// A fused optimizer of one rank against a copy of as many bytes as its tensors, once, and Adam
/// against torch's.
void measure_optimizer(const std::string& program, const Options& options, Table& table) {
  const coconet::World world = coconet::World::self();
  const coconet::jit::Platform& backend = bench::backend_of(world);
  const bool is_adam = program == "adam";
  const std::string what = is_adam ? "fused Adam, 1 rank" : "fused LAMB, 1 rank";
  for (const int exponent : options.small ? std::vector{10, 12} : std::vector{20, 22, 24, 26}) {
    const std::size_t n = std::size_t{1} << exponent;
    bench::Stopwatch watch(coconet::jit::comm_of(world), backend);
    bench::OptimizerStep fused(world, watch, program, n, "fused");
    // 28 bytes a parameter: g, w, m and v are read, w, m and v written. LAMB, which needs the norms
    // of all of an update before it takes any of it, has to read more of them again.
    bench::Copy copy(backend, watch, 14 * n);
    watch.measure({&fused, &copy}, options.small ? 1 : 10);

    const double ratio = copy.ms / fused.ms;
    table.add(
        {.what = what,
         .size = bench::power_of_two(exponent),
         .result = bench::decimals(fused.ms * 1e3, 1) + " us, " + copy.rate(fused.ms),
         .peer = "copy of as many bytes: " + bench::decimals(copy.ms * 1e3, 1) + " us, " +
                 copy.rate(copy.ms),
         .ratio = ratio,
         .target = is_adam ? bench::at_least(ratio, 0.92) : bench::Target{},
         .numbers = {{"ms", fused.ms}, {"copy_ms", copy.ms}, {"gigabytes", copy.gigabytes()}}});
    const auto torch = options.torch_ms.find(exponent);
    if (!is_adam || torch == options.torch_ms.end()) continue;
    const double faster = torch->second / fused.ms;
    table.add(
        {.what = what,
         .size = bench::power_of_two(exponent),
         .result = bench::decimals(fused.ms * 1e3, 1) + " us",
         .peer = "torch.optim.Adam(fused=True): " + bench::decimals(torch->second * 1e3, 1) + " us",
         .ratio = faster,
         .target = bench::at_least(faster, 1.0),
         .numbers = {{"ms", fused.ms}, {"torch_ms", torch->second}}});
  }
}

/// A row of 64 that is added to 2^20 rows, which are read once and written once.
void measure_bias(const Options& options, Table& table) {
  const coconet::World world = coconet::World::self();
  const std::int64_t rows = options.small ? 16 : 1 << 20;
  constexpr std::int64_t columns = 64;
  coconet::Program program("bias", coconet::Mesh::over(world));
  const coconet::Value x = program.input("x", coconet::f32, {rows, columns}, coconet::replicated);
  const coconet::Value b = program.input("b", coconet::f32, {columns}, coconet::replicated);
  program.output("y", (x + b).named("y"));
  coconet::Executable executable = coconet::compile(program, coconet::Schedule(), world);
  bench::Stopwatch watch(coconet::jit::comm_of(world), bench::backend_of(world));
  executable.use_stream(watch.queue().handle());
  executable.write("x", bench::made_up(executable.count("x"), 1));
  executable.write("b", bench::made_up(executable.count("b"), 2));
  executable.data<float>("y");
  bench::Contestant added{.step = [&] { executable.run(); },
                          .wait = [&] { executable.synchronize(); }};
  const auto bytes = static_cast<std::size_t>(rows * columns) * sizeof(float);
  bench::Copy copy(bench::backend_of(world), watch, bytes);
  watch.measure({&added, &copy}, options.small ? 1 : 10);
  table.add({.what = "[2^20, 64] + [64] in f32, 1 rank",
             .size = std::to_string(rows) + " x " + std::to_string(columns),
             .result = bench::decimals(added.ms * 1e3, 1) + " us, " + copy.rate(added.ms),
             .peer = "copy of as many bytes: " + bench::decimals(copy.ms * 1e3, 1) + " us, " +
                     copy.rate(copy.ms),
             .ratio = copy.ms / added.ms,
             .numbers = {{"ms", added.ms}, {"copy_ms", copy.ms}, {"gigabytes", copy.gigabytes()}}});
}

/// Host's microseconds of a step: until it is queued, and until it has run.
struct StepTimes {
  std::vector<double> queued, done;
};

void time_steps(const bench::Contestant& contestant, int steps, StepTimes& times) {
  contestant.step();
  contestant.wait();
  const auto begin = clock::now();
  for (int i = 0; i < steps; ++i) contestant.step();
  const auto queued = clock::now();
  contestant.wait();
  const auto done = clock::now();
  times.queued.push_back(us_between(begin, queued) / steps);
  times.done.push_back(us_between(begin, done) / steps);
}

/// A kernel that does nothing, launched with nothing around the driver's function.
class BareLaunch : public bench::Contestant {
 public:
  explicit BareLaunch(const coconet::World& world)
      : device_(coconet::jit::device_of(coconet::jit::comm_of(world))),
        queue_(bench::backend_of(world).make_queue()) {
    config_.gridDimX = config_.gridDimY = config_.gridDimZ = 1;
    config_.blockDimX = 32;
    config_.blockDimY = config_.blockDimZ = 1;
    config_.hStream = static_cast<CUstream>(queue_->handle());
    // Looked up once, as a program that links the driver has it.
    step = [this, launch = coconet::jit::driver().launch, kernel = loaded(compiled(device_.arch))] {
      void* parameters[] = {&argument_};
      coconet::jit::check(launch(&config_, kernel, parameters, nullptr), "a bare launch");
    };
    wait = [this] { queue_->finish(); };
  }

 private:
  static std::string compiled(const std::string& arch) {
    const coconet::jit::NvrtcCompiler compiler(coconet::jit::nvrtc::target_for(arch).arch);
    const coconet::jit::CompileResult result =
        compiler.compile(coconet::jit::prelude("cuda") +
                         "struct Args {\n  u64 nothing;\n};\n"
                         "DEVICE void empty_block(const Args&, const Block&) {}\n"
                         "KERNEL_ENTRY(empty)\n");
    if (!result.ok) throw std::runtime_error("the empty kernel does not compile:\n" + result.log);
    return result.binary;
  }

  /// The function "empty" of a cubin, which stays loaded.
  static CUfunction loaded(const std::string& cubin) {
    const coconet::jit::Driver& driver = coconet::jit::driver();
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    coconet::jit::check(
        driver.library_load(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading the empty kernel");
    coconet::jit::check(driver.library_kernel(&kernel, library, "empty"),
                        "finding the empty kernel");
    coconet::jit::check(driver.kernel_function(&function, kernel), "finding its function");
    return function;
  }

  const coconet::jit::Device& device_;
  coconet::jit::OnDevice current_{device_};
  std::unique_ptr<coconet::jit::Queue> queue_;
  CUlaunchConfig config_{};
  std::uint64_t argument_ = 0;
};

/// Four kernels, as no schedule puts their updates into one.
coconet::Program several_kernels(const coconet::World& world) {
  coconet::Program program("several", coconet::Mesh::over(world));
  const coconet::Dim n = program.dim("n");
  const coconet::Value lr = program.scalar("lr");
  for (const char* name : {"a", "b", "c", "d"}) {
    const coconet::Value state = program.state(name, coconet::f32, {n}, coconet::replicated);
    coconet::update(state, state - lr * state);
  }
  return program;
}

void measure_launch(const Options& options, Table& table) {
  const coconet::World world = coconet::World::self();
  const coconet::Sizes sizes = {{"n", 1024}};
  coconet::Executable one = compile_adam(world, 1024, "fused");
  coconet::Executable several =
      coconet::compile(several_kernels(world), coconet::Schedule(), world, sizes);
  for (const char* name : {"g", "w", "m", "v"}) (void)one.data(name, coconet::f32);
  for (const char* name : {"a", "b", "c", "d"}) (void)several.data(name, coconet::f32);
  int t = 0;
  bench::Contestant step_of_one{.step =
                                    [&] {
                                      one.run({{"lr", 1e-3}, {"t", ++t}});
                                    },
                                .wait = [&] { one.synchronize(); }};
  bench::Contestant step_of_several{.step =
                                        [&] {
                                          several.run({{"lr", 1e-3}});
                                        },
                                    .wait = [&] { several.synchronize(); }};
  BareLaunch bare(world);

  // A queue holds about 1000 launches before the host waits for the GPU.
  const int kernels = static_cast<int>(several.report().kernels.size());
  const int steps = options.small ? 50 : 1000;
  StepTimes times_of_one, times_of_several, times_of_bare, warm_up;
  for (const bench::Contestant* contestant :
       {&step_of_one, &step_of_several, static_cast<bench::Contestant*>(&bare)})
    time_steps(*contestant, steps, warm_up);
  for (int sample = 0; sample < bench::samples; ++sample) {
    time_steps(step_of_one, steps, times_of_one);
    time_steps(bare, steps, times_of_bare);
    time_steps(step_of_several, steps / kernels, times_of_several);
  }

  const std::string graph = coconet::config().graph;
  const auto add = [&](int launches, StepTimes& ours) {
    const std::string what = "step of " + std::to_string(launches) +
                             (launches == 1 ? " kernel" : " kernels") + ", COCONET_GRAPH=" + graph;
    const std::string peer =
        launches == 1 ? "a bare launch: " : std::to_string(launches) + " bare launches: ";
    const auto entry = [&](const char* until, double mine, double of_launch, bool aims) {
      const double theirs = launches * of_launch;
      table.add({.what = what + ", " + until,
                 .size = "n=1024",
                 .result = bench::decimals(mine, 2) + " us",
                 .peer = peer + bench::decimals(theirs, 2) + " us",
                 .ratio = mine / theirs,
                 .target = aims ? bench::Target{"<= peer + 1.5 us", mine <= theirs + 1.5}
                                : bench::Target{},
                 .numbers = {
                     {"graph", graph}, {"kernels", launches}, {"us", mine}, {"peer_us", theirs}}});
    };
    entry("enqueue only", bench::median(ours.queued), bench::median(times_of_bare.queued), true);
    entry("enqueue and run", bench::median(ours.done), bench::median(times_of_bare.done), false);
  };
  add(1, times_of_one);
  add(kernels, times_of_several);
}

constexpr int variants =
    bench::samples + 1;  // the first one, which also loads NVRTC, does not count

/// Adam with constants of its own, and so a kernel that no other variant has.
coconet::Executable compile_variant(const coconet::World& world, int variant) {
  return compile_adam(world, 1024, "fused", {.beta1 = 0.9 - 1e-3 * (variant + 1)});
}

/// Times compile() of all variants; throws unless `counter` counts each of them.
double time_compile(const coconet::World& world, std::uint64_t coconet::CacheCounters::*counter,
                    const char* from) {
  std::vector<double> ms;
  std::vector<coconet::Executable> kept;  // freeing them is not timed
  std::uint64_t before = compile_variant(world, variants).report().cache.*counter;
  for (int variant = 0; variant < variants; ++variant) {
    const auto begin = clock::now();
    kept.push_back(compile_variant(world, variant));
    ms.push_back(us_between(begin, clock::now()) / 1e3);
    const std::uint64_t after = kept.back().report().cache.*counter;
    if (after != before + 1) {
      throw std::runtime_error("variant " + std::to_string(variant) +
                               " of the kernel did not come from " + from);
    }
    before = after;
  }
  ms.erase(ms.begin());
  return bench::median(ms);
}

void add_compile(Table& table, const char* what, double ms) {
  table.add({.what = std::string("compile() of fused Adam, ") + what,
             .size = "n=1024",
             .result = bench::decimals(ms, 2) + " ms",
             .numbers = {{"ms", ms}}});
}

void measure_compile_cold(Table& table) {
  const coconet::World world = coconet::World::self();
  add_compile(table,
              coconet::config().cache == "off" ? "NVRTC, no cache" : "NVRTC, written to the cache",
              time_compile(world, &coconet::CacheCounters::miss, "the compiler"));
}

/// After `compile-cold` with the same cache directory.
void measure_compile_warm(Table& table) {
  const coconet::World world = coconet::World::self();
  add_compile(table, "cubin from the disk",
              time_compile(world, &coconet::CacheCounters::hit_disk, "the disk"));
  add_compile(table, "kernel in memory",
              time_compile(world, &coconet::CacheCounters::hit_memory, "memory"));
}

void run(const Options& options) {
  if (coconet::config().backend != "cuda")
    throw std::invalid_argument(
        "set COCONET_BACKEND=cuda: this program times steps on a GPU; bench/gpu.sh does it");
  Table table(options.json);
  if (options.part == "hold") return bench::hold_context();
  if (options.part == "copy") return bench::measure_copy(options.small, table);
  if (options.part == "handshakes") return bench::measure_handshakes(options.small, table);
  if (options.part == "barriers") return bench::measure_barriers(options.small, table);
  if (options.part == "optimizers") {
    measure_optimizer("adam", options, table);
    return measure_optimizer("lamb", options, table);
  }
  if (options.part == "ranks") return bench::measure_ranks("adam", options.small, table);
  if (options.part == "lamb") return bench::measure_ranks("lamb", options.small, table);
  if (options.part == "bias") return measure_bias(options, table);
  if (options.part == "algorithms") return bench::measure_algorithms(options.small, table);
  if (options.part == "blocks") return bench::measure_blocks(false, options.small, table);
  if (options.part == "blocks-over-gpus") return bench::measure_blocks(true, options.small, table);
  if (options.part == "overlap") return bench::measure_overlap(options.small, table);
  if (options.part == "multicast") return bench::measure_multicast(options.small, table);
  if (options.part == "matmul") return bench::measure_matmul(options.small, table);
  if (options.part == "launch") return measure_launch(options, table);
  if (options.part == "compile-cold") return measure_compile_cold(table);
  if (options.part == "compile-warm") return measure_compile_warm(table);
  throw std::invalid_argument(usage);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu: %s\n", error.what());
    return 1;
  }
}
