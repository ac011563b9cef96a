// What the command says when GPUs are asked for and something is missing, on the emulated driver.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "cli/command.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using coconet::test::coconet_command;
using coconet::test::printed;
using coconet::test::ScratchDirectory;

namespace {

const std::string cuda = "COCONET_BACKEND=cuda ";
const std::string emulated =
    cuda + "COCONET_CUDA_PATH='" COCONET_STUBS_DIR ":" COCONET_STUBS_DIR "/nvrtc' ";

/// What a run that must fail says.
std::string run_error(const std::string& arguments, const std::string& environment) {
  return coconet::test::complaint("run " + arguments, environment);
}

}  // namespace

TEST_CASE("without a driver the sentence says so and how to go on") {
  // Where the machine has a driver, this is not the test's to say.
  if (coconet_command("doctor", "").out.find("[ok] CUDA driver") != std::string::npos) return;
  const std::string said = run_error("adam --schedule fused --set n=10", cuda);
  if (said.find("built without CUDA") == std::string::npos) {
    CHECK_THAT(said, StartsWith("coconet: there is no CUDA driver to use: ") &&
                         Contains("install NVIDIA's driver") &&
                         Contains("or set COCONET_BACKEND=host"));
  } else {
    CHECK_THAT(said, Contains("build it where cuda.h and nvrtc.h are"));
  }
}

#if COCONET_HAS_STUBS

TEST_CASE("shipped programs run and pass their check") {
  for (const char* run :
       {"adam --schedule fused --world local:4", "sgd --schedule sliced --world local:3",
        "adamw --schedule unfused", "momentum_sgd --schedule fused --dtype bf16"}) {
    CHECK_THAT(printed("run " + std::string(run) + " --set n=1000 --check", emulated),
               Contains("check passed"));
  }
}

TEST_CASE("an unfused schedule needs neither NCCL's windows nor memory that GPUs share") {
  for (const char* const lacks : {"STUB_NCCL_VERSION=22602", "STUB_CUDA_VMM=0"}) {
    CHECK_THAT(printed("run attention_block --schedule unfused --world local:2 --set B=1 --set S=8 "
                       "--set H=8 --check",
                       emulated + "STUB_CUDA_DEVICES=2 " + lacks),
               Contains("check passed"));
  }
}

TEST_CASE("a run finds what was compiled for its GPU before") {
  const ScratchDirectory cache;
  const std::string with_cache = emulated + "COCONET_CACHE_DIR='" + cache.path().string() + "'";
  CHECK_THAT(printed("compile adam --schedule sliced --arch sm_90 --ranks 1", with_cache),
             Contains("1 compiled, 0 in the cache already"));
  CHECK_THAT(printed("run adam --schedule sliced --set n=100", with_cache),
             Contains("kernel cache: 0 in memory, 1 on disk, 0 from a peer, 0 compiled"));
}

TEST_CASE("a GPU that is newer than NVRTC gets what NVRTC knows, and the log says so once") {
  const ScratchDirectory cache;
  const auto run_on = [&](const std::string& arch) {
    const auto said = coconet_command(
        "run adam --schedule fused --world local:2 --set n=100 --check",
        emulated + "STUB_CUDA_ARCH=" + arch + " COCONET_CACHE_DIR='" + cache.path().string() + "'");
    INFO(said.out << said.err);
    CHECK(said.code == 0);
    CHECK_THAT(said.out, Contains("check passed"));
    CHECK(std::ranges::count(said.err, '\n') == (arch == "100" ? 0 : 1));
    return said.out + said.err;
  };
  CHECK_THAT(
      run_on("103"),
      Contains("NVRTC does not know sm_103; kernels are those for sm_100 (Stub 0, GPU 0); name the "
               "directory of a newer libnvrtc with COCONET_CUDA_PATH for its own") &&
          Contains(" 1 compiled"));
  CHECK_THAT(run_on("110"),
             Contains("NVRTC does not know sm_110; kernels are PTX for compute_100, which the "
                      "driver compiles when it loads them (Stub 0, GPU 0)") &&
                 Contains(" 1 compiled"));
  CHECK_THAT(run_on("100"), Contains(" 1 on disk, 0 from a peer, 0 compiled"));
  CHECK_THAT(coconet_command("doctor", emulated + "STUB_CUDA_ARCH=110").out,
             Contains("[ok] GPU             Stub 0, sm_110, 80.0 GiB; NVRTC does not know sm_110; "
                      "kernels are PTX for compute_100"));
  CHECK_THAT(run_error("adam --schedule fused --set n=10", emulated + "COCONET_ARCH=sm_80"),
             Contains("cannot be loaded on Stub 0, GPU 0, sm_90: the driver reports "
                      "CUDA_ERROR_NO_BINARY_FOR_GPU"));
}

TEST_CASE("what is missing or too old is told, with the cure") {
  const std::string adam = "adam --schedule fused --set n=10";
  CHECK_THAT(
      run_error(adam, emulated + "STUB_CUDA_VERSION=11080"),
      Contains("there is no CUDA driver to use: it is for CUDA 11.8, and 12.0 or later is needed"));
  CHECK_THAT(run_error(adam, emulated + "STUB_CUDA_INIT=100"),
             Contains("no GPU can be used: the driver reports CUDA_ERROR_NO_DEVICE; check "
                      "nvidia-smi and CUDA_VISIBLE_DEVICES"));
  CHECK_THAT(run_error(adam, emulated + "STUB_CUDA_DEVICES=0"),
             Contains("the CUDA driver shows no GPU to this process"));
  CHECK_THAT(run_error(adam, emulated + "STUB_CUDA_ARCH=35"),
             Contains("no kernel can be compiled for Stub 0, GPU 0, sm_35: NVRTC 13.0 compiles for "
                      "sm_75 and newer; kernels need sm_70 or newer; or set COCONET_BACKEND=host"));
  CHECK_THAT(run_error(adam, emulated + "STUB_CUDA_ARCH=72"),
             Contains("NVRTC 13.0 compiles for sm_75 and newer; that of CUDA 12 compiles for it: "
                      "pip install nvidia-cuda-nvrtc-cu12 and name the directory of its "
                      "libnvrtc.so.12 with COCONET_CUDA_PATH"));
  CHECK_THAT(run_error(adam, emulated + "COCONET_CACHE=off STUB_CUDA_FAIL=cuLibraryLoadData:0:222"),
             Contains("kernel 'adam_fused_kernel' cannot be loaded on Stub 0, GPU 0, sm_90: the "
                      "driver reports CUDA_ERROR_UNSUPPORTED_PTX_VERSION") &&
                 Contains("an NVRTC that is newer than this driver, of CUDA 13.0"));
  CHECK_THAT(
      run_error("adam --schedule fused --world local:2 --set n=10", emulated + "STUB_CUDA_VMM=0"),
      Contains("Stub 0, GPU 0 cannot share memory by file descriptors, which fused kernels of "
               "several ranks need; use the schedule 'unfused'"));
  CHECK_THAT(
      run_error("adam --schedule fused --set n=2^26", emulated + "STUB_CUDA_MEMORY=33554432"),
      Contains("Stub 0, GPU 0 has no room for 256 MiB of tensors: ") &&
          Contains(" of its 32 MiB are free"));
  CHECK_THAT(run_error("adam --schedule unfused --world local:2 --set n=10",
                       emulated + "STUB_CUDA_DEVICES=2 STUB_NCCL_VERSION=2708"),
             Contains("library collective 'avg' needs NCCL, and there is none to use: libnccl.so.2 "
                      "is 2.7.8, and 2.14 or later is needed"));
  CHECK_THAT(run_error(adam, "COCONET_BACKEND=gpu"),
             Contains("COCONET_BACKEND is 'gpu'; it takes host or cuda"));
}

#endif
