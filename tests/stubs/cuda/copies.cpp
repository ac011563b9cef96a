// Copies between host and devices in any direction, and fills. Addresses are checked when the call
// is made and again when the worker comes to it: memory that is gone by then is an error of the
// device.
#include <sys/mman.h>

#include <cstring>

#include "memory.h"
#include "streams.h"

namespace stub {
namespace {

/// Rows of equal size.
struct Rows {
  std::size_t bytes = 0;
  std::size_t count = 1;
  std::size_t pitch = 0;  ///< from one row to the next

  [[nodiscard]] std::size_t extent() const {
    return count == 0 || bytes == 0 ? 0 : (count - 1) * pitch + bytes;
  }
};

struct Side {
  std::uint64_t address = 0;
  Rows rows;
};

void copy_rows(char* to, std::size_t to_pitch, const char* from, std::size_t from_pitch,
               std::size_t bytes, std::size_t count) {
  for (std::size_t row = 0; row < count; ++row)
    std::memmove(to + row * to_pitch, from + row * from_pitch, bytes);
}

// What a worker meets of memory that its call has seen is an access to nothing.
CUresult as_fault(CUresult problem) {
  return problem == CUDA_SUCCESS ? problem : CUDA_ERROR_ILLEGAL_ADDRESS;
}

// Shared memory is zero where its pages are taken away, and costs nothing until it is written.
void fill(char* at, unsigned char value, std::size_t bytes) {
  constexpr std::size_t page = 4096;
  char* const begin = at + (page - address_of(at) % page) % page;
  const std::size_t whole = begin + page > at + bytes ? 0 : (at + bytes - begin) / page * page;
  if (value == 0 && whole > 0 && madvise(begin, whole, MADV_REMOVE) == 0) {
    std::memset(at, 0, static_cast<std::size_t>(begin - at));
    std::memset(begin + whole, 0, static_cast<std::size_t>(at + bytes - begin) - whole);
  } else {
    std::memset(at, value, bytes);
  }
}

Place place_of(const Side& side, int device, bool late) {
  return resolve(side.address, side.rows.extent(), device, Use::copy, late);
}

CUresult run_copy(const Side& to, const Side& from, const std::shared_ptr<std::string>& staged,
                  int device) {
  Place target;
  Place source;
  {
    const Lock lock(mutex());
    target = place_of(to, device, true);
    if (staged == nullptr) source = place_of(from, device, true);
  }
  if (target.problem != CUDA_SUCCESS) return as_fault(target.problem);
  if (source.problem != CUDA_SUCCESS) return as_fault(source.problem);
  copy_rows(target.at, to.rows.pitch, staged != nullptr ? staged->data() : source.at,
            staged != nullptr ? from.rows.bytes : from.rows.pitch, to.rows.bytes, to.rows.count);
  return CUDA_SUCCESS;
}

CUresult copy(Lock& lock, const char* function, const Side& to, const Side& from, CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (const CUresult found = find_stream(handle, stream); found != CUDA_SUCCESS) return found;
  const int device = stream->device;
  const Place target = place_of(to, device, false);
  const Place source = place_of(from, device, false);
  if (target.problem != CUDA_SUCCESS) return target.problem;
  if (source.problem != CUDA_SUCCESS) return source.problem;
  note(function, details("bytes=", to.rows.bytes * to.rows.count, " stream=", number_of(handle)));

  // The driver may read pageable memory until the call returns and no longer: what comes later does
  // not count.
  std::shared_ptr<std::string> staged;
  if (source.where == Where::pageable && stream->capture == nullptr) {
    staged = std::make_shared<std::string>(from.rows.bytes * from.rows.count, '\0');
    copy_rows(staged->data(), from.rows.bytes, source.at, from.rows.pitch, from.rows.bytes,
              from.rows.count);
  }
  const Submitted submitted = submit(
      *stream, function, [to, from, staged, device] { return run_copy(to, from, staged, device); });
  if (submitted.completion != nullptr && target.where == Where::pageable) {
    wake(device);
    wait_for(lock, submitted.completion);
    return lost(device);
  }
  return submitted.result;
}

CUresult side_of(Side& side, CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x,
                 std::size_t y, std::size_t pitch, const CUDA_MEMCPY2D& shape) {
  if (type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (pitch == 0) pitch = shape.WidthInBytes;
  if (x + shape.WidthInBytes > pitch) return CUDA_ERROR_INVALID_VALUE;
  side.address = (type == CU_MEMORYTYPE_HOST ? address_of(host) : device) + y * pitch + x;
  side.rows = {.bytes = shape.WidthInBytes, .count = shape.Height, .pitch = pitch};
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace stub

using namespace stub;

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return call("cuMemcpyAsync", Needs::context, [&](Lock& lock) {
    const Rows row{.bytes = bytes, .count = 1, .pitch = bytes};
    return copy(lock, "cuMemcpyAsync", {to, row}, {from, row}, stream);
  });
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* shape, CUstream stream) {
  return call("cuMemcpy2DAsync", Needs::context, [&](Lock& lock) {
    Side to;
    Side from;
    CUresult known = side_of(to, shape->dstMemoryType, shape->dstHost, shape->dstDevice,
                             shape->dstXInBytes, shape->dstY, shape->dstPitch, *shape);
    if (known != CUDA_SUCCESS) return known;
    known = side_of(from, shape->srcMemoryType, shape->srcHost, shape->srcDevice,
                    shape->srcXInBytes, shape->srcY, shape->srcPitch, *shape);
    if (known != CUDA_SUCCESS) return known;
    return copy(lock, "cuMemcpy2DAsync", to, from, stream);
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream handle) {
  return call_on(handle, "cuMemsetD8Async", Needs::context, [&](Lock&, auto& stream) {
    const int device = stream->device;
    const Place target = resolve(to, bytes, device, Use::copy, false);
    if (target.problem != CUDA_SUCCESS) return target.problem;
    if (target.where == Where::pageable) return CUDA_ERROR_INVALID_VALUE;
    note("cuMemsetD8Async", details("bytes=", bytes, " stream=", number_of(handle)));
    return submit(*stream, "cuMemsetD8Async",
                  [to, value, bytes, device] {
                    Lock lock(mutex());
                    const Place place = resolve(to, bytes, device, Use::copy, true);
                    lock.unlock();
                    if (place.problem == CUDA_SUCCESS) fill(place.at, value, bytes);
                    return as_fault(place.problem);
                  })
        .result;
  });
}
