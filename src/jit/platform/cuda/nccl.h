// NCCL as a table of functions, found at run time. For .cpp files of builds with nccl.h only.
#pragma once

#include <nccl.h>

#include <string>

#include "jit/platform/facts.h"

namespace coconet::jit {

#define COCONET_NCCL_FUNCTIONS(FUNCTION)       \
  FUNCTION(get_version, ncclGetVersion)        \
  FUNCTION(error_string, ncclGetErrorString)   \
  FUNCTION(last_error, ncclGetLastError)       \
  FUNCTION(unique_id, ncclGetUniqueId)         \
  FUNCTION(init_rank, ncclCommInitRankConfig)  \
  FUNCTION(async_error, ncclCommGetAsyncError) \
  FUNCTION(finalize, ncclCommFinalize)         \
  FUNCTION(destroy, ncclCommDestroy)           \
  FUNCTION(abort, ncclCommAbort)               \
  FUNCTION(group_start, ncclGroupStart)        \
  FUNCTION(group_end, ncclGroupEnd)            \
  FUNCTION(all_reduce, ncclAllReduce)          \
  FUNCTION(reduce_scatter, ncclReduceScatter)  \
  FUNCTION(all_gather, ncclAllGather)          \
  FUNCTION(reduce, ncclReduce)                 \
  FUNCTION(broadcast, ncclBroadcast)           \
  FUNCTION(send, ncclSend)                     \
  FUNCTION(receive, ncclRecv)

struct Nccl {
#define COCONET_MEMBER(member, function) decltype(&::function) member = nullptr;
  COCONET_NCCL_FUNCTIONS(COCONET_MEMBER)
#undef COCONET_MEMBER
  int number = 0;           ///< 22809 for 2.28.9
  std::string unavailable;  ///< why the table is not whole, or NCCL too old; empty when all is well
};

/// The process's NCCL, loaded at the first call. Does not throw.
[[nodiscard]] const Nccl& loaded_nccl();

}  // namespace coconet::jit
