// cuBLASLt's functions, found at run time. For .cpp files of builds with cuBLASLt only.
#pragma once

#include <cublasLt.h>

#include "jit/platform/shared_library.h"

namespace coconet::jit {

#define COCONET_CUBLAS_FUNCTIONS(FUNCTION)                       \
  FUNCTION(get_version, cublasLtGetVersion)                      \
  FUNCTION(status_string, cublasLtGetStatusString)               \
  FUNCTION(create, cublasLtCreate)                               \
  FUNCTION(descriptor_create, cublasLtMatmulDescCreate)          \
  FUNCTION(descriptor_set, cublasLtMatmulDescSetAttribute)       \
  FUNCTION(descriptor_destroy, cublasLtMatmulDescDestroy)        \
  FUNCTION(layout_create, cublasLtMatrixLayoutCreate)            \
  FUNCTION(layout_set, cublasLtMatrixLayoutSetAttribute)         \
  FUNCTION(layout_destroy, cublasLtMatrixLayoutDestroy)          \
  FUNCTION(preference_create, cublasLtMatmulPreferenceCreate)    \
  FUNCTION(preference_set, cublasLtMatmulPreferenceSetAttribute) \
  FUNCTION(preference_destroy, cublasLtMatmulPreferenceDestroy)  \
  FUNCTION(heuristic, cublasLtMatmulAlgoGetHeuristic)            \
  FUNCTION(matmul, cublasLtMatmul)

COCONET_FUNCTION_TABLE(CublasFunctions, COCONET_CUBLAS_FUNCTIONS);

struct Cublas : CublasFunctions, LibraryFacts {};

/// The process's cuBLASLt, loaded at the first call. Does not throw.
[[nodiscard]] const Cublas& loaded_cublas();

}  // namespace coconet::jit
