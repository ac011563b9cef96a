// Launching kernels. The ranks of a launch wait for each other, so each has a thread; a rank's
// blocks may wait for each other, too, and take turns. STUB_CUDA_OCCUPANCY: blocks that a
// multiprocessor holds, by default as many as it has threads and registers for.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "functions.h"
#include "graphs.h"
#include "kernels.h"
#include "memory.h"
#include "room.h"
#include "streams.h"
#include "turns.h"

namespace stub {
namespace {

constexpr unsigned most_threads = 1024;

CUresult check(const Launch& launch) {
  if (launch.blocks == 0 || launch.ranks == 0 || launch.threads == 0 ||
      launch.threads > most_threads)
    return CUDA_ERROR_INVALID_VALUE;
  const long long room = static_cast<long long>(occupancy(launch.threads)) * multiprocessors();
  const long long blocks = static_cast<long long>(launch.blocks) * launch.ranks;
  return launch.cooperative && blocks > room ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                                             : CUDA_SUCCESS;
}

CUresult copy_arguments(Launch& launch, void** params) {
  const std::size_t bytes = launch.kernel->argument_bytes * launch.ranks;
  if (bytes > 0 && (params == nullptr || params[0] == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  launch.words.assign((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t), 0);
  if (bytes > 0) std::memcpy(launch.words.data(), params[0], bytes);
  return CUDA_SUCCESS;
}

// Device addresses become aliases. One whose memory is freed stays as it is, and ends whoever
// follows it.
CUresult translate(std::vector<std::uint64_t>& words, int device) {
  const Lock lock(mutex());
  for (std::uint64_t& word : words) {
    if (!memory().contains(word)) continue;
    const Place place = resolve(word, 1, device, Use::kernel, true);
    if (place.problem == CUDA_ERROR_ILLEGAL_ADDRESS) return place.problem;
    if (place.problem == CUDA_SUCCESS) word = address_of(place.at);
  }
  return CUDA_SUCCESS;
}

/// Of the kernel that runs on this thread.
thread_local int running_device = 0;

}  // namespace

void* alias_of(const void* address) {
  const Lock lock(mutex());
  const std::uint64_t word = address_of(static_cast<const char*>(address));
  const Place place = resolve(word, 1, running_device, Use::kernel, true);
  return place.problem == CUDA_SUCCESS ? place.at : const_cast<void*>(address);
}

CUresult run_kernel(const Launch& launch) {
  if (launch.kernel->entry == nullptr) return CUDA_SUCCESS;
  std::vector<std::uint64_t> words = launch.words;
  if (const CUresult result = translate(words, launch.device); result != CUDA_SUCCESS)
    return result;
  Running running(launch.device, {.blocks = launch.blocks * launch.ranks,
                                  .threads = launch.threads,
                                  .registers = registers(),
                                  .together = launch.cooperative,
                                  .cooperative = launch.cooperative});
  const auto run_rank = [&](unsigned rank) {
    running_device = launch.device;
    const char* const own = reinterpret_cast<const char*>(words.data()) +
                            std::size_t{rank} * launch.kernel->argument_bytes;
    const auto enter = [&] { return launch.cooperative || running.take_block(); };
    while (rank > 0 && !enter()) sched_yield();
    run_in_turns(
        launch.blocks, [&](unsigned block) { launch.kernel->entry(own, block, launch.blocks); },
        enter, [&] { running.give_block(); });
  };
  std::vector<std::thread> others;
  for (unsigned rank = 1; rank < launch.ranks; ++rank) others.emplace_back(run_rank, rank);
  run_rank(0);
  for (std::thread& other : others) other.join();
  return CUDA_SUCCESS;
}

CUresult change(Launch& launch, const CUDA_KERNEL_NODE_PARAMS& params) {
  const auto function = find_function(params.func);
  if (function == nullptr || function->kernel != launch.kernel ||
      function->device != launch.device || params.gridDimZ != 1 || params.blockDimY != 1 ||
      params.blockDimZ != 1)
    return CUDA_ERROR_INVALID_VALUE;
  launch.blocks = params.gridDimX;
  launch.ranks = params.gridDimY;
  launch.threads = params.blockDimX;
  const CUresult checked = check(launch);
  return checked == CUDA_SUCCESS ? copy_arguments(launch, params.kernelParams) : checked;
}

}  // namespace stub

using namespace stub;

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** params, void**) {
  return call("cuLaunchKernelEx", Needs::context, [&](Lock&) {
    const auto function = find_function(handle);
    std::shared_ptr<Stream> stream;
    if (const CUresult found = find_stream(config->hStream, stream); found != CUDA_SUCCESS)
      return found;
    if (function == nullptr || function->device != stream->device ||
        current_device() != stream->device)
      return CUDA_ERROR_INVALID_HANDLE;
    if (config->gridDimZ != 1 || config->blockDimY != 1 || config->blockDimZ != 1)
      return CUDA_ERROR_INVALID_VALUE;
    const auto launch = std::make_shared<Launch>();
    launch->kernel = function->kernel;
    launch->device = stream->device;
    launch->blocks = config->gridDimX;
    launch->ranks = config->gridDimY;
    launch->threads = config->blockDimX;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        launch->cooperative = config->attrs[i].value.cooperative != 0;
    }
    if (const CUresult checked = check(*launch); checked != CUDA_SUCCESS) return checked;
    if (const CUresult copied = copy_arguments(*launch, params); copied != CUDA_SUCCESS)
      return copied;
    note("cuLaunchKernelEx",
         details("entry=", launch->kernel->name, " grid=", launch->blocks, "x", launch->ranks,
                 " threads=", launch->threads, " cooperative=", launch->cooperative ? 1 : 0,
                 " stream=", number_of(config->hStream)));
    if (stream->capture != nullptr)
      return capture(*stream, Node{.what = launch->kernel->name, .run = nullptr, .launch = launch});
    return submit(*stream, "kernel", [launch] { return run_kernel(*launch); }).result;
  });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  return ask("cuFuncGetAttribute", Needs::initialisation, [&](Lock&) {
    if (find_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const int regs = static_cast<int>(registers());
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
                 ? std::min<int>(most_threads, 65536 / regs / 32 * 32)
             : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? regs
                                                       : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                     std::size_t) {
  return ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", Needs::context, [&](Lock&) {
    if (find_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = static_cast<int>(occupancy(static_cast<unsigned>(threads)));
    return CUDA_SUCCESS;
  });
}
