// Maps the blocks of peer memory: aligned for huge pages where blocks are large, untouched pages
// unbacked.
#include "jit/comm/memory/peer_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Distance between blocks. Blocks that can hold huge pages start at one, so that neighbours share
/// none.
std::size_t stride_of(std::size_t bytes) {
  if (bytes >= huge_page) return round_up(bytes, huge_page);
  return bytes == 0 ? page : round_up(bytes, page);
}

}  // namespace

std::size_t file_bytes(int ranks, std::size_t bytes) {
  constexpr std::size_t most = std::size_t{1} << 47;  // the address space of a process
  if (bytes > most || stride_of(bytes) > most / ranks) {
    throw CommError(
        fmt::format("cannot allocate {} bytes on each of {} ranks: a process addresses {} bytes in "
                    "all",
                    bytes, ranks, most));
  }
  return stride_of(bytes) * ranks;
}

std::shared_ptr<PeerMemory> map_blocks(int ranks, std::size_t bytes, int fd, int rank) {
  const std::size_t size = file_bytes(ranks, bytes);
  const std::size_t alignment = bytes >= huge_page ? huge_page : page;
  const auto fail = [&] {
    throw CommError(fmt::format("cannot map {} bytes for each of {} ranks: {}", bytes, ranks,
                                std::strerror(errno)));
  };

  // Addresses are reserved with room to align in; the mapping then takes its place inside.
  const std::size_t reserved = size + alignment;
  void* reservation =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation == MAP_FAILED) fail();
  auto* first = static_cast<std::byte*>(reservation);
  const std::size_t skip =
      (alignment - reinterpret_cast<std::uintptr_t>(first) % alignment) % alignment;
  const int sharing = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* mapped =
      mmap(first + skip, size, PROT_READ | PROT_WRITE, sharing | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    munmap(reservation, reserved);
    errno = reason;
    fail();
  }
  const std::shared_ptr<std::byte> start(static_cast<std::byte*>(mapped),
                                         [size](std::byte* blocks) { munmap(blocks, size); });
  if (skip > 0) munmap(first, skip);
  munmap(start.get() + size, reserved - skip - size);
  // Only advice: kernels that keep shared memory in small pages refuse it.
  if (alignment == huge_page) madvise(start.get(), size, MADV_HUGEPAGE);
  Indexed<std::byte*> blocks;
  for (int block = 0; block < ranks; ++block)
    blocks.push_back(start.get() + block * stride_of(bytes));
  return std::make_shared<PeerMemory>(std::move(blocks), rank, bytes, start);
}

}  // namespace coconet::jit
