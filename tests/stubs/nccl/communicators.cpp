// Making and ending communicators, for ranks that are threads of one process and have the stub of
// the driver under them. STUB_NCCL_TIMEOUT_MS: how long a rank waits for the others to come, by
// default 10000.
#include "communicators.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "../cuda/control.h"
#include "state.h"

namespace stub {
namespace {

// By unique id. They stay, as an id is used once.
std::map<std::string, std::shared_ptr<Clique>>& cliques() {
  static std::map<std::string, std::shared_ptr<Clique>>& all =
      *new std::map<std::string, std::shared_ptr<Clique>>;
  return all;
}

// Groups of this thread: how many are open, and the communicators that the outermost one waits for.
struct Groups {
  int depth = 0;
  std::vector<std::shared_ptr<Communicator>> joining;
};

Groups& groups() {
  thread_local Groups of_thread;
  return of_thread;
}

// The device of the current context; -1 without one.
int current_device() {
  const auto ask = driver_function<decltype(cuCtxGetDevice)>("cuCtxGetDevice");
  int device = -1;
  return ask != nullptr && ask(&device) == CUDA_SUCCESS ? device : -1;
}

ncclResult_t wait_for_all(Lock& lock, const Communicator& communicator) {
  changed().wait_until(lock, communicator.deadline,
                       [&] { return communicator.state() != ncclInProgress; });
  return communicator.state();
}

}  // namespace

ncclResult_t Communicator::state() const {
  if (clique->devices.size() < clique->ranks) {
    return std::chrono::steady_clock::now() < deadline ? ncclInProgress : ncclSystemError;
  }
  std::set<int> distinct;
  for (const auto& row : clique->devices) distinct.insert(row.second);
  return distinct.size() == clique->ranks ? ncclSuccess : ncclInvalidUsage;
}

bool Communicator::has_window(const char* data, std::size_t bytes) const {
  return bytes > 0 && std::ranges::any_of(windows, [&](const auto& row) {
           return data >= row.second.data && data + bytes <= row.second.data + row.second.bytes;
         });
}

}  // namespace stub

using namespace stub;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return call("ncclGetUniqueId", [&](Lock&) {
    static std::uint64_t ids = 0;
    std::memset(id->internal, 0, sizeof(id->internal));
    const std::string text = std::to_string(getpid()) + " " + std::to_string(++ids);
    std::memcpy(id->internal, text.data(), text.size());
    note("ncclGetUniqueId");
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const int device = current_device();
  return call("ncclCommInitRankConfig", [&](Lock& lock) {
    *handle = nullptr;
    if (ranks < 1 || rank < 0 || rank >= ranks)
      return fail(ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " is none");
    if (device < 0) return fail(ncclUnhandledCudaError, "no context is current");
    const std::string name(id.internal, sizeof(id.internal));
    if (std::atoi(name.c_str()) != getpid())
      return fail(ncclSystemError, "the stub of NCCL joins ranks of one process only");
    std::shared_ptr<Clique>& clique = cliques()[name];
    if (clique == nullptr) clique = std::make_shared<Clique>();
    if (clique->ranks == 0) clique->ranks = static_cast<std::size_t>(ranks);
    if (clique->ranks != static_cast<std::size_t>(ranks) || clique->devices.contains(rank))
      return fail(ncclInvalidUsage, "another rank is here, or another number of ranks");
    clique->devices[rank] = device;
    const auto communicator = std::make_shared<Communicator>();
    communicator->clique = clique;
    communicator->rank = rank;
    communicator->device = device;
    communicator->blocking = config == nullptr || config->blocking != 0;
    const char* const timeout = std::getenv("STUB_NCCL_TIMEOUT_MS");
    communicator->deadline =
        std::chrono::steady_clock::now() +
        std::chrono::milliseconds(timeout == nullptr ? 10000 : std::atoi(timeout));
    changed().notify_all();
    // The address of what it stands for is as good a handle as any, and differs while that lives.
    *handle = reinterpret_cast<ncclComm_t>(communicator.get());
    communicators()[*handle] = communicator;
    note(details("ncclCommInitRankConfig rank=", rank, " ranks=", ranks, " device=", device));
    if (groups().depth > 0) {
      groups().joining.push_back(communicator);
      return ncclSuccess;
    }
    return communicator->blocking ? wait_for_all(lock, *communicator) : ncclInProgress;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return call_for(handle, "ncclCommCount", [&](const auto& communicator) {
    *count = static_cast<int>(communicator->clique->ranks);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return call_for(handle, "ncclCommUserRank", [&](const auto& communicator) {
    *rank = communicator->rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  return call_for(handle, "ncclCommCuDevice", [&](const auto& communicator) {
    *device = communicator->device;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  const Lock lock(mutex());
  const auto communicator = find(handle);
  if (communicator == nullptr) return ncclInvalidArgument;
  *result = communicator->state();
  if (*result != ncclSuccess) return ncclSuccess;
  if (!communicator->clique->error.empty()) {
    *result = fail(ncclInternalError, communicator->clique->error);
  } else {
    *result = async_error();
  }
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* data, std::size_t bytes,
                                    ncclWindow_t* window, int flags) {
  return call_for(handle, "ncclCommWindowRegister", [&](const auto& communicator) {
    int version = 0;
    if (ncclGetVersion(&version) != ncclSuccess || version < 22703)
      return fail(ncclInvalidUsage, "this version of NCCL has no windows");
    if (reinterpret_cast<std::uintptr_t>(data) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
      return fail(ncclInvalidArgument, "a window begins between two pages");
    const std::size_t turn = ++communicator->registrations;
    std::set<std::size_t>& given = communicator->clique->windows[turn];
    given.insert(bytes);
    if (given.size() > 1) return fail(ncclInvalidUsage, "another rank's window has another size");
    communicator->windows[turn] = {static_cast<const char*>(data), bytes};
    *window = reinterpret_cast<ncclWindow_t>(turn);
    note(details("ncclCommWindowRegister bytes=", bytes, " flags=", flags,
                 " rank=", communicator->rank, " ranks=", communicator->clique->ranks));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  return call("ncclCommWindowDeregister", [&](Lock&) {
    const auto communicator = find(handle);
    if (communicator == nullptr ||
        communicator->windows.erase(reinterpret_cast<std::size_t>(window)) == 0)
      return fail(ncclInvalidArgument, "there is no such window");
    note(details("ncclCommWindowDeregister rank=", communicator->rank));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return call_for(handle, "ncclCommFinalize", [&](const auto&) {
    note("ncclCommFinalize");
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return call_for(handle, "ncclCommDestroy", [&](const auto&) {
    communicators().erase(handle);
    note("ncclCommDestroy");
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return call_for(handle, "ncclCommAbort", [&](const auto& communicator) {
    communicator->aborted = true;
    changed().notify_all();
    communicators().erase(handle);
    note("ncclCommAbort");
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  ++groups().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return call("ncclGroupEnd", [&](Lock& lock) {
    if (groups().depth == 0) return fail(ncclInvalidUsage, "no group is open");
    if (--groups().depth > 0) return ncclSuccess;
    const auto joining = std::move(groups().joining);
    groups().joining.clear();
    ncclResult_t result = ncclSuccess;
    for (const auto& communicator : joining) {
      const ncclResult_t one =
          communicator->blocking ? wait_for_all(lock, *communicator) : communicator->state();
      if (result == ncclSuccess) result = one;
    }
    return result;
  });
}
