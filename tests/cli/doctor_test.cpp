// What `coconet doctor` says of GPUs, with stand-ins for the driver and NCCL.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/command.h"
#include "jit/platform/cuda/nvrtc.h"

using Catch::Matchers::Contains;
using coconet::test::coconet_command;

#if COCONET_HAS_STUBS

namespace {

const bool nvrtc_is_here = coconet::jit::nvrtc::is_available();

/// What the doctor says where the stubs are the driver and NCCL.
std::string doctor(const std::string& environment = "") {
  const auto said =
      coconet_command("doctor", "COCONET_CUDA_PATH='" COCONET_STUBS_DIR "' " + environment);
  CHECK(said.code == 0);
  return said.out;
}

}  // namespace

TEST_CASE("a driver, its GPUs and NCCL are found in COCONET_CUDA_PATH") {
  const std::string said = doctor("STUB_CUDA_DEVICES=2 STUB_CUDA_VERSION=13010");
  CHECK_THAT(said, Contains("[ok] CUDA driver     CUDA 13.1\n") &&
                       Contains("[ok] GPU             Stub 0, sm_90, 80.0 GiB\n") &&
                       Contains("[ok] GPU             Stub 1, sm_90, 80.0 GiB\n") &&
                       Contains("[ok] peer memory     between threads by plain pointers, between "
                                "processes by file descriptors\n") &&
                       Contains("[ok] NCCL            2.28.9\n"));
  if (nvrtc_is_here) CHECK_THAT(said, Contains("The GPU path works, with COCONET_BACKEND=cuda.\n"));
  CHECK_THAT(doctor("STUB_CUDA_VMM=0"),
             Contains("[--] peer memory     GPU 0 cannot share memory by file descriptors\n"));
  CHECK_THAT(doctor("STUB_NCCL_VERSION=21805"), Contains("[ok] NCCL            2.18.5\n"));
  CHECK_THAT(doctor("STUB_NCCL_VERSION=2708"),
             Contains("[--] NCCL            libnccl.so.2 is 2.7.8, and 2.14 or later is needed\n"));
}

TEST_CASE("whether GPUs have multicast is told") {
  CHECK_THAT(doctor("STUB_CUDA_DEVICES=2 STUB_CUDA_MULTICAST=1"),
             Contains("[ok] multicast       of all GPUs: the algorithm multimem runs with a rank a "
                      "GPU\n"));
  CHECK_THAT(doctor("STUB_CUDA_MULTICAST=1"),
             Contains("[ok] multicast       of the GPU: the algorithm multimem takes two or "
                      "more\n"));
  CHECK_THAT(doctor(), Contains("[--] multicast       GPU 0 has none\n") &&
                           Contains("no kernels with the algorithm multimem; direct, ring and tree "
                                    "remain"));
}

TEST_CASE("a driver without a GPU says why there is none") {
  CHECK_THAT(doctor("STUB_CUDA_DEVICES=0"),
             Contains("[--] GPU             the driver sees none\n") &&
                 Contains("The GPU path is off: see [--].\n"));
  CHECK_THAT(doctor("STUB_CUDA_INIT=100"),
             Contains("[--] GPU             the driver reports CUDA_ERROR_NO_DEVICE\n"));
  CHECK_THAT(doctor("STUB_CUDA_INIT=999"),
             Contains("[--] GPU             the driver reports error 999\n"));
}

TEST_CASE(
    "a driver that is older than NVRTC, and a GPU that it does not know, are told with the cure") {
  if (!nvrtc_is_here) return;
  CHECK_THAT(doctor("STUB_CUDA_VERSION=11080"),
             Contains("[--] CUDA driver     CUDA 11.8, which cannot load what NVRTC") &&
                 Contains("pip install nvidia-cuda-nvrtc-cu11 and name the directory of its "
                          "libnvrtc.so.11 with COCONET_CUDA_PATH"));
  CHECK_THAT(doctor("STUB_CUDA_ARCH=35"),
             Contains("[--] GPU             Stub 0, sm_35, 80.0 GiB, for which NVRTC ") &&
                 Contains(" does not compile"));
}

TEST_CASE("a file that is no library is told by its path") {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / (std::to_string(getpid()) + ".libraries");
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "libnccl.so.2") << "no library";
  std::ofstream(directory / "libcuda.so.1") << "no library";
  const std::string said =
      coconet_command("doctor", "COCONET_CUDA_PATH='/nowhere:" + directory.string() + "'").out;
  std::filesystem::remove_all(directory);
  // Where the machine has the real ones, those are found next.
  if (said.find("[ok] NCCL") == std::string::npos) {
    CHECK_THAT(said, Contains("[--] NCCL            " + directory.string() + "/libnccl.so.2: "));
  }
  if (said.find("[ok] CUDA driver") == std::string::npos) {
    CHECK_THAT(said, Contains("[--] CUDA driver     " + directory.string() + "/libcuda.so.1: ") &&
                         Contains("without it: no GPU is used; the host backend remains"));
  }
}

#else

TEST_CASE("a build without CUDA says so, and that the host remains") {
  const auto said = coconet_command("doctor");
  CHECK(said.code == 0);
  CHECK_THAT(said.out, Contains("[--] CUDA driver     this library was built without CUDA") &&
                           Contains("without it: no GPU is used; the host backend remains"));
}

#endif
