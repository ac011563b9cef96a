// Library collectives of ranks with a GPU each: what NCCL is asked for, and what its failures
// become.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/check.h"
#include "coconet/coconet.h"
#include "cuda/own_nccl.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "jit/platform/cuda/device.h"
#include "refusal.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr int system_error = 2;  // ncclSystemError

/// Those NCCL calls of `rank` that collectives make.
std::vector<std::string> collectives(int rank = 0) {
  const std::string own = " rank=" + std::to_string(rank) + " ";
  std::vector<std::string> found;
  for (const std::string& call : stub_nccl::calls()) {
    if (call.find(own) != std::string::npos && call.find("count=") != std::string::npos)
      found.push_back(call);
  }
  return found;
}

/// y = the x of the rank before, on the rank after it; the first one's holds zeros.
void run_send(World& world) {
  Program program("pass", Mesh::over(world));
  const Value x = program.input("x", f32, {100}, local);
  program.output("y", send(x).named("sent"));
  Executable step = compile(program, Schedule(), world);
  step.write("x", std::vector<float>(100, static_cast<float>(world.rank() + 1)));
  step.run();
  std::vector<float> y(100, -1.0f);
  step.read("y", y);
  if (y != std::vector<float>(100, static_cast<float>(world.rank())))
    throw InternalError("NCCL sent to the wrong rank");
}

/// y = the columns of x [7, 5] that this rank holds, of which every rank had some rows.
void run_reshard(World& world) {
  Program program("reshard", Mesh::over(world));
  const Value x = program.input("x", f32, {7, 5}, sliced(0));
  program.output("y", all_to_all(x, 1).named("columns"));
  Executable step = compile(program, Schedule(), world);
  std::vector<float> x_part(step.count("x"));
  const int first_row = (7 + world.size() - 1) / world.size() * world.rank();
  for (std::size_t i = 0; i < x_part.size(); ++i)
    x_part[i] = static_cast<float>(first_row * 5 + static_cast<int>(i));
  step.write("x", x_part);
  step.run();
  std::vector<float> y(step.count("y"), -1.0f);
  step.read("y", y);
  const int block = (5 + world.size() - 1) / world.size();
  std::vector<float> expected;
  for (int row = 0; row < 7; ++row) {
    for (int column = block * world.rank(); column < std::min(5, block * (world.rank() + 1));
         ++column)
      expected.push_back(static_cast<float>(row * 5 + column));
  }
  if (y != expected) throw InternalError("NCCL moved elements to the wrong rank");
}

/// y and part = the sum of 2 x, by steps that work on temporaries; z = the sum of x.
void run_between_temporaries(World& world) {
  Program program("temporaries", Mesh::over(world));
  const Value x = program.input("x", f32, {65}, local);
  program.output("y", all_reduce(x * 2.0, sum) + 1.0);
  program.output("part", reduce_scatter(x * 2.0, sum) + 1.0);
  program.output("z", all_reduce(x, sum));
  Executable step = compile(program, Schedule(), world);
  step.write("x", std::vector<float>(65, static_cast<float>(world.rank() + 1)));
  step.run();
  for (const auto& [name, value] : {std::pair{"y", 7.0f}, {"part", 7.0f}, {"z", 3.0f}}) {
    if (elements_of(step, name) != std::vector<float>(step.count(name), value))
      throw InternalError(std::string("NCCL added wrongly: ") + name);
  }
}

void run_total(World& world) {
  Executable step = compile(total(world, 100), Schedule(), world);
  step.write("x", std::vector<float>(100, static_cast<float>(world.rank() + 1)));
  step.run();
  if (elements_of(step, "y") != std::vector<float>(100, 3.0f))
    throw InternalError("NCCL added wrongly");
}

}  // namespace

TEST_CASE("all collectives of the shipped schedules equal the reference") {
  const Setting devices("STUB_CUDA_DEVICES", "3");
  for (const char* schedule : {"adam-unfused.json", "adam-sliced.json"}) {
    for (const std::int64_t n : {1, 17, 300}) {
      for (const auto storage : {programs::Storage::whole, programs::Storage::scattered}) {
        INFO(schedule << ", n = " << n);
        cli::CheckResult result;
        World::local(3, [&](World& world) {
          cli::CheckOptions options;
          options.drive.iterations = 12;
          const auto mine = cli::run_check(programs::adam(Mesh::over(world), f32, {}, storage),
                                           Schedule::load(schedule), world, {{"n", n}}, options);
          if (world.rank() == 0) result = mine;
        });
        CHECK(result.failure == "");
        CHECK(result.passed);
      }
    }
  }
  CHECK(stub_nccl::live() == 0);
}

TEST_CASE("equal slices are one call, others a group of calls") {
  const Setting devices("STUB_CUDA_DEVICES", "3");
  const auto asked = [](std::int64_t n) {
    stub_nccl::clear();
    World::local(3, [&](World& world) {
      Executable step = compile_shipped(world, "adam", "sliced", n);
      for (const char* name : {"g", "w", "m", "v"}) step.data<float>(name);
      step.run({{"lr", 0.1}, {"t", 1.0}});
      step.synchronize();
    });
    return collectives();
  };
  const auto equal = asked(300);
  REQUIRE(equal.size() == 2);
  CHECK_THAT(equal[0], StartsWith("ncclReduceScatter count=100 "));
  CHECK_THAT(equal[1], StartsWith("ncclAllGather count=100 "));
  // 301 elements: 101, 101 and 99.
  const auto others = asked(301);
  REQUIRE(others.size() == 6);
  CHECK_THAT(others[0], StartsWith("ncclReduce count=101 "));
  CHECK_THAT(others[2], StartsWith("ncclReduce count=99 "));
  CHECK_THAT(others[3], StartsWith("ncclBroadcast count=101 "));
}

TEST_CASE("an all_to_all is a message to each rank and from each, of the lengths that each has") {
  const Setting devices("STUB_CUDA_DEVICES", "3");
  REQUIRE(refusal([] { World::local(3, run_reshard); }) == "(accepted)");
}

TEST_CASE("a send is a message to one rank and from another, where there are such") {
  const Setting devices("STUB_CUDA_DEVICES", "3");
  stub_nccl::clear();
  REQUIRE(refusal([] { World::local(3, run_send); }) == "(accepted)");
  const auto asked = [](int rank, std::vector<std::string> beginnings) {
    const std::vector<std::string> calls = collectives(rank);
    INFO("rank " << rank);
    REQUIRE(calls.size() == beginnings.size());
    for (std::size_t i = 0; i < calls.size(); ++i) CHECK_THAT(calls[i], StartsWith(beginnings[i]));
  };
  asked(0, {"ncclSend count=100 type=7 op=0 root=1 "});
  asked(1, {"ncclSend count=100 type=7 op=0 root=2 ", "ncclRecv count=100 type=7 op=0 root=0 "});
  asked(2, {"ncclRecv count=100 type=7 op=0 root=1 "});
  CHECK(stub_nccl::live() == 0);
}

TEST_CASE("one communicator serves all collectives along an axis") {
  const Setting devices("STUB_CUDA_DEVICES", "4");
  stub_nccl::clear();
  World::local(4, [](World& world) {
    Program program("axes", Mesh({{"a", 2}, {"b", 2}}));
    const Value x = program.input("x", f32, {10}, local);
    program.output("y", all_reduce(all_reduce(x, sum, "b"), sum, "a"));
    Executable step = compile(program, Schedule(), world);
    step.write("x", std::vector<float>(10, static_cast<float>(world.rank())));
    step.run();
    if (elements_of(step, "y")[9] != 6.0f) throw InternalError("the axes were mixed up");
  });
  CHECK(stub_nccl::calls("ncclCommInitRankConfig").size() == 8);  // two for each of four ranks
  CHECK(stub_nccl::live() == 0);
}

TEST_CASE("the application's communicator serves collectives along all ranks, and stays alive") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const OwnNccl::Id id = OwnNccl::make_id();
  stub_nccl::clear();
  World::local(2, [&](World& world) {
    const jit::OnDevice current(jit::Device::at(world.rank()));
    OwnNccl nccl(world, id);
    world.use_nccl(nccl.communicator());
    run_send(world);
    run_reshard(world);
  });
  CHECK(stub_nccl::calls("ncclCommInitRankConfig").size() == 2);  // the application's
  CHECK(stub_nccl::live() == 0);
}

TEST_CASE("a communicator of other ranks or another GPU is refused") {
  const Setting devices("STUB_CUDA_DEVICES", "3");
  const auto said = [](int gpu_of_rank_1, bool swapped) {
    const OwnNccl::Id id = OwnNccl::make_id();
    std::string of_rank_1;
    World::local(2, [&](World& world) {
      (void)world.allocate(f32, 1);  // on GPU 0 and 1
      const int place = swapped ? 1 - world.rank() : world.rank();
      const jit::OnDevice current(jit::Device::at(world.rank() == 1 ? gpu_of_rank_1 : 0));
      OwnNccl nccl(2, place, id);
      const std::string mine = refusal<CommError>([&] { world.use_nccl(nccl.communicator()); });
      if (world.rank() == 1) of_rank_1 = mine;
    });
    return of_rank_1;
  };
  CHECK(said(1, false) == "(accepted)");
  CHECK_THAT(said(1, true), Contains("in which this is rank 0 of 2, on rank 1 of 2 of the world; "
                                     "it must hold the same ranks in the same order"));
  CHECK_THAT(said(2, false), Contains("on GPU 2, but rank 1 of the world has GPU 1"));
  World::local(2, [](World& world) {
    CHECK_THROWS_WITH(world.use_nccl(nullptr), Contains("was given a null communicator"));
  });
}

TEST_CASE("NCCL is told of the temporaries of its calls beforehand, on all ranks alike") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const std::string before = stub_cuda::live();
  stub_nccl::clear();
  World::local(2, run_between_temporaries);
  for (int rank = 0; rank < 2; ++rank) {
    INFO("rank " << rank);
    const auto calls = collectives(rank);
    REQUIRE(calls.size() == 4);
    CHECK_THAT(calls[0], StartsWith("ncclAllReduce count=65 ") &&
                             Contains(" ranks=2 from a window to a window stream="));
    // What applications may bind is in no window.
    CHECK_THAT(calls[3], StartsWith("ncclAllReduce count=65 ") && !Contains("window"));
  }
  std::vector<std::string> of_windows;
  for (const std::string& call : stub_nccl::calls()) {
    if (call.starts_with("ncclCommWindow")) of_windows.push_back(call);
  }
  REQUIRE(of_windows.size() == 4);
  // Three of 65 elements, and the 33 of rank 0 also on rank 1, which has 32; padded to 64 bytes.
  for (int i = 0; i < 2; ++i)
    CHECK_THAT(of_windows[i], StartsWith("ncclCommWindowRegister bytes=1152 flags=1 "));
  for (int i = 2; i < 4; ++i) CHECK_THAT(of_windows[i], StartsWith("ncclCommWindowDeregister "));
  CHECK(stub_cuda::live() == before);
}

TEST_CASE("failures of NCCL are errors on every rank, and the next executable works") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const auto sliced = [](std::int64_t n) {
    return [n](World& world) {
      Executable step = compile_shipped(world, "sgd", "sliced", n);
      for (const char* name : {"g", "w"}) step.data<float>(name);
      step.run({{"lr", 0.1}});
      step.synchronize();
    };
  };
  struct Case {
    const char* function;
    std::function<void(World&)> body;
    const char* told;  ///< the call that the error names
  };
  for (const Case& one :
       std::vector<Case>{{"ncclGetUniqueId", run_total, "ncclGetUniqueId"},
                         {"ncclCommInitRankConfig", run_total, "ncclCommInitRankConfig"},
                         {"ncclAllReduce", run_total, "ncclAllReduce"},
                         {"ncclCommWindowRegister", run_between_temporaries,
                          "ncclCommWindowRegister (NCCL_WIN_ENABLE=0 does without)"},
                         {"ncclReduceScatter", sliced(100), "ncclReduceScatter"},
                         {"ncclAllGather", sliced(100), "ncclAllGather"},
                         {"ncclReduce", sliced(101), "ncclReduce"},
                         {"ncclGroupEnd", sliced(101), "ncclReduce"},
                         {"ncclBroadcast", sliced(101), "ncclBroadcast"},
                         {"ncclSend", run_send, "ncclSend or ncclRecv"},
                         {"ncclRecv", run_send, "ncclSend or ncclRecv"}}) {
    INFO(one.function);
    stub_nccl::fail(one.function, 0, system_error);
    CHECK_THAT(refusal<CommError>([&] { World::local(2, one.body); }),
               StartsWith(std::string(one.told) + " failed: "));
    CHECK(stub_nccl::live() == 0);
    CHECK(refusal([&] { World::local(2, one.body); }) == "(accepted)");
  }
  for (const char* function : {"ncclCommWindowDeregister", "ncclCommFinalize", "ncclCommDestroy"}) {
    INFO(function);  // what cannot be given back is nobody's error
    stub_nccl::fail(function, 0, system_error);
    CHECK(refusal([] { World::local(2, run_between_temporaries); }) == "(accepted)");
  }
}

TEST_CASE("an error that NCCL finds later ends the wait for it") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const std::string said = refusal<CommError>([] {
    World::local(2, [](World& world) {
      Executable step = compile(total(world, 100), Schedule(), world);
      step.data<float>("x");
      step.run();  // takes the memory that it needs
      step.synchronize();
      world.barrier();
      stub_cuda::hold(true);
      step.run();
      world.barrier();
      stub_nccl::async(system_error);
      const std::string first = refusal<CommError>([&] { step.synchronize(); });
      stub_cuda::hold(false);
      world.barrier();
      stub_nccl::async(0);
      const std::string again = refusal<CommError>([&] { step.run(); });
      if (again.find("this executable cannot run any more") == std::string::npos)
        throw InternalError("it ran again: " + again);
      throw CommError(first);
    });
  });
  CHECK_THAT(said, StartsWith("a collective of NCCL failed: "));
  stub_cuda::heal();
}
