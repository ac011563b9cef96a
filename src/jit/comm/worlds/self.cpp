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

class SelfGroup final : public Collectives {
 public:
  void run(Queue&, const CollectiveCall& call) override {
    require_sane(call, 1);
    const auto& [in, out] = call.operands.front();
    const std::size_t count = call.counts.empty() ? call.count : call.counts.front();
    if (ir::reduces_over_ranks(call.op)) {
      combine_in_order(call.dtype, call.reduction, std::array{in}, count, std::array{out});
    } else if (call.op != ir::Op::send && in != out && count > 0) {
      std::memcpy(out, in, count * size_of(call.dtype));
    }
  }
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
  [[nodiscard]] std::unique_ptr<Collectives> collectives(const std::vector<int>& ranks) override {
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
