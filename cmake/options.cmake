# The options of a build, and what they accept.

set(COCONET_MPI AUTO CACHE STRING "World of MPI processes: ON, OFF, or AUTO (on when MPI is found)")
set(COCONET_CUDA AUTO CACHE STRING "NVRTC for CUDA kernels: ON, OFF, or AUTO (on when nvrtc.h is found)")
foreach(option COCONET_MPI COCONET_CUDA)
  set_property(CACHE ${option} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${option} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${option} is '${${option}}'; it must be AUTO, ON or OFF.")
  endif()
endforeach()

option(COCONET_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(COCONET_SAMPLES "Build the samples" ${PROJECT_IS_TOP_LEVEL})
option(COCONET_BENCH "Build the benchmarks: adam needs MPI, gpu needs CUDA" ${PROJECT_IS_TOP_LEVEL})
option(COCONET_WERROR "Make compiler warnings errors" OFF)

set(COCONET_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")
set_property(CACHE COCONET_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")
if(NOT COCONET_SANITIZE MATCHES "^(address,undefined|thread|)$")
  message(FATAL_ERROR
    "COCONET_SANITIZE is '${COCONET_SANITIZE}'; it must be empty, 'address,undefined' or 'thread'.")
endif()

option(COCONET_FUZZ "Build the fuzzers of tests/fuzz instead of the tests; takes clang" OFF)

set(COCONET_KERNEL_CACHE "" CACHE PATH
  "Default cache directory of what runs in the build tree; empty: the user's, which installed libraries always use")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
