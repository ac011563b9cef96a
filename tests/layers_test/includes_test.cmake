# Reads every #include: cmake -DSOURCE_DIR=... -P includes_test.cmake
#  - a file includes by paths relative to src/ or include/, never "../x.h" or a bare "x.h";
#  - a layer includes itself, what lies below it, and the public headers;
#  - headers include no third party's headers, so that none leaks; public headers include public ones only, but for
#    coconet/mpi.h.
cmake_policy(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/directions.cmake)

set(third_party "nlohmann/|spdlog/|fmt/|CLI/|openssl/|mpi\\.h|cuda|nvrtc|nccl|catch2/|rapidcheck")
# Headers for .cpp files of builds with CUDA only, which CUDA's headers may come with; no other header includes them.
set(cuda_only "jit/platform/cuda/[a-z_]+\\.h")
# The same of builds with MPI.
set(mpi_only "jit/mpi/(assembly|collectives|connect|door|link|nodes)\\.h")
set(problems "")

# The targets of the #include lines of `file`.
function(includes_of out file)
  set(lines "")
  file(STRINGS ${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[\"<]")
  list(TRANSFORM lines REPLACE "^[ \t]*#[ \t]*include[ \t]*([\"<][^\">]+).*$" "\\1")
  set(${out} ${lines} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE sources RELATIVE ${SOURCE_DIR}/src
  ${SOURCE_DIR}/src/*.cpp ${SOURCE_DIR}/src/*.h ${SOURCE_DIR}/src/*.def ${SOURCE_DIR}/src/*.in)
set(checked 0)
foreach(source IN LISTS sources)
  coconet_layer_of(layer ${source})
  if(NOT layer)
    list(APPEND problems "src/${source} belongs to no layer of tests/layers_test/directions.cmake.")
    continue()
  endif()
  if(layer STREQUAL "jit_prelude" AND NOT source MATCHES "/embedded\\.")
    continue()  # the prelude: text for the compilers of kernels, not part of the library
  endif()
  includes_of(includes ${SOURCE_DIR}/src/${source})
  foreach(include IN LISTS includes)
    math(EXPR checked "${checked} + 1")
    string(SUBSTRING "${include}" 0 1 bracket)
    string(SUBSTRING "${include}" 1 -1 path)
    if(bracket STREQUAL "<")
      # json_fwd.hpp only says that the JSON library's types are there.
      if(source MATCHES "\\.h$" AND path MATCHES "^(${third_party})" AND NOT path STREQUAL "nlohmann/json_fwd.hpp" AND
         NOT (source MATCHES "^${cuda_only}$" AND path MATCHES "^(cuda|nccl)") AND
         NOT (source MATCHES "^${mpi_only}$" AND path STREQUAL "mpi.h"))
        list(APPEND problems "src/${source} is a header and includes <${path}>, which leaks to whoever includes it.")
      endif()
      continue()
    endif()
    if(path MATCHES "^coconet/")
      continue()
    endif()
    foreach(some IN ITEMS ${cuda_only} ${mpi_only})
      if(source MATCHES "\\.h$" AND path MATCHES "^${some}$" AND NOT source MATCHES "^${some}$")
        list(APPEND problems "src/${source} is a header and includes \"${path}\", which is for .cpp files only.")
      endif()
    endforeach()
    coconet_layer_of(other ${path})
    if(NOT other)
      list(APPEND problems "src/${source} includes \"${path}\", but paths begin at src/ or include/, like \"ir/graph.h\".")
      continue()
    endif()
    coconet_may_include(allowed ${layer} ${other})
    if(NOT allowed)
      list(JOIN below_${layer} " " below)
      list(APPEND problems "src/${source} includes \"${path}\", but ${layer} may include: ${layer} ${below}.")
    endif()
  endforeach()
endforeach()

file(GLOB_RECURSE headers RELATIVE ${SOURCE_DIR}/include ${SOURCE_DIR}/include/*)
foreach(header IN LISTS headers)
  includes_of(includes ${SOURCE_DIR}/include/${header})
  foreach(include IN LISTS includes)
    math(EXPR checked "${checked} + 1")
    if(header STREQUAL "coconet/mpi.h" AND include STREQUAL "<mpi.h")
      continue()  # for applications with communicators of their own
    endif()
    if(include STREQUAL "\"coconet/mpi.h")
      list(APPEND problems "include/${header} includes coconet/mpi.h, which is for applications that have MPI.")
    endif()
    if(NOT include MATCHES "^\"coconet/" AND NOT include MATCHES "^<[a-z_]+$")
      list(APPEND problems
        "include/${header} includes ${include}, but public headers include the standard library and coconet/ only.")
    endif()
  endforeach()
endforeach()

if(checked LESS 50)
  list(APPEND problems "Only ${checked} includes were found; the test does not see the sources.")
endif()
if(problems)
  list(JOIN problems "\n  " text)
  message(FATAL_ERROR "Includes that point the wrong way:\n  ${text}")
endif()
message(STATUS "${checked} includes point the right way.")
