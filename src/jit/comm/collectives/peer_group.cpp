// Finding the other ranks' tensors, and working on them.
#include "jit/comm/collectives/peer_group.h"

#include <algorithm>

#include "coconet/error.h"

namespace coconet::jit {

void PeerAllocations::add(const std::shared_ptr<PeerMemory>& memory) {
  std::erase_if(allocations_, [](const Allocation& one) { return one.memory.expired(); });
  allocations_.push_back({++count_, memory});
}

Place PeerAllocations::find(const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const Allocation& one : allocations_) {
    const std::shared_ptr<PeerMemory> memory = one.memory.lock();
    if (!memory) continue;
    const auto base = reinterpret_cast<std::uintptr_t>(memory->base(memory->rank()));
    if (address >= base && address - base < memory->bytes()) return {one.number, address - base};
  }
  return {};
}

std::byte* PeerAllocations::at(const Place& place, int rank) const {
  for (const Allocation& one : allocations_) {
    if (one.number == place.allocation) return one.memory.lock()->base(rank) + place.offset;
  }
  throw InternalError("peer memory " + std::to_string(place.allocation) + " is not in use");
}

PeerGroup::PeerGroup(std::shared_ptr<Barrier> barrier, std::vector<int> ranks,
                     std::vector<Board*> boards, std::shared_ptr<const PeerAllocations> allocations)
    : DirectGroup(std::move(barrier)),
      ranks_(std::move(ranks)),
      boards_(std::move(boards)),
      allocations_(std::move(allocations)) {}

bool PeerGroup::reaches(const CollectiveCall& call) {
  const std::size_t slot = barrier().count() % 2;
  const bool reads = call.op != ir::Op::broadcast || rank() == call.root;
  const auto& [in, out] = call.operands.front();
  (*boards_[rank()])[slot] = {allocations_->find(reads ? in : out), allocations_->find(out)};
  barrier().wait(to_string(call.op));
  const Operands first = (*boards_.front())[slot];
  // In the same allocation on all ranks: then each of them holds it, and all decide alike.
  const bool reachable = std::all_of(boards_.begin(), boards_.end(), [&](const Board* board) {
    const Operands& operands = (*board)[slot];
    return operands.in.allocation != 0 && operands.in.allocation == first.in.allocation &&
           operands.out.allocation != 0 && operands.out.allocation == first.out.allocation;
  });
  if (!reachable) return false;
  ins_.clear();
  outs_.clear();
  for (int position = 0; position < size(); ++position) {
    const Operands& operands = (*boards_[position])[slot];
    ins_.push_back(allocations_->at(operands.in, ranks_[position]));
    outs_.push_back(allocations_->at(operands.out, ranks_[position]));
  }
  return true;
}

void PeerGroup::exchange(std::string_view call, const void*, std::size_t, void*,
                         const Reader& read) {
  read({ins_, outs_});
  barrier().wait(call);
}

}  // namespace coconet::jit
