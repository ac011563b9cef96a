// What the stub offers besides the driver's functions: to tests, which look these up with dlsym,
// and to the stub of NCCL.
#pragma once

#include <cuda.h>

#define STUB_CUDA_CONTROL extern "C" __attribute__((visibility("default")))

/// The calls since the last stub_cuda_clear, a line each, such as "cuMemAllocAsync bytes=4096
/// stream=1". Handles are numbered from 1 in order of creation; stream 0 is NULL. A call that
/// failed is "<function> failed=<CUresult>". Queries are not logged, nor are calls before the first
/// stub_cuda_clear. The text is this thread's until it asks again.
STUB_CUDA_CONTROL const char* stub_cuda_calls();
STUB_CUDA_CONTROL void stub_cuda_clear();

/// The (skip + 1)-th call of `function` from now, by its plain name such as "cuMemAllocAsync",
/// returns `result`, once. The function "operation" stands for what a stream's worker runs: a
/// failure there ends the device's context.
STUB_CUDA_CONTROL void stub_cuda_fail(const char* function, int skip, int result);

/// Forgets ordered failures, ends a hold, and makes lost devices usable again, which no real driver
/// can.
STUB_CUDA_CONTROL void stub_cuda_heal();

/// How many are live: "contexts", "streams", "events", "libraries", "graphs" (with executable
/// ones), "pinned" (areas of host memory), "physical", "multicasts", "reserved" (address ranges),
/// or "bytes" of device memory; -1 for another word.
STUB_CUDA_CONTROL long long stub_cuda_live(const char* what);

/// While on, workers start no operation: streams look busy.
STUB_CUDA_CONTROL void stub_cuda_hold(int on);

/// Puts `run(data)` in the stream's order; `drop(data)` follows when it can run no more. In a
/// capture it is a node, which runs with each launch of the graph. It has so many multiprocessors
/// for itself, where they have room at all (room.h). `run` returns a CUresult.
STUB_CUDA_CONTROL CUresult stub_cuda_enqueue(CUstream stream, const char* what, unsigned processors,
                                             int (*run)(void*), void (*drop)(void*), void* data);

/// Where the host finds `bytes` of device memory that kernels of `device` may use; the address
/// itself for pinned memory; null for anything else.
STUB_CUDA_CONTROL void* stub_cuda_alias(const void* address, unsigned long long bytes, int device);
