// NCCL's functions as they are found at run time. Needs nccl.h.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "jit/platform/shared_library.h"

namespace coconet::jit {

#define COCONET_NCCL_FUNCTIONS(FUNCTION)       \
  FUNCTION(get_version, ncclGetVersion)        \
  FUNCTION(error_string, ncclGetErrorString)   \
  FUNCTION(last_error, ncclGetLastError)       \
  FUNCTION(unique_id, ncclGetUniqueId)         \
  FUNCTION(init_rank, ncclCommInitRankConfig)  \
  FUNCTION(async_error, ncclCommGetAsyncError) \
  FUNCTION(finalize, ncclCommFinalize)         \
  FUNCTION(count, ncclCommCount)               \
  FUNCTION(user_rank, ncclCommUserRank)        \
  FUNCTION(cu_device, ncclCommCuDevice)        \
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

COCONET_FUNCTION_TABLE(NcclFunctions, COCONET_NCCL_FUNCTIONS);

// Windows came with 2.27, and are used where they are there.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
inline constexpr int least_version_of_windows = 22703;
using NcclWindow = ncclWindow_t;

#define COCONET_NCCL_WINDOW_FUNCTIONS(FUNCTION) \
  FUNCTION(open_window, ncclCommWindowRegister) \
  FUNCTION(close_window, ncclCommWindowDeregister)

COCONET_FUNCTION_TABLE(WindowFunctions, COCONET_NCCL_WINDOW_FUNCTIONS);
#else
inline constexpr int least_version_of_windows = std::numeric_limits<int>::max();
inline constexpr int NCCL_WIN_COLL_SYMMETRIC = 0;
using NcclWindow = void*;

struct WindowFunctions {
  ncclResult_t (*open_window)(ncclComm_t, void*, std::size_t, NcclWindow*, int) = nullptr;
  ncclResult_t (*close_window)(ncclComm_t, NcclWindow) = nullptr;
  std::vector<std::string> find_in(const SharedLibrary&) { return {"windows"}; }
};
#endif

struct Nccl : NcclFunctions, WindowFunctions, LibraryFacts {
  bool has_windows = false;
};

/// The process's NCCL, loaded at the first call.
[[nodiscard]] const Nccl& nccl();

[[nodiscard]] bool is_fine(ncclResult_t result);
/// Throws CommError, with what NCCL says of it, unless the result of `call` is fine.
void require(ncclResult_t result, std::string_view call);

}  // namespace coconet::jit
