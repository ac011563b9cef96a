// cuBLASLt as a table of functions, found at run time. For .cpp files of builds with cublasLt.h
// only.
#pragma once

#include <cublasLt.h>

#include <string>

#include "jit/platform/facts.h"

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

struct Cublas {
#define COCONET_MEMBER(member, function) decltype(&::function) member = nullptr;
  COCONET_CUBLAS_FUNCTIONS(COCONET_MEMBER)
#undef COCONET_MEMBER
  std::string version;      ///< "13.0.2"
  std::string unavailable;  ///< why the table is not whole; empty when all is well
};

/// The process's cuBLASLt, loaded at the first call. Does not throw.
[[nodiscard]] const Cublas& loaded_cublas();

}  // namespace coconet::jit
