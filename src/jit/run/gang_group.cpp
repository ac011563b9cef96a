// Library collectives of ranks that share a GPU and a process: one launch works on all ranks' tensors.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "coconet/error.h"
#include "jit/codegen/codegen.h"
#include "jit/kernels/kernel_store.h"
#include "jit/platform/device_group.h"

namespace coconet::jit {

namespace {

constexpr int threads = 256;
constexpr std::size_t vector_bytes = 16;

const std::byte* plus(const void* data, std::size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

std::byte* plus(void* data, std::size_t bytes) {
  return static_cast<std::byte*>(data) + bytes;
}

class GangGroup final : public DeviceGroup {
 public:
  GangGroup(Comm& comm, const Platform& platform, std::vector<int> ranks,
            const std::vector<WantedReduction>& wanted)
      : ranks_(std::move(ranks)) {
    if (ranks_.size() == 1) return;  // what one rank reduces is its own
    const int size = static_cast<int>(ranks_.size());
    for (const WantedReduction& want : wanted) {
      for (const int results : {1, size}) {
        kernels_[{want.dtype, want.reduction, results}] = obtain_kernel(
            comm, platform, write_library_reduction(want.dtype, want.reduction, size, results));
      }
    }
  }

  [[nodiscard]] const std::vector<int>& ranks() const override { return ranks_; }

  void all_reduce(Queue& queue, Members members, std::size_t count, DType dtype,
                  Reduction reduction) override {
    std::vector<void*> outs;
    for (const Operands& member : members) outs.push_back(member.out);
    combine(queue, members, 0, outs, count, dtype, reduction);
  }

  void reduce_scatter(Queue& queue, Members members, std::span<const std::size_t> counts,
                      DType dtype, Reduction reduction) override {
    std::size_t start = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      combine(queue, members, start, {members[i].out}, counts[i], dtype, reduction);
      start += counts[i];
    }
  }

  void all_gather(Queue& queue, Members members, std::span<const std::size_t> counts,
                  DType dtype) override {
    std::size_t start = 0;
    for (std::size_t from = 0; from < members.size(); ++from) {
      const std::size_t bytes = counts[from] * size_of(dtype);
      for (const Operands& to : members) queue.copy(plus(to.out, start), members[from].in, bytes);
      start += bytes;
    }
  }

  void reduce(Queue& queue, Members members, std::size_t count, DType dtype, Reduction reduction,
              int root) override {
    combine(queue, members, 0, {members[static_cast<std::size_t>(root)].out}, count, dtype,
            reduction);
  }

  void broadcast(Queue& queue, Members members, std::size_t count, DType dtype, int root) override {
    const void* const from = members[static_cast<std::size_t>(root)].in;
    for (const Operands& to : members) queue.copy(to.out, from, count * size_of(dtype));
  }

  void shift(Queue& queue, Members members, std::size_t count, DType dtype, int offset) override {
    const int size = static_cast<int>(members.size());
    for (int from = std::max(0, -offset); from < std::min(size, size - offset); ++from) {
      queue.copy(members[static_cast<std::size_t>(from + offset)].out,
                 members[static_cast<std::size_t>(from)].in, count * size_of(dtype));
    }
  }

  void check() override {}
  void abort() noexcept override {}

 private:
  /// Reduces elements [start, start + count) of all members into `outs`.
  void combine(Queue& queue, Members members, std::size_t start, const std::vector<void*>& outs,
               std::size_t count, DType dtype, Reduction reduction) {
    if (count == 0) return;
    if (members.size() == 1) {
      queue.copy(outs.front(), plus(members.front().in, start * size_of(dtype)),
                 count * size_of(dtype));
      return;
    }
    std::vector<std::uint64_t> words;
    bool aligned = true;
    const auto add = [&](const void* data) {
      words.push_back(reinterpret_cast<std::uint64_t>(data));
      aligned = aligned && words.back() % vector_bytes == 0;
    };
    for (const Operands& member : members) add(plus(member.in, start * size_of(dtype)));
    for (void* const out : outs) add(out);
    words.push_back(count);
    words.push_back(aligned ? 1 : 0);  // the prelude's VECTORIZE
    const Kernel& kernel = *kernels_.at({dtype, reduction, static_cast<int>(outs.size())});
    const std::size_t of_block = threads * std::max<std::size_t>(1, vector_bytes / size_of(dtype));
    Grid grid;
    grid.threads = threads;
    grid.blocks = static_cast<int>(std::min<std::size_t>(
        (count + of_block - 1) / of_block,
        static_cast<std::size_t>(std::max(1, kernel.resident_blocks(threads)))));
    queue.launch(kernel, grid, words);
  }

  struct Key {
    DType dtype;
    Reduction reduction;
    int results;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<int> ranks_;
  std::map<Key, std::shared_ptr<const Kernel>> kernels_;
};

}  // namespace

std::unique_ptr<DeviceGroup> make_gang_group(Comm& comm, const Platform& platform,
                                             std::vector<int> ranks,
                                             const std::vector<WantedReduction>& wanted) {
  return std::make_unique<GangGroup>(comm, platform, std::move(ranks), wanted);
}

}  // namespace coconet::jit
