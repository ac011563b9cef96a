# Compiles every public header on its own, with include/ as the only path: in the whole suite, as a header that lacks one of
# its includes seldom comes.
#   cmake -DCXX=... -DSOURCE_DIR=... -DWORK_DIR=... -P headers_test.cmake
cmake_policy(VERSION 3.25)
if(NOT DEFINED ENV{TESTS_ALL})
  message("skipped: only with TESTS_ALL=1")
  return()
endif()

file(GLOB headers RELATIVE ${SOURCE_DIR}/include ${SOURCE_DIR}/include/coconet/*.h)
list(REMOVE_ITEM headers coconet/mpi.h)  # includes MPI's; tests/mpi compiles it
set(problems "")
foreach(header IN LISTS headers)
  file(WRITE ${WORK_DIR}/include.cpp "#include \"${header}\"\n")
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -I${SOURCE_DIR}/include ${WORK_DIR}/include.cpp
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE log)
  if(NOT result EQUAL 0)
    string(APPEND problems "\n  ${header} does not compile on its own: ${log}")
  endif()
endforeach()
list(LENGTH headers count)
if(count LESS 15)
  string(APPEND problems "\n  Only ${count} public headers were found.")
endif()
if(problems)
  message(FATAL_ERROR "Public headers are not what they should be:${problems}")
endif()
