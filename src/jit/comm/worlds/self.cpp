// The world of one rank: this process. Collectives copy.
#include <algorithm>
#include <array>
#include <cstring>

#include "coconet/error.h"
#include "jit/comm/collectives/combine.h"
#include "jit/comm/collectives/groups.h"
#include "jit/comm/comm.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/nodes.h"

namespace coconet::jit {

namespace {

class SelfGroup final : public Group {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }

  void all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                  Reduction reduction) override {
    combine_in_order(dtype, reduction, std::array{in}, count, std::array{out});
  }
  void reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType dtype,
                      Reduction reduction) override {
    all_reduce(in, out, block_starts(*this, "reduce_scatter", counts).back(), dtype, reduction);
  }
  void all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                  DType dtype) override {
    const std::size_t count = block_starts(*this, "all_gather", counts).back();
    if (count > 0) std::memcpy(out, in, count * size_of(dtype));
  }
  void reduce(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction,
              int root) override {
    require_root(*this, "reduce", root);
    all_reduce(in, out, count, dtype, reduction);
  }
  void broadcast(void*, std::size_t, DType, int root) override {
    require_root(*this, "broadcast", root);
  }
  void shift(const void*, void*, std::size_t, DType, int) override {}
  void refuse() override {}
};

class SelfComm final : public Comm {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string_view kind() const override { return "self"; }
  [[nodiscard]] int ranks_per_core() const override { return 1; }
  void require_nobody_failed() const override {}
  [[nodiscard]] bool in_one_process() const override { return true; }
  [[nodiscard]] std::shared_ptr<void> share(std::shared_ptr<void> object) override {
    return object;
  }
  void barrier(std::chrono::milliseconds) override {}
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine) override {
    return {std::string(mine)};
  }
  [[nodiscard]] std::string broadcast(std::string_view mine, int) override {
    return std::string(mine);
  }
  [[nodiscard]] bool any_failed(bool failed) override { return failed; }
  [[nodiscard]] const Nodes& nodes() const override { return nodes_; }
  [[nodiscard]] std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override {
    return std::make_shared<MappedMemory>(std::make_shared<const Mapping>(1, bytes, -1), 0);
  }
  [[nodiscard]] std::unique_ptr<Group> group(const std::vector<int>& ranks) override {
    (void)agree_on_groups(*this, ranks);
    return std::make_unique<SelfGroup>();
  }

 private:
  Nodes nodes_{1};
};

}  // namespace

std::shared_ptr<Comm> make_self_comm() {
  return std::make_shared<SelfComm>();
}

}  // namespace coconet::jit
