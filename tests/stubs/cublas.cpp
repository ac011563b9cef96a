// A stand-in for cuBLASLt over the emulated driver: operations of streams that multiply in double
// and round once. It takes what this library asks for and refuses the rest.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "cuda/control.h"

#define STUB_CUBLAS extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<int> ordered_failure = 0;  // of the next heuristic

struct Descriptor {
  cudaDataType_t scale;
  cublasOperation_t transposed[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const char* bias = nullptr;
};
struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};

Descriptor& of(cublasLtMatmulDesc_t handle) {
  return *reinterpret_cast<Descriptor*>(handle);
}
Layout& of(cublasLtMatrixLayout_t handle) {
  return *reinterpret_cast<Layout*>(handle);
}

std::size_t width_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    default:
      return 0;
  }
}

template <class T>
T read_as(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
double read(const char* at, cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return read_as<double>(at);
    case CUDA_R_32F:
      return static_cast<double>(read_as<float>(at));
    case CUDA_R_16F:
      return static_cast<double>(__half2float(read_as<__half>(at)));
    default:
      return static_cast<double>(__bfloat162float(read_as<__nv_bfloat16>(at)));
  }
}

template <class T>
void write_as(char* at, const T& value) {
  std::memcpy(at, &value, sizeof value);
}
void write(char* at, cudaDataType_t type, double value) {
  switch (type) {
    case CUDA_R_64F:
      return write_as(at, value);
    case CUDA_R_32F:
      return write_as(at, static_cast<float>(value));
    case CUDA_R_16F:
      return write_as(at, __double2half(value));
    default:
      return write_as(at, __double2bfloat16(value));
  }
}

/// A matrix of a batch, with its places in memory.
struct Operand {
  const char* data;
  Layout layout;
  bool transposed;

  [[nodiscard]] std::size_t place(std::int64_t matrix, std::uint64_t row,
                                  std::uint64_t column) const {
    if (transposed) std::swap(row, column);
    return static_cast<std::size_t>(matrix * layout.stride + static_cast<std::int64_t>(row) +
                                    static_cast<std::int64_t>(column) * layout.leading) *
           width_of(layout.type);
  }
  /// Bytes from the first element to the last one's end.
  [[nodiscard]] std::size_t bytes() const {
    const std::uint64_t rows = transposed ? layout.columns : layout.rows;
    const std::uint64_t columns = transposed ? layout.rows : layout.columns;
    return place(layout.batch - 1, rows - 1, columns - 1) + width_of(layout.type);
  }
};

struct Product {
  Operand a, b, out;
  std::uint64_t terms;
  int device;
  const char* bias;  ///< f32, one for each row; null: there is none
};

template <class Function>
Function* driver_function(const char* name) {
  return reinterpret_cast<Function*>(
      dlsym(dlopen("libstub_cuda.so", RTLD_NOW | RTLD_NOLOAD), name));
}

int run(void* data) {
  const Product& product = *static_cast<Product*>(data);
  const auto alias = driver_function<decltype(stub_cuda_alias)>("stub_cuda_alias");
  const auto reach = [&](const Operand& operand) {
    return static_cast<char*>(alias(operand.data, operand.bytes(), product.device));
  };
  const char* const a = reach(product.a);
  const char* const b = reach(product.b);
  char* const out = reach(product.out);
  const Layout& shape = product.out.layout;
  const char* const bias = product.bias == nullptr
                               ? nullptr
                               : static_cast<const char*>(alias(
                                     product.bias, shape.rows * sizeof(float), product.device));
  const bool biased = product.bias != nullptr;
  if (a == nullptr || b == nullptr || out == nullptr || (biased && bias == nullptr))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (std::int32_t matrix = 0; matrix < shape.batch; ++matrix) {
    for (std::uint64_t row = 0; row < shape.rows; ++row) {
      for (std::uint64_t column = 0; column < shape.columns; ++column) {
        double total = 0;
        for (std::uint64_t k = 0; k < product.terms; ++k) {
          total += read(a + product.a.place(matrix, row, k), product.a.layout.type) *
                   read(b + product.b.place(matrix, k, column), product.b.layout.type);
        }
        if (biased) {
          total = static_cast<double>(static_cast<float>(total)) +
                  read(bias + row * sizeof(float), CUDA_R_32F);
        }
        write(out + product.out.place(matrix, row, column), shape.type, total);
      }
    }
  }
  return CUDA_SUCCESS;
}

void drop(void* data) {
  const std::unique_ptr<Product> owned(static_cast<Product*>(data));
}

}  // namespace

/// For tests: the next search for an algorithm gives `status`.
STUB_CUBLAS void stub_cublas_fail(int status) {
  ordered_failure = status;
}

STUB_CUBLAS std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
STUB_CUBLAS const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "success"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "the stub does not support that"
                                                 : "the stub was asked for something wrong";
}
STUB_CUBLAS cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const auto ask = driver_function<decltype(cuCtxGetDevice)>("cuCtxGetDevice");
  int device = -1;
  if (ask == nullptr || ask(&device) != CUDA_SUCCESS) return CUBLAS_STATUS_NOT_INITIALIZED;
  static char handles[64];
  *handle = reinterpret_cast<cublasLtHandle_t>(&handles[device]);
  return CUBLAS_STATUS_SUCCESS;
}

STUB_CUBLAS cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle,
                                                    cublasComputeType_t, cudaDataType_t scale) {
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(
      std::make_unique<Descriptor>(Descriptor{scale}).release());
  return CUBLAS_STATUS_SUCCESS;
}
STUB_CUBLAS cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  const std::unique_ptr<Descriptor> owned(&of(handle));
  return CUBLAS_STATUS_SUCCESS;
}
STUB_CUBLAS cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                                          cublasLtMatmulDescAttributes_t attribute,
                                                          const void* value, std::size_t size) {
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE && size == sizeof(cublasLtEpilogue_t)) {
    std::memcpy(&of(handle).epilogue, value, size);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER && size == sizeof(const char*)) {
    std::memcpy(&of(handle).bias, value, size);
    return CUBLAS_STATUS_SUCCESS;
  }
  const bool a = attribute == CUBLASLT_MATMUL_DESC_TRANSA;
  if ((!a && attribute != CUBLASLT_MATMUL_DESC_TRANSB) || size != sizeof(cublasOperation_t))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  std::memcpy(&of(handle).transposed[a ? 0 : 1], value, size);
  return CUBLAS_STATUS_SUCCESS;
}

STUB_CUBLAS cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle,
                                                      cudaDataType_t type, std::uint64_t rows,
                                                      std::uint64_t columns, std::int64_t leading) {
  if (width_of(type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (leading < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(
      std::make_unique<Layout>(Layout{type, rows, columns, leading}).release());
  return CUBLAS_STATUS_SUCCESS;
}
STUB_CUBLAS cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  const std::unique_ptr<Layout> owned(&of(handle));
  return CUBLAS_STATUS_SUCCESS;
}
STUB_CUBLAS cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
    std::size_t size) {
  Layout& layout = of(handle);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == sizeof layout.batch) {
    std::memcpy(&layout.batch, value, size);
  } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET &&
             size == sizeof layout.stride) {
    std::memcpy(&layout.stride, value, size);
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

STUB_CUBLAS cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(std::make_unique<int>(0).release());
  return CUBLAS_STATUS_SUCCESS;
}
STUB_CUBLAS cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  const std::unique_ptr<int> owned(reinterpret_cast<int*>(handle));
  return CUBLAS_STATUS_SUCCESS;
}
STUB_CUBLAS cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t attribute, const void*,
    std::size_t size) {
  const bool bytes = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  return size == (bytes ? sizeof(std::uint64_t) : sizeof(std::uint32_t))
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

STUB_CUBLAS cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int requested,
    cublasLtMatmulHeuristicResult_t results[], int* returned) {
  if (const int status = ordered_failure.exchange(0); status != 0)
    return static_cast<cublasStatus_t>(status);
  constexpr std::size_t workspace = 1024;
  *returned = requested;  // which the caller has room for
  for (int i = 0; i < requested; ++i) {
    results[i] = {};
    results[i].workspaceSize = workspace;
  }
  return CUBLAS_STATUS_SUCCESS;
}

STUB_CUBLAS cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, const void*, const void* a,
    cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void*,
    const void*, cublasLtMatrixLayout_t, void* out, cublasLtMatrixLayout_t out_layout,
    const cublasLtMatmulAlgo_t*, void* workspace, std::size_t, cudaStream_t stream) {
  const auto operand = [](const void* data, cublasLtMatrixLayout_t layout,
                          cublasOperation_t transposed) {
    return Operand{static_cast<const char*>(data), of(layout), transposed != CUBLAS_OP_N};
  };
  const Descriptor& how = of(descriptor);
  Product product{operand(a, a_layout, how.transposed[0]),
                  operand(b, b_layout, how.transposed[1]),
                  operand(out, out_layout, CUBLAS_OP_N),
                  0,
                  0,
                  nullptr};
  const bool biased = how.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if ((!biased && how.epilogue != CUBLASLT_EPILOGUE_DEFAULT) ||
      (biased && (how.bias == nullptr || product.out.layout.type != CUDA_R_32F)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (biased) product.bias = how.bias;
  const auto size = [](const Operand& side, bool rows) {
    return rows != side.transposed ? side.layout.rows : side.layout.columns;
  };
  product.terms = size(product.a, false);
  const bool fits = size(product.b, true) == product.terms &&
                    size(product.a, true) == product.out.layout.rows &&
                    size(product.b, false) == product.out.layout.columns;
  if (!fits || workspace == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto ask = driver_function<decltype(cuCtxGetDevice)>("cuCtxGetDevice");
  const auto enqueue = driver_function<decltype(stub_cuda_enqueue)>("stub_cuda_enqueue");
  if (enqueue == nullptr || ask(&product.device) != CUDA_SUCCESS)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  const CUresult result =
      enqueue(stream, "cublasLtMatmul", 1, run, drop, std::make_unique<Product>(product).release());
  return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
