// Collectives of ranks that share a GPU and a process.
#include "jit/platform/launch_collectives.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "jit/codegen/codegen.h"

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

class LaunchCollectives final : public Collectives {
 public:
  LaunchCollectives(int ranks, const NamedKernels& kernels) : ranks_(ranks), kernels_(kernels) {}

  void run(Queue& queue, const CollectiveCall& call) override {
    const auto members = call.operands;
    const std::size_t bytes = call.count * size_of(call.dtype);
    switch (call.op) {
      case ir::Op::all_reduce:
        return combine(queue, call, 0, call.count, members);
      case ir::Op::reduce:
        return combine(queue, call, 0, call.count, members.subspan(call.root, 1));
      case ir::Op::reduce_scatter:
        for (std::size_t i = 0, start = 0; i < members.size(); start += call.counts[i++])
          combine(queue, call, start, call.counts[i], members.subspan(i, 1));
        return;
      case ir::Op::all_gather:
        return gather(queue, call);
      case ir::Op::all_to_all:
        return exchange_blocks(queue, call);
      case ir::Op::broadcast:
        for (const auto& to : members) queue.copy(to.out, members[call.root].in, bytes);
        return;
      case ir::Op::send: {
        const int size = static_cast<int>(members.size());
        const int last = std::min(size, size - call.offset);
        for (int from = std::max(0, -call.offset); from < last; ++from)
          queue.copy(members[from + call.offset].out, members[from].in, bytes);
        return;
      }
      default:
        throw_unknown(call);
    }
  }

 private:
  using Members = std::span<const CollectiveCall::Operands>;

  static void gather(Queue& queue, const CollectiveCall& call) {
    std::size_t start = 0;
    for (std::size_t from = 0; from < call.operands.size(); ++from) {
      const std::size_t bytes = call.counts[from] * size_of(call.dtype);
      for (const auto& to : call.operands)
        queue.copy(plus(to.out, start), call.operands[from].in, bytes);
      start += bytes;
    }
  }

  static void exchange_blocks(Queue& queue, const CollectiveCall& call) {
    const std::size_t ranks = call.operands.size();
    std::vector<std::size_t> placed(ranks, 0);  // bytes at each rank's `out`
    for (std::size_t from = 0; from < ranks; ++from) {
      const auto* in = static_cast<const std::byte*>(call.operands[from].in);
      for (std::size_t to = 0; to < ranks; ++to) {
        const std::size_t bytes = call.counts[from * ranks + to] * size_of(call.dtype);
        if (bytes > 0) queue.copy(plus(call.operands[to].out, placed[to]), in, bytes);
        placed[to] += bytes;
        in += bytes;
      }
    }
  }

  /// Reduces elements [start, start + count) of all members into the tensors of `results`.
  void combine(Queue& queue, const CollectiveCall& call, std::size_t start, std::size_t count,
               Members results) {
    if (count == 0) return;
    const Members members = call.operands;
    const DType dtype = call.dtype;
    if (members.size() == 1) {
      queue.copy(results.front().out, plus(members.front().in, start * size_of(dtype)),
                 count * size_of(dtype));
      return;
    }
    std::vector<std::uint64_t> words;
    bool aligned = true;
    const auto add = [&](const void* data) {
      words.push_back(reinterpret_cast<std::uint64_t>(data));
      aligned = aligned && words.back() % vector_bytes == 0;
    };
    for (const auto& member : members) add(plus(member.in, start * size_of(dtype)));
    for (const auto& result : results) add(result.out);
    words.push_back(count);
    words.push_back(aligned ? 1 : 0);  // the prelude's VECTORIZE
    const Kernel& kernel = kernel_for({dtype, call.reduction, results.size()});
    const std::size_t of_block = threads * std::max<std::size_t>(1, vector_bytes / size_of(dtype));
    Grid grid;
    grid.threads = threads;
    grid.blocks = static_cast<int>(std::min<std::size_t>(
        (count + of_block - 1) / of_block, std::max(1, kernel.resident_blocks(threads))));
    queue.launch(kernel, grid, words);
  }

  using Key = std::tuple<DType, Reduction, std::size_t>;
  const Kernel& kernel_for(const Key& key) {
    auto& found = by_use_[key];
    if (found == nullptr) {
      const auto [dtype, reduction, results] = key;
      const std::string name =
          write_library_reduction(dtype, reduction, ranks_, static_cast<int>(results)).name;
      found = kernels_.at(name);
    }
    return *found;
  }

  int ranks_;
  NamedKernels kernels_;
  std::map<Key, std::shared_ptr<const Kernel>> by_use_;
};

}  // namespace

std::unique_ptr<Collectives> make_launch_collectives(int ranks, const NamedKernels& kernels) {
  return std::make_unique<LaunchCollectives>(ranks, kernels);
}

}  // namespace coconet::jit
