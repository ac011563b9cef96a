// Device addresses and what is behind them. The addresses that calls hand out belong to one large area that nobody can
// read or write, so host code that follows one ends at once; the bytes are elsewhere, at aliases, which copies and
// kernels use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "handles.h"
#include "runtime.h"

namespace stub {

/// Memory of cuMemCreate: a file in memory, which other processes can map too.
struct Physical {
  int file = -1;
  std::size_t bytes = 0;
  int device = 0;
  bool exportable = false;
  bool own = true;  ///< not imported: counts as this process's

  Physical() = default;
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();
};

/// A part of a reserved range with memory behind it.
struct Mapping {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::shared_ptr<Physical> physical;
  std::map<int, bool> access;  ///< by device
};

/// An allocation, or a range of reserved addresses.
struct Range {
  std::uint64_t base = 0;
  std::size_t bytes = 0;
  char* alias = nullptr;
  int device = 0;
  bool reserved = false;
  bool freed =
      false;  ///< in stream order: calls refuse it, operations that were there before may use it
  std::vector<Mapping> mappings;
};

struct Pinned {
  std::size_t bytes = 0;
  int device = 0;
};

using PhysicalTable = Table<Physical, CUmemGenericAllocationHandle, Kind::physical>;

class Memory {
 public:
  Memory();

  /// Adds a range with an alias that is `usable`, or whose pages come later; null when the area is full.
  Range* add(std::size_t bytes, std::size_t alignment, bool usable);
  void remove(std::uint64_t base);

  /// The range that `address` is inside of; null outside of all.
  Range* find(std::uint64_t address);
  /// Whether `address` is in the area, be it live or not.
  [[nodiscard]] bool contains(std::uint64_t address) const;

  std::map<std::uint64_t, Pinned> pinned;
  [[nodiscard]] std::size_t reserved_count() const;

 private:
  [[nodiscard]] std::uint64_t free_place(std::size_t bytes, std::size_t alignment) const;

  std::uint64_t begin_ = 0;
  std::uint64_t next_ =
      0;  ///< addresses are used again as late as possible: old pointers stay invalid
  std::map<std::uint64_t, Range> ranges_;
};

inline Memory& memory() {
  return immortal<Memory>();
}

enum class Where { device, pinned, pageable };

/// Who wants to use memory: kernels reach what their device was given access to, copies also other devices'.
enum class Use { copy, kernel };

struct Place {
  char* at = nullptr;  ///< for the host
  Where where = Where::pageable;
  int device = -1;
  CUresult problem = CUDA_SUCCESS;
};

/// Finds [address, address + bytes). CUDA_ERROR_INVALID_VALUE where it sticks out of an allocation or there is none,
/// CUDA_ERROR_ILLEGAL_ADDRESS where `device` has no access. `late`: an operation asks, not a call.
Place resolve(std::uint64_t address, std::size_t bytes, int device, Use use, bool late);

template <class T>
std::uint64_t address_of(const T* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace stub
