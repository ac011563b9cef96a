// What the stub offers to tests besides NCCL's functions; they look these up with dlsym.
#pragma once

#define STUB_NCCL_CONTROL extern "C" __attribute__((visibility("default")))

/// The calls since the last stub_nccl_clear, a line each, such as
/// "ncclAllReduce count=1024 type=7 op=0 root=0 rank=0 ranks=2 stream=1"; a call that failed is
/// "<function> failed=<ncclResult_t>". Before the stream stands " from a window to a window" where
/// the memory is such.
/// The text is this thread's until it asks again. Questions for errors are not logged, and no call
/// is before the first stub_nccl_clear.
STUB_NCCL_CONTROL const char* stub_nccl_calls();
STUB_NCCL_CONTROL void stub_nccl_clear();

/// The (skip + 1)-th call of `function` from now returns `result`, once.
STUB_NCCL_CONTROL void stub_nccl_fail(const char* function, int skip, int result);

/// What ncclCommGetAsyncError says of communicators that are well, until it is set to 0 again.
STUB_NCCL_CONTROL void stub_nccl_async(int result);

/// Communicators that were neither destroyed nor aborted.
STUB_NCCL_CONTROL long long stub_nccl_live();
