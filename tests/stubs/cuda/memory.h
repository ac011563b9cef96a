// Device addresses and what is behind them. The addresses that calls hand out belong to one large
// area that nobody can read or write, so host code that follows one ends at once; the bytes are
// elsewhere, at aliases, which copies and kernels use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "handles.h"
#include "runtime.h"

namespace stub {

struct Physical;

/// What a multicast object knows: of all processes, in a file in memory that they share, and of
/// this one.
class Team {
 public:
  struct Shared {
    std::uint32_t expected = 0;            ///< devices
    std::uint64_t bytes = 0;               ///< on each
    std::atomic<std::uint64_t> added = 0;  ///< devices, a bit each
    std::atomic<std::uint64_t> bound = 0;  ///< those with memory
  };
  /// A part of a device's memory.
  struct Bound {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    std::shared_ptr<Physical> physical;
  };
  explicit Team(int file);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  [[nodiscard]] Shared& shared() { return *shared_; }
  /// Whether all devices are added.
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] bool has(int device) const;
  std::map<int, Bound> memory;  ///< what this process bound, by device

 private:
  Shared* shared_;
};

constexpr std::size_t multicast_granularity = std::size_t{4} << 20;
/// Whether a file called `name` is a multicast object's.
bool is_team_file(const std::string& name);
std::size_t live_multicasts();

/// Memory of cuMemCreate: a file in memory, which other processes can map too; or a multicast
/// object.
struct Physical {
  int file = -1;
  std::size_t bytes = 0;
  int device = 0;
  bool exportable = false;
  bool own = true;  ///< not imported: counts as this process's
  std::shared_ptr<Team>
      team;  ///< of a multicast object, behind which there is no memory of its own

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
/// Null for a handle that is none.
std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle add_physical(std::shared_ptr<Physical> physical);

class Memory {
 public:
  Memory();

  /// Adds a range with an alias that is `usable`, or whose pages come later; null when the area is
  /// full.
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

/// Who wants to use memory: kernels reach what their device was given access to, copies also other
/// devices'.
enum class Use { copy, kernel };

struct Place {
  char* at = nullptr;  ///< for the host
  Where where = Where::pageable;
  int device = -1;
  CUresult problem = CUDA_SUCCESS;
};

/// Finds [address, address + bytes). CUDA_ERROR_INVALID_VALUE where it sticks out of an allocation
/// or there is none, CUDA_ERROR_ILLEGAL_ADDRESS where `device` has no access. `late`: an operation
/// asks, not a call.
Place resolve(std::uint64_t address, std::size_t bytes, int device, Use use, bool late);

template <class T>
std::uint64_t address_of(const T* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace stub
