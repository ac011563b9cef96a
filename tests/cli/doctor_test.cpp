// What `coconet doctor` says of GPUs, with stand-ins for the driver and NCCL.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/command.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/shared_library.h"

using Catch::Matchers::Contains;
using namespace coconet::test;

#if COCONET_HAS_STUBS

namespace {

const bool nvrtc_is_here = coconet::jit::nvrtc::is_available();

/// Another value of an environment variable, for as long as this lives.
class Changed {
 public:
  Changed(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;
  ~Changed() {
    if (before_) setenv(name_, before_->c_str(), 1);
    if (!before_) unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// What the doctor says where the stubs are the driver and NCCL.
std::string doctor(const std::string& environment = "") {
  return printed("doctor", "COCONET_CUDA_PATH='" COCONET_STUBS_DIR "' " + environment);
}

}  // namespace

TEST_CASE("a driver, its GPUs and NCCL are found in COCONET_CUDA_PATH") {
  const std::string said = doctor("STUB_CUDA_DEVICES=2 STUB_CUDA_VERSION=13010");
  CHECK_THAT(said,
             Contains("[ok] CUDA driver     CUDA 13.1, " COCONET_STUBS_DIR "/libcuda.so.1\n") &&
                 Contains("[ok] GPU             Stub 0, sm_90, 80.0 GiB\n") &&
                 Contains("[ok] GPU             Stub 1, sm_90, 80.0 GiB\n") &&
                 Contains("[ok] peer memory     between threads by plain pointers, between "
                          "processes by file descriptors\n") &&
                 Contains("[ok] NCCL            2.28.9, " COCONET_STUBS_DIR "/libnccl.so.2\n"));
  if (nvrtc_is_here) CHECK_THAT(said, Contains("The GPU path works, with COCONET_BACKEND=cuda.\n"));
  CHECK_THAT(doctor("STUB_CUDA_VMM=0"),
             Contains("[--] peer memory     GPU 0 cannot share memory by file descriptors\n"));
  CHECK_THAT(doctor("STUB_NCCL_VERSION=21805"), Contains("[ok] NCCL            2.18.5, "));
  CHECK_THAT(doctor("STUB_NCCL_VERSION=2708"),
             Contains("[--] NCCL            libnccl.so.2 is 2.7.8, and 2.14 or later is needed\n"));
}

TEST_CASE("a Python environment's packages are found after everything else") {
  const ScratchDirectory scratch;
  const std::filesystem::path& environment = scratch.path();
  const std::filesystem::path packages = "lib/python3.12/site-packages/nvidia";
  const std::filesystem::path nccl = environment / packages / "nccl/lib";
  const std::filesystem::path own = environment / packages / "cu13/lib";
  std::filesystem::create_directories(nccl);
  std::filesystem::create_directories(own);
  {
    const Changed active("VIRTUAL_ENV", environment.c_str());
    const Changed conda("CONDA_PREFIX", "/nowhere");
    const Changed path("PATH", "/nowhere/bin");
    const coconet::jit::Directories found = coconet::jit::cuda_directories();
    REQUIRE(found.size() >= 4);
    const auto last = found.end() - 4;
    CHECK(last[0] == "/usr/local/cuda/lib64");
    CHECK(last[1] == own);
    CHECK(last[2] == nccl);
    CHECK(last[3] == "/nowhere/lib");
  }
  // The python3 that is found first is enough.
  std::filesystem::create_directories(environment / "bin");
  std::filesystem::create_symlink("/usr/bin/python3", environment / "bin/python3");
  std::filesystem::create_symlink(COCONET_STUBS_DIR "/libcuda.so.1", own / "libcuda.so.1");
  const std::string said =
      coconet_command("doctor", "PATH='" + (environment / "bin").string() + ":'\"$PATH\"").out;
  // Where the machine has a driver, that one comes first.
  if (said.find("/libcuda.so.1") == std::string::npos ||
      said.find(environment.string()) != std::string::npos) {
    CHECK_THAT(said,
               Contains("[ok] CUDA driver     CUDA 13.0, " + own.string() + "/libcuda.so.1\n"));
  }
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
             Contains("[--] GPU             Stub 0, sm_35, 80.0 GiB; NVRTC compiles for sm_") &&
                 Contains(" and newer; kernels need sm_70 or newer"));
}

TEST_CASE("a file that is no library is told by its path") {
  const ScratchDirectory scratch;
  const std::filesystem::path& directory = scratch.path();
  write_file(directory / "libnccl.so.2", "no library");
  write_file(directory / "libcuda.so.1", "no library");
  const std::string said =
      coconet_command("doctor", "COCONET_CUDA_PATH='/nowhere:" + directory.string() + "'").out;
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
  CHECK_THAT(printed("doctor"),
             Contains("[--] CUDA driver     this library was built without CUDA") &&
                 Contains("without it: no GPU is used; the host backend remains"));
}

#endif

TEST_CASE("the cores that a rank spreads its kernels over are told") {
  CHECK_THAT(printed("doctor", "COCONET_CORES=3"), Contains("spreads them over 3 of "));
  // Where a launcher has started more processes than there are cores, each may be a world.
  CHECK_THAT(printed("doctor",
                     "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4096 "
                     "OMPI_COMM_WORLD_LOCAL_SIZE=4096"),
             Contains("spreads them over 1 of "));
}
