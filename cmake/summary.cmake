# Says at the end of the configuration which parts are on, and why the others are off.

function(coconet_say part present reason turned_off)
  if(present)
    message(STATUS "  ${part}: on  (${reason})")
  else()
    message(STATUS "  ${part}: off (${reason}); without it: ${turned_off}")
  endif()
endfunction()

message(STATUS "coconet-jit ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, "
  "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
coconet_say("MPI    " ${COCONET_HAS_MPI} "${COCONET_MPI_REASON}"
  "no world of processes; World::self and World::local remain")
coconet_say("CUDA   " ${COCONET_HAS_CUDA} "${COCONET_CUDA_REASON}"
  "no GPUs; the host backend remains")
coconet_say("NCCL   " ${COCONET_HAS_NCCL} "${COCONET_NCCL_REASON}"
  "no library collectives between GPUs; fused ones remain")
coconet_say("cuBLASLt" ${COCONET_HAS_CUBLAS} "${COCONET_CUBLAS_REASON}"
  "no matmul on GPUs; it remains on the host")
coconet_say("oneDNN " ${COCONET_HAS_ONEDNN} "${COCONET_ONEDNN_REASON}"
  "matmuls on the host are OpenBLAS's, and slower")
coconet_say("tests  " ${COCONET_TESTS} "COCONET_TESTS=${COCONET_TESTS}" "ctest has nothing to run")
coconet_say("samples" ${COCONET_SAMPLES} "COCONET_SAMPLES=${COCONET_SAMPLES}" "samples/ is not built")
if(COCONET_BENCH AND NOT COCONET_HAS_MPI AND NOT COCONET_HAS_CUDA)
  coconet_say("bench  " OFF "they need MPI or CUDA, which are off" "bench/ is not built")
else()
  coconet_say("bench  " ${COCONET_BENCH} "COCONET_BENCH=${COCONET_BENCH}" "bench/ is not built")
endif()
if(COCONET_SANITIZE)
  message(STATUS "  sanitizers: ${COCONET_SANITIZE}, in the library and in the kernels that it compiles")
endif()
