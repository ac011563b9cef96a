// Streams of the CUDA platform and what runs in them: the functions of Platform of these names, on
// `device`. For .cpp files of builds with CUDA only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "jit/platform/cuda/device.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Its launches run `ranks` ranks.
[[nodiscard]] std::shared_ptr<const Kernel> load_cuda_kernel(const Device& device,
                                                             std::string_view binary,
                                                             const std::string& entry, int ranks);
/// A stream of its own. Ordered with the default stream, so that an application that knows only
/// that one needs no further order.
[[nodiscard]] std::unique_ptr<Queue> make_cuda_queue(const Device& device);
[[nodiscard]] std::unique_ptr<Queue> wrap_cuda_queue(const Device& device, void* stream);
[[nodiscard]] std::unique_ptr<Event> make_cuda_event(const Device& device);
[[nodiscard]] std::unique_ptr<Fork> make_cuda_fork(const Device& device, const Queue& queue,
                                                   std::size_t count);
[[nodiscard]] std::unique_ptr<Recording> make_cuda_recording(const Device& device);

}  // namespace coconet::jit
