// The `coconet` command from outside: help, wrong command lines, and what each subcommand prints.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/kernel_directory.h"
#include "coconet/programs.h"
#include "jit/platform/cuda/nvrtc.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using namespace coconet::test;

namespace {

/// A file with `text` in a directory of its own.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text) : path_(scratch_.path() / name) {
    write_file(path_, text);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  ScratchDirectory scratch_;
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("--version and --help succeed and --help shows examples") {
  CHECK_THAT(printed("--version"), StartsWith("coconet 0."));
  const std::string help = printed("--help");
  for (const char* command :
       {"run", "explain", "compile", "sim", "tune", "cache", "programs", "doctor"})
    CHECK_THAT(help, Contains(command));
  for (const char* command : {"run", "explain", "compile", "sim", "tune"}) {
    CHECK_THAT(printed(std::string(command) + " --help"),
               Contains("Examples:") && Contains("--schedule") && Contains("--set"));
  }
}

TEST_CASE("help comes from rank 0 only, and an error that another rank has alone names the rank") {
  CHECK(coconet_command("--help", "OMPI_COMM_WORLD_RANK=1").out.empty());
  CHECK_THAT(complaint("run nonsense", "OMPI_COMM_WORLD_RANK=1", 2),
             StartsWith("coconet: rank 1: There is no program 'nonsense'"));
}

TEST_CASE("a wrong command line is exit code 2 and one sentence") {
  require_usage_error("", "A subcommand is required");
  require_usage_error("exlpain adam", "There is no subcommand 'exlpain'; did you mean 'explain'?");
  require_usage_error("frobnicate", "There is no subcommand 'frobnicate'; see coconet --help");
  require_usage_error("run", "PROGRAM is required");
  require_usage_error("run adam --frobnicate", "--frobnicate");
  require_usage_error("run adm", "There is no program 'adm'; PROGRAM is one of");
  require_usage_error("run adm", "Did you mean 'adam'?");
  require_usage_error("run adam --schedule fusd",
                      "There is no schedule 'fusd' for adam; --schedule is one of unfused, sliced, "
                      "fused, or a JSON file. Did you mean 'fused'?");
  require_usage_error("run adam --set n", "--set takes NAME=VALUE, not 'n'.");
  require_usage_error("run adam --set n=many",
                      "--set n takes an integer such as 4099 or 2^20, not 'many'.");
  require_usage_error("run adam --set n=2^64", "--set n takes an integer");
  require_usage_error("run adam --set n=1 --set n=2", "--set gives the dimension 'n' twice.");
  require_usage_error("run adam --dtype i32", "--dtype is f32, f64, f16 or bf16, not 'i32'.");
  require_usage_error("run adam_mixed",
                      "There is no program 'adam_mixed'; ask for mixed precision by adam --dtype "
                      "bf16 --master-weights copy.");
  require_usage_error("run adam --scalar lr=fast", "--scalar lr takes a number, not 'fast'.");
  require_usage_error("run adam --scalar lq=1",
                      "the program 'adam' has no scalar 'lq'; its scalars are lr, t.");
  require_usage_error("run adam --world moon", "--world is mpi, self or local:N, not 'moon'.");
  require_usage_error("run adam --world local:0", "--world local:N takes a number of ranks from 1");
  require_usage_error("run adam --iters 0", "--iters");
  require_usage_error("explain adam --show everything", "--show");
}

TEST_CASE("a failure is exit code 1 and one sentence") {
  CHECK_THAT(complaint("run /nowhere/program.json"),
             StartsWith("coconet: ") && Contains("/nowhere/program.json"));
  CHECK_THAT(complaint("run adam --set m=3"), Contains("has no dimension 'm'"));
}

TEST_CASE("a program file runs on as many ranks as its mesh has, and keeps its dtypes") {
  const coconet::Mesh mesh({{"world", 3}});
  const TemporaryFile file("adam3.json", coconet::programs::adam(mesh).json());
  require_usage_error("run " + file.path() + " --world local:2",
                      "is written for the mesh {world: 3}, which is 3 ranks, and this world has 2. "
                      "Start it with mpirun -n 3, or with --world local:3.");
  require_usage_error("run " + file.path() + " --dtype f16",
                      "--dtype is for the programs that ship");
  require_usage_error("explain " + file.path() + " --ranks 2",
                      "is written for 3 ranks; leave out --ranks 2.");
  CHECK_THAT(printed("run " + file.path() + " --world local:3 --set n=100 --check"),
             Contains("check passed"));
}

TEST_CASE("a program file that leaves an axis to the ranks runs on any that the others divide") {
  std::string json = coconet::programs::adam(coconet::Mesh({{"world", 3}})).json();
  const std::string size = "\"size\": 3";
  json.replace(json.find(size), size.size(), "\"size\": \"ranks\"");
  const TemporaryFile file("adam_of_ranks.json", json);
  for (const std::string ranks : {"1", "2", "3"}) {
    CHECK_THAT(printed("run " + file.path() + " --schedule fused --world local:" + ranks +
                       " --set n=100 --check"),
               Contains("check passed") && Contains(", " + ranks + " rank"));
  }
  CHECK_THAT(coconet_command("explain " + file.path()).out, Contains("program adam on {world: 2}"));
  CHECK_THAT(coconet_command("explain " + file.path() + " --ranks 8").out,
             Contains("program adam on {world: 8}"));

  const std::string mesh = "\"mesh\": [";
  json.replace(json.find(mesh), mesh.size(), mesh + "{\"name\": \"node\", \"size\": 2}, ");
  const TemporaryFile nodes("nodes_of_ranks.json", json);
  CHECK_THAT(complaint("explain " + nodes.path() + " --ranks 5"),
             Contains("nodes_of_ranks.json: program JSON at /mesh/1/size: axis 'world' cannot have "
                      "what is left of 5 ranks, which 2 does not divide"));
}

TEST_CASE("a pipeline runs on ranks that its stages divide, and is planned for two of each stage") {
  CHECK_THAT(complaint("run pipeline_block --world local:3"),
             Contains("it runs on a multiple of 2 ranks, not on 3"));
  CHECK_THAT(printed("run pipeline_block --schedule fused --world local:4 --set B=1 --set S=3 "
                     "--set H=5 --check"),
             Contains("check passed"));
  CHECK_THAT(printed("explain pipeline_block --show ir"), Contains("{pp: 2, tp: 2}"));
}

TEST_CASE("a transformer's training step runs with as many layers as asked for") {
  CHECK_THAT(printed("run gpt --layers 1 --world local:2 --set B=3 --set S=5 --set V=7 --check"),
             Contains("check passed"));
  CHECK_THAT(printed("explain gpt --layers 3"), Contains("layer2.mlp.down") && !Contains("layer3"));
  require_usage_error("run adam --layers 2", "--layers is for the models that ship, not for adam.");
  require_usage_error("run gpt --schedule fused",
                      "No schedule ships for gpt; --schedule must be a JSON file, not 'fused'.");
}

TEST_CASE("programs lists what ships, and --schedules pairs only") {
  const std::string names = printed("programs");
  const std::string pairs = printed("programs --schedules");
  std::string expected;
  for (const auto& shipped : coconet::programs::shipped()) {
    CHECK_THAT(names,
               Contains(std::string(shipped.name)) && Contains(std::string(shipped.summary)));
    for (const auto schedule : shipped.schedules) {
      expected += std::string(shipped.name) + " " + std::string(schedule) + "\n";
    }
  }
  CHECK(pairs == expected);
}

TEST_CASE("explain shows the program after each step, marking what the step changed") {
  const std::string said = printed("explain adam --schedule fused");
  CHECK_THAT(said, StartsWith("the program as written\n"));
  CHECK_THAT(said,
             Contains("\nstep 1 of ") && Contains("split") && Contains("\n+ ") && Contains("\n- "));
  CHECK_THAT(said, !Contains("\x1b"));
}

TEST_CASE("explain prints plans and sources, the same ones in every process") {
  for (const char* show : {"ir", "plan", "source"}) {
    const std::string arguments = std::string("explain adam --schedule fused --show ") + show;
    const std::string said = printed(arguments);
    CHECK(!said.empty());
    for (int i = 0; i < 5; ++i) CHECK(coconet_command(arguments).out == said);
  }
}

TEST_CASE("the environment chooses algorithm and protocol of kernels that are shown and run") {
  const std::string source = "explain adam --schedule fused --show source";
  CHECK_THAT(coconet_command(source).out,
             Contains("common.h, ranks.h, exchange/direct.h\n") && !Contains("exchange<"));
  const Said ring = coconet_command(source, "COCONET_ALGORITHM=ring COCONET_PROTOCOL=ll128");
  CHECK_THAT(ring.out, Contains("exchange/mailboxes.h, exchange/lines.h, exchange/ring.h\n") &&
                           Contains("exchange<ring, ll128, "));
  const Said star = coconet_command(source, "COCONET_PROTOCOL=ll");
  CHECK_THAT(star.out, Contains("exchange<star, ll, "));
  const Said plan =
      coconet_command("explain adam --schedule fused --show plan", "COCONET_ALGORITHM=tree");
  CHECK_THAT(plan.out, !Contains("reached by other ranks"));

  const KernelDirectory kernels;
  const std::string tree = "COCONET_ALGORITHM=tree COCONET_PROTOCOL=ll ";
  const std::string compile = "compile adam --schedule fused --ranks 3";
  CHECK_THAT(coconet_command(compile, kernels.variable()).out, Contains(": 1 compiled, "));
  CHECK_THAT(coconet_command(compile, tree + kernels.variable()).out, Contains(": 1 compiled, "));
  CHECK_THAT(printed("run adam --schedule fused --set n=1000 --world local:3 --iters 1 --check",
                     tree + kernels.variable()),
             Contains("check passed") && Contains("1 on disk, 0 from a peer, 0 compiled"));
}

TEST_CASE("legal lists steps that a schedule may take next") {
  CHECK(printed("legal momentum_sgd") ==
        "split op=avg\n"
        "split op=avg into=reduce+broadcast\n"
        "fuse kernel=momentum_sgd_computation kind=computation ops=[m.new, w.new]\n"
        "fuse kernel=momentum_sgd_all_reduce kind=all_reduce ops=[avg]\n");
  CHECK_THAT(coconet_command("legal adam --schedule sliced").out,
             !Contains("split") && Contains("as_slice state=w\n") && Contains("fuse kernel="));
  const TemporaryFile split(
      "split.json",
      R"({"coconet_schedule": 1, "name": "split", "steps": [{"split": {"op": "avg"}}]})");
  CHECK_THAT(coconet_command("legal momentum_sgd --schedule " + split.path()).out,
             Contains("reorder all_gather=avg.all_gather before=[m.new, w.new]\n"));
}

TEST_CASE(
    "a plan shows what its steps move, how long that is predicted to take, and what binds it") {
  const std::string plan = "explain adam --schedule sliced --show plan ";
  const Said host = coconet_command(plan + "--set n=2^20 --cluster host-2rank");
  CHECK_THAT(host.out, Contains("predicted ms  bound") && Contains("whole step ") &&
                           Contains("  memory\n") &&
                           Contains("with n = 1048576; predicted for host-2rank\n"));
  const Said gpus = coconet_command(plan + "--set n=64 --ranks 8 --cluster dgx-h100");
  CHECK_THAT(gpus.out, Contains("  links\n") && Contains("predicted for dgx-h100\n"));
  CHECK_THAT(coconet_command(plan + "--set n=64 --cluster dgx-h100").err,
             Contains("the cluster 'dgx-h100' has 8 ranks"));
}

TEST_CASE("run --check passes on threads and reports as JSON") {
  const TemporaryFile file("result.json", "");
  CHECK_THAT(printed("run adam --schedule fused --world local:2 --set n=1000 --check --json " +
                     file.path()),
             Contains("check passed: max relative error") && Contains("all ranks bit-identical"));
  const auto json = nlohmann::json::parse(read_file(file.path()));
  CHECK(json.at("program") == "adam");
  CHECK(json.at("schedule") == "fused");
  CHECK(json.at("ranks") == 2);
  CHECK(json.at("sizes").at("n") == 1000);
  CHECK(json.at("dtype") == "f32");
  CHECK(json.at("master_weights").is_null());
  CHECK(json.at("iters") == 3);
  CHECK(json.at("ms_median").get<double>() > 0);
  CHECK(json.at("max_rel_error").get<double>() < 1e-4);
  CHECK(json.at("bit_identical") == true);
  for (const char* key : {"hit_memory", "hit_disk", "hit_peer", "miss"}) {
    CHECK(json.at("cache").at(key).is_number_integer());
  }
  CHECK(json.at("notes").is_array());
  REQUIRE(!json.at("kernels").empty());
  for (const char* key :
       {"name", "kind", "ms", "bytes", "bound", "roofline_share", "exchange_bytes"}) {
    CHECK(json.at("kernels").at(0).contains(key));
  }
}

TEST_CASE("a result file that cannot be written is a failure that names it") {
  CHECK_THAT(complaint("run sgd --set n=10 --iters 1 --json /nowhere/result.json"),
             Contains("Cannot write the file '/nowhere/result.json' of --json"));
}

TEST_CASE("doctor says what is here, and fails when no kernel can be compiled") {
  const std::string said = printed("doctor");
  for (const char* thing : {"host compiler", "MPI", "OpenBLAS", "NVRTC", "CUDA driver", "NCCL",
                            "cache", "shared memory"}) {
    CHECK_THAT(said, Contains(thing));
  }
  CHECK_THAT(said, Contains("The host path works."));
  CHECK_THAT(said, !Contains(" \n"));  // with which versions of libraries may end
  const Said broken = coconet_command("doctor", "COCONET_CXX=/nowhere/c++");
  CHECK(broken.code == 1);
  CHECK_THAT(broken.out, Contains("[!!] host compiler") && Contains("/nowhere/c++") &&
                             Contains("COCONET_CXX=/nowhere/c++"));
}

TEST_CASE("compile fills the cache that run then finds its kernels in") {
  const KernelDirectory kernels;
  const std::string command = "compile adam --schedule fused --ranks 2";
  CHECK_THAT(printed(command, kernels.variable()),
             StartsWith("adam_fused               host     compiled in ") &&
                 Contains(kernels.path().string() + ": 1 compiled, 0 in the cache already"));
  CHECK_THAT(coconet_command(command, kernels.variable()).out,
             Contains(": 0 compiled, 1 in the cache already"));
  const Said ran = coconet_command(
      "run adam --schedule fused --set n=100 --world local:2 --iters 1", kernels.variable());
  CHECK_THAT(ran.out, Contains("1 on disk, 0 from a peer, 0 compiled"));
  // Another number of ranks is another kernel.
  CHECK_THAT(coconet_command("compile adam --schedule fused --ranks 3", kernels.variable()).out,
             Contains(": 1 compiled, 0 in the cache already"));
}

TEST_CASE(
    "compile and explain --show kernels work for GPUs where NVRTC is, and say why not elsewhere") {
  require_usage_error("explain adam --show kernels --arch host",
                      "--show kernels is of GPUs; --arch is an architecture such as sm_90.");
  const KernelDirectory kernels;
  const std::string command = "compile adam --schedule fused --arch sm_90 --arch sm_100 --ranks 8";
  const Said said = coconet_command(command, kernels.variable());
  INFO(said.out << said.err);
  if (!coconet::jit::nvrtc::is_available()) {
    CHECK(said.code == 1);
    CHECK_THAT(said.err, Contains("NVRTC is not available: " + coconet::jit::nvrtc::version()));
    CHECK_THAT(coconet_command("explain adam --show kernels").err,
               Contains("NVRTC is not available"));
    return;
  }
  CHECK(said.code == 0);
  CHECK_THAT(said.out, Contains("sm_90 ") && Contains("sm_100") &&
                           Contains(" registers, 0 bytes spilled") &&
                           Contains(": 2 compiled, 0 in the cache already"));
  CHECK_THAT(coconet_command(command, kernels.variable()).out,
             Contains(": 0 compiled, 2 in the cache already"));
  CHECK_THAT(coconet_command("compile adam --arch sm_1", kernels.variable()).err,
             Contains("does not know the architecture 'sm_1'; it knows sm_"));

  const Said table =
      coconet_command("explain adam --schedule sliced --show kernels", "COCONET_ARCH=sm_100");
  CHECK_THAT(table.out, StartsWith("kernel ") && Contains("registers") && Contains("adam_slice ") &&
                            Contains(" sm_100 "));
}

TEST_CASE("compile refuses to run without a cache to fill") {
  CHECK_THAT(complaint("compile adam", "COCONET_CACHE=off"),
             Contains("COCONET_CACHE is 'off', so the cache cannot be filled; unset it"));
  CHECK_THAT(complaint("compile adam", "COCONET_CACHE_DIR=/proc/none"),
             Contains("the cache in '/proc/none' does not keep what is written to it"));
}

TEST_CASE("run takes a list of buffers, or makes one up, and reports the bytes of their tables") {
  CHECK_THAT(
      printed("run lamb --scattered --schedule fused --world local:2 --list n=5,1,300 --check"),
      Contains(", n = 306, n.buffers = 3\n") && Contains("tables of scattered tensors: ") &&
          Contains("check passed"));
  CHECK_THAT(printed("run sgd --scattered --set n=1000 --check"),
             Contains(", n = 1000\n") && Contains("check passed"));
  CHECK_THAT(coconet_command("run sgd --set n=1000 --check").out, !Contains("tables"));
}

TEST_CASE("an optimizer of the command line clips, scales, has groups and other master weights") {
  CHECK_THAT(printed("run adamw --schedule fused --world local:2 --set n=1000 --max-norm 1 "
                     "--max-value 0.5 --gradient-norm --loss-scaling --check"),
             Contains("check passed"));
  CHECK_THAT(printed("run adamw --scattered --groups --schedule fused --world local:2 --list "
                     "n=5,1,300 --check"),
             Contains("check passed"));
  const Said kept =
      coconet_command("explain adamw --dtype bf16 --master-weights remainders --show plan");
  CHECK_THAT(kept.out, Contains("remainder") && !Contains("master  "));
  CHECK(coconet_command("run adamw --dtype bf16 --master-weights remainders --schedule fused "
                        "--world local:2 --set n=1000 --check")
            .code == 0);
  CHECK_THAT(printed("run lion --dtype bf16 --master-weights none --schedule fused --world local:2 "
                     "--set n=1000 --check"),
             Contains("check passed") && Contains("bf16 with master weights (none), n ="));
}

TEST_CASE("the command line sets hyperparameters, and refuses wrong ones") {
  CHECK(coconet_command("run adamw --schedule fused --world local:2 --set n=1000 --check --hyper "
                        "beta2=0.95 --hyper weight_decay=0 --hyper amsgrad=1")
            .code == 0);
  const Said plan = coconet_command("explain adam --hyper amsgrad=1 --hyper beta2=0.96875");
  CHECK_THAT(plan.out, Contains("v_max") && Contains("0.96875"));
  CHECK_THAT(
      coconet_command("run adam --hyper beta3=0.9").err,
      Contains(
          "adam has no hyperparameter 'beta3'; it has beta1, beta2, eps, weight_decay, amsgrad"));
  CHECK_THAT(coconet_command("run adam --hyper beta2=1").err,
             Contains("adam: beta2 is 1; it must be in [0, 1)"));
  require_usage_error("run adam --hyper beta2=high", "--hyper beta2 takes a number, not 'high'.");
  require_usage_error("run adam --hyper beta2=0.9 --hyper beta2=0.8",
                      "--hyper gives 'beta2' twice.");
  require_usage_error("run adam --scalar lr=1 --scalar lr=2", "--scalar gives 'lr' twice.");
  CHECK_THAT(
      coconet_command("programs --hyper").out,
      Contains("adam beta2=0.999, in [0, 1)\n") && Contains("momentum_sgd nesterov=0, 0 or 1\n"));
}

TEST_CASE("options of optimizers are refused for what has none") {
  require_usage_error(
      "run mlp_block --max-norm 1",
      "--hyper, --max-norm, --max-value, --gradient-norm, --loss-scaling, --master-weights, "
      "--groups and --accumulation are for the optimizers that ship, not for mlp_block.");
  require_usage_error("run adam --dtype bf16 --master-weights half",
                      "--master-weights takes copy, remainders or none, not 'half'.");
  CHECK_THAT(coconet_command("run adam --master-weights none").err,
             Contains("mixed precision is for a model in f16 or bf16, not in f32"));
  CHECK_THAT(coconet_command("run adam --dtype f16 --master-weights none").err,
             Contains("master weights are kept as nothing beside a model in bf16, not in f16; keep "
                      "copies of them"));
}

TEST_CASE("a list that is none, or for a program without one, is a wrong command line") {
  require_usage_error("run adam --scattered --list n=5,x",
                      "--list n takes lengths such as 768,1,2^20, not '5,x'.");
  require_usage_error("run adam --scattered --list n", "--list takes NAME=VALUE, not 'n'.");
  require_usage_error("run adam --scattered --list n=5 --list n=6",
                      "--list gives the dimension 'n' twice.");
  require_usage_error("run mlp_block --scattered",
                      "--scattered is for the optimizers, whose parameters may lie in a list of "
                      "buffers, not for mlp_block.");
}
