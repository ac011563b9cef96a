// NCCL's collectives and messages: operations of streams, in which the ranks of a communicator
// meet. In a capture they are nodes.
#include "../cuda/control.h"
#include "arithmetic.h"
#include "communicators.h"
#include "state.h"

namespace stub {
namespace {

struct Collective {
  std::shared_ptr<Communicator> communicator;
  Part part;  ///< with device addresses
  std::size_t send_bytes = 0;
  std::size_t receive_bytes = 0;
};

int run(void* data) {
  const Collective& collective = *static_cast<Collective*>(data);
  const auto alias = driver_function<decltype(stub_cuda_alias)>("stub_cuda_alias");
  const int device = collective.communicator->device;
  Part part = collective.part;
  if (collective.send_bytes > 0)
    part.send = static_cast<char*>(alias(part.send, collective.send_bytes, device));
  if (collective.receive_bytes > 0)
    part.receive = static_cast<char*>(alias(part.receive, collective.receive_bytes, device));
  if ((collective.send_bytes > 0 && part.send == nullptr) ||
      (collective.receive_bytes > 0 && part.receive == nullptr))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (part.function == "ncclSend") {
    post(*collective.communicator, part);
  } else if (part.function == "ncclRecv") {
    take(*collective.communicator, part);
  } else {
    meet(*collective.communicator, std::move(part));
  }
  return CUDA_SUCCESS;
}

void drop(void* data) {
  const std::unique_ptr<Collective> owned(static_cast<Collective*>(data));
}

ncclResult_t start(Part part, std::size_t send_count, std::size_t receive_count, ncclComm_t handle,
                   cudaStream_t stream) {
  const std::string function = part.function;
  return call(function.c_str(), [&](Lock& lock) {
    auto communicator = find(handle);
    if (communicator == nullptr) return fail(ncclInvalidArgument, "there is no such communicator");
    const ncclResult_t ready = communicator->state();
    if (ready != ncclSuccess) return fail(ncclInvalidUsage, "the communicator is not ready");
    const std::size_t width = width_of(part.type);
    const int ranks = static_cast<int>(communicator->clique->ranks);
    if (width == 0 || part.root < 0 || part.root >= ranks || part.op > ncclAvg)
      return fail(ncclInvalidArgument, "the type, the root or the operation is none");
    // Those for which NCCL takes another way where the memory of all ranks is in windows.
    if (function == "ncclAllReduce" || function == "ncclReduceScatter" ||
        function == "ncclAllGather") {
      part.send_in_window = communicator->has_window(part.send, send_count * width);
      part.receive_in_window = communicator->has_window(part.receive, receive_count * width);
    }
    note(details(function, " count=", part.count, " type=", static_cast<int>(part.type), " op=",
                 static_cast<int>(part.op), " root=", part.root, " rank=", communicator->rank,
                 " ranks=", ranks, part.send_in_window ? " from a window" : "",
                 part.receive_in_window ? " to a window" : "",
                 " stream=", reinterpret_cast<std::uint64_t>(stream) & 0xffffffffU));
    const bool root_only = function == "ncclReduce" && communicator->rank != part.root;
    const bool no_source = function == "ncclBroadcast" && communicator->rank != part.root;
    auto collective = std::make_unique<Collective>(
        Collective{communicator, std::move(part), no_source ? 0 : send_count * width,
                   root_only ? 0 : receive_count * width});
    const auto enqueue = driver_function<decltype(stub_cuda_enqueue)>("stub_cuda_enqueue");
    if (enqueue == nullptr) return fail(ncclUnhandledCudaError, "there is no stub of the driver");
    lock.unlock();
    const CUresult result = enqueue(stream, function.c_str(), 1, run, drop, collective.release());
    lock.lock();
    return result == CUDA_SUCCESS
               ? ncclSuccess
               : fail(ncclUnhandledCudaError, "Cuda failure " + std::to_string(result));
  });
}

// How many ranks the communicator has; 0 for a handle that is none.
std::size_t ranks_of(ncclComm_t handle) {
  const Lock lock(mutex());
  const auto communicator = find(handle);
  return communicator == nullptr ? 0 : communicator->clique->ranks;
}

}  // namespace
}  // namespace stub

using namespace stub;

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return start({"ncclAllReduce", static_cast<const char*>(send), static_cast<char*>(receive), count,
                type, op, 0},
               count, count, communicator, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t communicator,
                               cudaStream_t stream) {
  return start({"ncclReduceScatter", static_cast<const char*>(send), static_cast<char*>(receive),
                count, type, op, 0},
               count * ranks_of(communicator), count, communicator, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return start({"ncclAllGather", static_cast<const char*>(send), static_cast<char*>(receive), count,
                type, ncclSum, 0},
               count, count * ranks_of(communicator), communicator, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  return start({"ncclReduce", static_cast<const char*>(send), static_cast<char*>(receive), count,
                type, op, root},
               count, count, communicator, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  return start({"ncclBroadcast", static_cast<const char*>(send), static_cast<char*>(receive), count,
                type, ncclSum, root},
               count, count, communicator, stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return start({"ncclSend", static_cast<const char*>(send), nullptr, count, type, ncclSum, peer},
               count, 0, communicator, stream);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return start({"ncclRecv", nullptr, static_cast<char*>(receive), count, type, ncclSum, peer}, 0,
               count, communicator, stream);
}
