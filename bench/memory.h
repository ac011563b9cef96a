// Memory of the hand-written contestants: private arrays on huge pages, and arrays that the other
// rank can reach.
#pragma once

#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace bench {

struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Array = std::unique_ptr<float[], Free>;

/// `n` zeros, aligned for any vector and on huge pages where the system grants them.
inline Array make_array(std::size_t n) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t alignment = n * sizeof(float) < huge_page ? 4096 : huge_page;
  const std::size_t bytes = (n * sizeof(float) + alignment - 1) / alignment * alignment;
  auto* p = static_cast<float*>(std::aligned_alloc(alignment, bytes));
  if (p == nullptr) throw std::bad_alloc();
  if (alignment == huge_page) madvise(p, bytes, MADV_HUGEPAGE);
  std::fill_n(p, bytes / sizeof(float), 0.0f);
  return Array(p);
}

/// A shared-memory window with one zeroed segment of `bytes` on every rank.
class Window {
 public:
  explicit Window(std::size_t bytes) {
    // Segments of their own pages: without it a rank's segment starts at any byte of the previous
    // one's page.
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    void* mine = nullptr;
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, info, MPI_COMM_WORLD, &mine, &window_);
    MPI_Info_free(&info);
    std::fill_n(static_cast<unsigned char*>(mine), bytes, static_cast<unsigned char>(0));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Window() { MPI_Win_free(&window_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// The segment of `rank`, from its first whole page on. Allocate a page more than is used.
  [[nodiscard]] std::byte* segment(int rank) const {
    MPI_Aint size = 0;
    int unit = 0;
    void* p = nullptr;
    MPI_Win_shared_query(window_, rank, &size, &unit, &p);
    constexpr std::uintptr_t page = 4096;
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    return static_cast<std::byte*>(p) + ((address + page - 1) / page * page - address);
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace bench
