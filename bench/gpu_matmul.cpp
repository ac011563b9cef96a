// A step that is one matmul against bare calls of cuBLASLt, which choose their algorithm as any
// application does.
#include "gpu_matmul.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "gpu_steps.h"
#include "gpu_timing.h"
#include "jit/comm/access.h"
#include "jit/platform/cuda/cublas.h"

namespace bench {

namespace {

using coconet::DType;

void require(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " +
                           coconet::jit::loaded_cublas().status_string(status));
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::f32 ? CUDA_R_32F : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_16BF;
}

/// x w of n x n matrices, as a step of ours.
class MatmulStep : public Contestant {
 public:
  MatmulStep(const coconet::World& world, Stopwatch& watch, std::int64_t n, DType dtype)
      : executable_(compile(world, n, dtype)) {
    executable_.use_stream(watch.queue().handle());
    for (const char* name : {"x", "w"}) {
      // Bits that are numbers of every dtype, and none of them large.
      const std::vector<std::byte> bits(executable_.count(name) * size_of(dtype), std::byte{0x2e});
      executable_.write(name, dtype, bits.data(), executable_.count(name));
    }
    step = [this] { executable_.run(); };
    wait = [this] { executable_.synchronize(); };
  }

 private:
  static coconet::Executable compile(const coconet::World& world, std::int64_t n, DType dtype) {
    coconet::Program program("products", coconet::Mesh::over(world));
    const coconet::Dim side = program.dim("n");
    const coconet::Value x = program.input("x", dtype, {side, side}, coconet::replicated);
    const coconet::Value w = program.input("w", dtype, {side, side}, coconet::replicated);
    program.output("y", coconet::matmul(x, w).named("y"));
    return coconet::compile(program, coconet::Schedule(), world, {{"n", n}});
  }

  coconet::Executable executable_;
};

/// The multiplication by the vendor's library alone.
class BareMatmul : public Contestant {
 public:
  BareMatmul(const coconet::World& world, Stopwatch& watch, std::int64_t n, DType dtype)
      : device_(device_of(coconet::jit::comm_of(world))), watch_(watch) {
    const coconet::jit::Platform& backend = backend_of(world);
    const coconet::jit::OnDevice current(device_);
    const auto side = static_cast<std::uint64_t>(n);
    for (auto& matrix : matrices_) matrix = backend.allocate(side * side * size_of(dtype));
    workspace_ = backend.allocate(workspace_bytes);
    const cudaDataType_t type = type_of(dtype);
    require(cublas_.create(&handle_), "cuBLASLt makes no handle");
    require(cublas_.descriptor_create(&descriptor_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "cuBLASLt makes no descriptor");
    require(cublas_.layout_create(&layout_, type, side, side, n), "cuBLASLt makes no layout");
    cublasLtMatmulPreference_t preference = nullptr;
    require(cublas_.preference_create(&preference), "cuBLASLt makes no preference");
    const std::uint64_t bytes = workspace_bytes;
    require(cublas_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                   sizeof bytes),
            "cuBLASLt takes no workspace");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    require(cublas_.heuristic(handle_, descriptor_, layout_, layout_, layout_, layout_, preference,
                              1, &found, &count),
            "cuBLASLt finds no algorithm");
    algorithm_ = found.algo;
    require(cublas_.preference_destroy(preference), "cuBLASLt keeps a preference");
    step = [this] { multiply(); };
  }
  BareMatmul(const BareMatmul&) = delete;
  BareMatmul& operator=(const BareMatmul&) = delete;
  ~BareMatmul() {
    cublas_.layout_destroy(layout_);
    cublas_.descriptor_destroy(descriptor_);
  }

 private:
  static constexpr std::size_t workspace_bytes = 32 << 20;

  void multiply() {
    const coconet::jit::OnDevice current(device_);
    const float one = 1, zero = 0;
    require(cublas_.matmul(handle_, descriptor_, &one, matrices_[0]->data(), layout_,
                           matrices_[1]->data(), layout_, &zero, matrices_[2]->data(), layout_,
                           matrices_[2]->data(), layout_, &algorithm_, workspace_->data(),
                           workspace_bytes, static_cast<cudaStream_t>(watch_.queue().handle())),
            "cuBLASLt does not multiply");
  }

  const coconet::jit::Cublas& cublas_ = coconet::jit::loaded_cublas();
  const coconet::jit::Device& device_;
  Stopwatch& watch_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t descriptor_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::shared_ptr<coconet::jit::Memory> matrices_[3];
  std::shared_ptr<coconet::jit::Memory> workspace_;
};

}  // namespace

void measure_matmul(bool small, Table& table) {
  if (const std::string problem = coconet::jit::loaded_cublas().problem; !problem.empty())
    return table.add_not_measured("matmul", "all", problem);
  const coconet::World world = coconet::World::self();
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t n :
         small ? std::vector<std::int64_t>{16} : std::vector<std::int64_t>{1024, 4096, 8192}) {
      Stopwatch watch(coconet::jit::comm_of(world), backend_of(world));
      MatmulStep ours(world, watch, n, dtype);
      BareMatmul bare(world, watch, n, dtype);
      watch.measure({&ours, &bare}, small ? 1 : 10);
      const std::string name(to_string(dtype));
      Row row = beside("matmul, " + name + ", one rank", "n=" + std::to_string(n), ours.ms,
                       "bare cuBLASLt", bare.ms, {{"dtype", name}, {"n", n}});
      row.target = at_least(row.ratio, 0.98);
      table.add(row);
    }
  }
}

}  // namespace bench
