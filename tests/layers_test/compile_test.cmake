# Compiles one file per pair of layers that includes a header of the second with the include path of the first:
# it must compile when the direction is allowed, and fail for want of the header when it is not. Also compiles
# every public header on its own, with include/ as the only path.
#   cmake -DCXX=... -DSOURCE_DIR=... -DWORK_DIR=... -P compile_test.cmake
cmake_policy(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/directions.cmake)

set(problems "")

# Runs the compiler's `stage` on a file that includes `header` only, with `dirs` as the include path. For directions
# the preprocessor (-E) is enough, and fast.
function(try_include out_ok out_log stage header dirs)
  list(TRANSFORM dirs PREPEND -I)
  file(WRITE ${WORK_DIR}/include.cpp "#include \"${header}\"\n")
  execute_process(COMMAND ${CXX} -std=c++20 ${stage} ${dirs} ${WORK_DIR}/include.cpp
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE log)
  set(${out_ok} OFF PARENT_SCOPE)
  if(result EQUAL 0)
    set(${out_ok} ON PARENT_SCOPE)
  endif()
  string(REPLACE ";" "," log "${log}")  # problems are a list
  set(${out_log} "${log}" PARENT_SCOPE)
endfunction()

file(STRINGS ${WORK_DIR}/include_paths.txt rows)
set(refused 0)
foreach(row IN LISTS rows)
  string(REGEX MATCH "^([a-z_]+)=(.*)$" row "${row}")
  set(layer ${CMAKE_MATCH_1})
  string(REPLACE "|" ";" dirs "${CMAKE_MATCH_2}")
  foreach(other IN LISTS layers)
    # One header stands for the layer, and needs no header of MPI's or CUDA's. The prelude is not for the library.
    coconet_folder_of(folder ${other})
    file(GLOB_RECURSE headers RELATIVE ${SOURCE_DIR}/src ${SOURCE_DIR}/src/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "/(cuda/|mpi/(collectives|link|nodes)\\.h)")
    if(other STREQUAL "jit_prelude")
      set(headers jit/prelude/embedded.h)
    endif()
    if(NOT headers)
      continue()
    endif()
    list(GET headers 0 header)
    coconet_may_include(allowed ${layer} ${other})
    if(allowed AND NOT DEFINED ENV{TESTS_ALL})
      continue()  # what the layers use of it, the build has compiled
    endif()
    try_include(ok log -E ${header} "${dirs}")
    if(allowed AND NOT ok)
      list(APPEND problems "${layer} cannot include ${header}: ${log}")
    elseif(NOT allowed AND ok)
      list(APPEND problems "${layer} can include ${header}, but it must not see ${other}.")
    elseif(NOT allowed)
      if(NOT log MATCHES "${header}.*(No such file|file not found)")
        list(APPEND problems "${layer} fails to include ${header} for another reason: ${log}")
      endif()
      math(EXPR refused "${refused} + 1")
    endif()
  endforeach()
endforeach()
if(refused LESS 40)
  list(APPEND problems "Only ${refused} includes were refused; the test does not see the layers.")
endif()

file(GLOB headers RELATIVE ${SOURCE_DIR}/include ${SOURCE_DIR}/include/coconet/*.h)
list(REMOVE_ITEM headers coconet/mpi.h)  # includes MPI's; tests/mpi compiles it
foreach(header IN LISTS headers)
  try_include(ok log -fsyntax-only ${header} ${SOURCE_DIR}/include)
  if(NOT ok)
    list(APPEND problems "${header} does not compile on its own: ${log}")
  endif()
endforeach()

if(problems)
  list(JOIN problems "\n  " text)
  message(FATAL_ERROR "Layers are not what they should be:\n  ${text}")
endif()
message(STATUS "${refused} upward includes were refused by the compiler.")
