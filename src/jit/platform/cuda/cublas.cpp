// Matmuls by cuBLASLt, found at run time. Its matrices are column-major; ours are row-major, so it
// is asked for b' a' = (a b)'.
#include "jit/platform/cuda/cublas.h"

#include <fmt/format.h>

#include <array>
#include <mutex>

#include "coconet/error.h"
#include "jit/platform/cuda/facts.h"
#include "jit/platform/cuda/libraries.h"

namespace coconet::jit {

namespace {

/// What NVIDIA recommends for its newest GPUs.
constexpr std::size_t most_workspace = 32 << 20;

/// Greater alignments are all the same.
constexpr std::uint32_t most_alignment = 256;

// The header's types are those of one major version.
constexpr const char* file_name = CUBLAS_VER_MAJOR >= 13   ? "libcublasLt.so.13"
                                  : CUBLAS_VER_MAJOR == 12 ? "libcublasLt.so.12"
                                                           : "libcublasLt.so.11";

Cublas load_cublas() {
  Cublas cublas;
  const SharedLibrary file({file_name});
  cublas.file = file.file();
  cublas.problem = find_functions(cublas, file, file_name);
  if (cublas.problem.empty()) {
    const std::size_t number = cublas.get_version();  // major * 10000 + minor * 100 + patch
    cublas.version = fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
  }
  return cublas;
}

/// cuBLASLt's names for how a dtype is stored, and what it is summed in.
struct Types {
  cudaDataType_t stored;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

/// By DType, whose first values are the floats.
constexpr Types cublas_types[] = {{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F},
                                  {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                                  {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                                  {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F}};

const Types& types_of(DType dtype) {
  if (!is_float(dtype)) throw InternalError(fmt::format("a matmul of {}", to_string(dtype)));
  return cublas_types[static_cast<std::size_t>(dtype)];
}

/// The library's handle on `device`, which stays to the end of the process.
cublasLtHandle_t handle_on(const Device& device, const std::string& matmul) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device.ordinal];
  if (handle == nullptr) {
    const OnDevice on(device);
    if (const cublasStatus_t status = loaded_cublas().create(&handle);
        status != CUBLAS_STATUS_SUCCESS) {
      handle = nullptr;
      throw BackendError(
          fmt::format("matmul '{}' cannot run on {}: cuBLASLt cannot be used there: {}", matmul,
                      device.name, loaded_cublas().status_string(status)));
    }
  }
  return handle;
}

std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | most_alignment;
  return static_cast<std::uint32_t>(bits & -bits);
}

/// Elements from each matrix to the next; -1 where these distances differ.
std::int64_t stride_of(const std::vector<std::int64_t>& matrices) {
  if (matrices.size() < 2) return 0;
  const std::int64_t stride = matrices[1] - matrices[0];
  for (std::size_t i = 2; i < matrices.size(); ++i) {
    if (matrices[i] - matrices[i - 1] != stride) return -1;
  }
  return stride;
}

class CublasMatmul final : public LibraryMatmul {
 public:
  CublasMatmul(const Platform& platform, const Device& device, MatmulShape matmul)
      : platform_(platform),
        device_(device),
        matmul_(std::move(matmul)),
        types_(types_of(matmul_.dtype)),
        handle_(handle_on(device_, matmul_.name)),
        even_(stride_of(matmul_.a.matrices) >= 0 && stride_of(matmul_.b.matrices) >= 0 &&
              stride_of(matmul_.out.matrices) >= 0) {
    if (!matmul_.is_empty()) descriptor_ = make_descriptor();
  }

  void enqueue(Queue& queue, const MatmulTensors& tensors, std::int64_t begin,
               std::int64_t end) override {
    const MatmulShape& p = matmul_;
    const std::size_t size = size_of(p.dtype);
    const auto at = [&](auto* tensor, std::int64_t element) {
      return tensor + static_cast<std::size_t>(element) * size;
    };
    if (p.terms == 0) {  // this rank's slice of what is contracted is empty
      const auto row_bytes = static_cast<std::size_t>(p.columns) * size;
      p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count) {
        if (!p.has_bias && p.out.row == p.columns)
          return queue.zero(at(tensors.out, p.out.at(matrix, first)), row_bytes * count);
        for (std::int64_t row = first; row < first + count; ++row) {
          std::byte* const to = at(tensors.out, p.out.at(matrix, row));
          if (p.has_bias) {
            queue.copy(to, at(tensors.bias, p.first_of_bias), row_bytes);
          } else {
            queue.zero(to, row_bytes);
          }
        }
      });
      return;
    }
    const OnDevice on(device_);
    // The library adds element i to row i of its result, which is column i of ours.
    if (p.has_bias) {
      set(descriptor_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, at(tensors.bias, p.first_of_bias),
          "takes no bias");
    }
    if (end - begin == p.all_rows() && even_) {
      multiply(queue, shape_for(p.rows, static_cast<int>(p.a.matrices.size())),
               at(tensors.a, p.a.matrices[0]), at(tensors.b, p.b.matrices[0]),
               at(tensors.out, p.out.matrices[0]));
      return;
    }
    p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count) {
      multiply(queue, shape_for(count, 1), at(tensors.a, p.a.at(matrix, first)),
               at(tensors.b, p.b.matrices[matrix]), at(tensors.out, p.out.at(matrix, first)));
    });
  }

 private:
  // The library's objects go with their last owner.
  using Descriptor = std::shared_ptr<cublasLtMatmulDescOpaque_t>;
  using Layout = std::shared_ptr<cublasLtMatrixLayoutOpaque_t>;
  /// What the library's heuristics choose for pointers of some alignment.
  struct Way {
    cublasLtMatmulAlgo_t algorithm;
    std::shared_ptr<Memory> workspace;
    std::size_t workspace_bytes = 0;
  };
  using Alignments = std::array<std::uint32_t, 3>;
  /// What a call multiplies: so many rows of each of so many matrices.
  struct Shape {
    Layout a, b, out;
    std::map<Alignments, Way> ways;
  };

  void check(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw BackendError(fmt::format("matmul '{}' cannot run on {}: cuBLASLt {}: {}", matmul_.name,
                                   device_.name, what, cublas_.status_string(status)));
  }

  Descriptor make_descriptor() const {
    cublasLtMatmulDesc_t made = nullptr;
    check(cublas_.descriptor_create(&made, types_.compute, types_.scale), "makes no descriptor");
    const Descriptor descriptor(made, cublas_.descriptor_destroy);
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(made, CUBLASLT_MATMUL_DESC_TRANSA, operation(matmul_.b.transposed),
        "takes no transposition");
    set(made, CUBLASLT_MATMUL_DESC_TRANSB, operation(matmul_.a.transposed),
        "takes no transposition");
    if (matmul_.has_bias)
      set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, "adds no bias");
    return descriptor;
  }

  template <class Value>
  void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, Value value,
           const char* refusal) const {
    check(cublas_.descriptor_set(descriptor, attribute, &value, sizeof value), refusal);
  }

  /// Of `batch` matrices of `height` rows, which are `row` elements apart.
  Layout make_layout(std::int64_t height, std::int64_t width, std::int64_t row, int batch,
                     std::int64_t stride) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(
        cublas_.layout_create(&made, types_.stored, width, height, std::max<std::int64_t>(row, 1)),
        "makes no layout");
    const Layout layout(made, cublas_.layout_destroy);
    check(cublas_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
          "takes no batch");
    check(cublas_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                             sizeof stride),
          "takes no stride of a batch");
    return layout;
  }

  Shape& shape_for(std::int64_t rows, int batch) {
    Shape& shape = shapes_[{rows, batch}];
    if (shape.out) return shape;
    const MatmulShape& p = matmul_;
    const auto operand = [&](const MatmulShape::Operand& side, std::int64_t height,
                             std::int64_t width) {
      if (side.transposed) std::swap(height, width);
      return make_layout(height, width, side.row, batch, stride_of(side.matrices));
    };
    shape.a = operand(p.a, rows, p.terms);
    shape.b = operand(p.b, p.terms, p.columns);
    shape.out = operand(p.out, rows, p.columns);
    return shape;
  }

  const Way& way_for(Shape& shape, const Alignments& alignments) {
    const auto known = shape.ways.find(alignments);
    if (known != shape.ways.end()) return known->second;
    cublasLtMatmulPreference_t made = nullptr;
    check(cublas_.preference_create(&made), "makes no preference");
    const std::shared_ptr<cublasLtMatmulPreferenceOpaque_t> preference(made,
                                                                       cublas_.preference_destroy);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublas_.preference_set(made, attribute, &value, sizeof value), "takes no preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
    // For the library, b comes first.
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[1]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[0]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check(cublas_.heuristic(handle_, descriptor_.get(), shape.b.get(), shape.a.get(),
                            shape.out.get(), shape.out.get(), made, 1, &found, &count),
          "finds no algorithm");
    if (count == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, "finds no algorithm");
    Way way{found.algo, nullptr, found.workspaceSize};
    if (way.workspace_bytes > 0) way.workspace = platform_.allocate(way.workspace_bytes);
    return shape.ways.emplace(alignments, std::move(way)).first->second;
  }

  void multiply(Queue& queue, Shape& shape, const std::byte* a, const std::byte* b,
                std::byte* out) {
    const Way& way = way_for(shape, {alignment_of(a), alignment_of(b), alignment_of(out)});
    const double one = 1, zero = 0;
    const float one_of_f32 = 1, zero_of_f32 = 0;
    const bool doubles = types_.scale == CUDA_R_64F;
    check(cublas_.matmul(handle_, descriptor_.get(),
                         doubles ? static_cast<const void*>(&one) : &one_of_f32, b, shape.b.get(),
                         a, shape.a.get(), doubles ? static_cast<const void*>(&zero) : &zero_of_f32,
                         out, shape.out.get(), out, shape.out.get(), &way.algorithm,
                         way.workspace ? way.workspace->data() : nullptr, way.workspace_bytes,
                         static_cast<cudaStream_t>(queue.handle())),
          "does not multiply");
  }

  const Cublas& cublas_ = loaded_cublas();
  const Platform& platform_;
  const Device& device_;
  const MatmulShape matmul_;
  const Types types_;
  cublasLtHandle_t handle_;
  /// Whether the matrices of each operand are evenly spaced, so that one call takes them all.
  bool even_;
  Descriptor descriptor_;
  std::map<std::pair<std::int64_t, int>, Shape> shapes_;  ///< by rows and matrices
};

}  // namespace

const Cublas& loaded_cublas() {
  static const Cublas loaded = load_cublas();
  return loaded;
}

LibraryFacts cublas_facts() {
  return loaded_cublas();
}

std::unique_ptr<LibraryMatmul> make_cublas_matmul(const Platform& platform, const Device& device,
                                                  MatmulShape matmul) {
  if (const std::string& problem = loaded_cublas().problem; !problem.empty()) {
    throw BackendError(fmt::format(
        "matmul '{}' cannot run on GPUs without cuBLASLt: {}; install it, name its directory with "
        "COCONET_CUDA_PATH, or use COCONET_BACKEND=host",
        matmul.name, problem));
  }
  return std::make_unique<CublasMatmul>(platform, device, std::move(matmul));
}

}  // namespace coconet::jit
