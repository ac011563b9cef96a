# Finds what the project is built from. The required parts stop the configuration when they are missing; each
# optional part sets COCONET_HAS_<PART> and, for the summary, COCONET_<PART>_REASON.

find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
# OpenBLAS is loaded at run time, by programs with matmuls: the build needs its headers only.
find_package(PkgConfig REQUIRED)
pkg_check_modules(COCONET_OPENBLAS REQUIRED openblas)
if(COCONET_TESTS)
  find_package(Catch2 2.13 REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()

# MPI's C interface only: its C++ bindings were removed from the standard.
set(COCONET_HAS_MPI OFF)
if(COCONET_MPI STREQUAL "OFF")
  set(COCONET_MPI_REASON "COCONET_MPI=OFF")
else()
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI COMPONENTS CXX QUIET)
  if(MPI_CXX_FOUND)
    set(COCONET_HAS_MPI ON)
    set(COCONET_MPI_REASON "MPI ${MPI_CXX_VERSION}, ${MPI_CXX_COMPILER}")
  elseif(COCONET_MPI STREQUAL "ON")
    message(FATAL_ERROR "COCONET_MPI is ON, but no MPI was found. Install libopenmpi-dev and openmpi-bin, "
      "or name the compiler wrapper with -DMPI_CXX_COMPILER=PATH.")
  else()
    set(COCONET_MPI_REASON "no MPI found; install libopenmpi-dev and openmpi-bin")
  endif()
endif()

# CUDA's driver, NVRTC, NCCL and cuBLASLt are loaded at run time, so that the build needs their headers only.
set(COCONET_HAS_CUDA OFF)
set(COCONET_HAS_NCCL OFF)
set(COCONET_HAS_CUBLAS OFF)
if(COCONET_CUDA STREQUAL "OFF")
  set(COCONET_CUDA_REASON "COCONET_CUDA=OFF")
else()
  find_path(COCONET_NVRTC_INCLUDE_DIR nvrtc.h
    HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include
    DOC "Directory of nvrtc.h")
  mark_as_advanced(COCONET_NVRTC_INCLUDE_DIR)
  if(COCONET_NVRTC_INCLUDE_DIR)
    set(COCONET_HAS_CUDA ON)
    set(COCONET_CUDA_REASON "${COCONET_NVRTC_INCLUDE_DIR}/nvrtc.h")
  elseif(COCONET_CUDA STREQUAL "ON")
    message(FATAL_ERROR "COCONET_CUDA is ON, but nvrtc.h was not found. "
      "Set CUDA_HOME to the CUDA toolkit, or pass -DCOCONET_NVRTC_INCLUDE_DIR=PATH.")
  else()
    set(COCONET_CUDA_REASON "no nvrtc.h found; CUDA_HOME may name the CUDA toolkit")
  endif()
endif()
if(COCONET_HAS_CUDA)
  find_path(COCONET_NCCL_INCLUDE_DIR nccl.h
    HINTS ENV NCCL_HOME ${COCONET_NVRTC_INCLUDE_DIR}/.. PATH_SUFFIXES include
    DOC "Directory of nccl.h")
  mark_as_advanced(COCONET_NCCL_INCLUDE_DIR)
  if(COCONET_NCCL_INCLUDE_DIR)
    set(COCONET_HAS_NCCL ON)
    set(COCONET_NCCL_REASON "${COCONET_NCCL_INCLUDE_DIR}/nccl.h")
  else()
    set(COCONET_NCCL_REASON "no nccl.h found; NCCL_HOME may name NCCL's directory")
  endif()
  find_path(COCONET_CUBLAS_INCLUDE_DIR cublasLt.h
    HINTS ${COCONET_NVRTC_INCLUDE_DIR} DOC "Directory of cublasLt.h")
  mark_as_advanced(COCONET_CUBLAS_INCLUDE_DIR)
  if(COCONET_CUBLAS_INCLUDE_DIR)
    set(COCONET_HAS_CUBLAS ON)
    set(COCONET_CUBLAS_REASON "${COCONET_CUBLAS_INCLUDE_DIR}/cublasLt.h")
  else()
    set(COCONET_CUBLAS_REASON "no cublasLt.h found; CUDA_HOME may name the CUDA toolkit")
  endif()
else()
  set(COCONET_NCCL_REASON "CUDA is off")
  set(COCONET_CUBLAS_REASON "CUDA is off")
endif()
