// Memory and groups of MPI processes on one node.
#include "jit/comm/worlds/mpi_comm.h"

#include "coconet/error.h"
#include "jit/comm/collectives/groups.h"
#include "jit/comm/collectives/mpi_group.h"

namespace coconet::jit {

std::vector<std::string> gather_by_mpi(MPI_Comm comm, std::string_view mine) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(ranks);
  check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm), "MPI_Allgather");
  std::vector<int> places(ranks);
  for (int rank = 1; rank < ranks; ++rank) places[rank] = places[rank - 1] + lengths[rank - 1];
  std::string all(places.back() + lengths.back(), '\0');
  check_mpi(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), places.data(),
                           MPI_CHAR, comm),
            "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank) texts.push_back(all.substr(places[rank], lengths[rank]));
  return texts;
}

std::shared_ptr<void> MpiComm::share(std::shared_ptr<void> object) {
  if (size() > 1) throw InternalError("ranks of several processes cannot share an object");
  return object;
}

std::shared_ptr<PeerMemory> MpiComm::allocate(std::size_t bytes) {
  const Exchange exchange = [this](std::string_view mine) { return all_gather(mine); };
  agree_on_bytes(bytes, exchange);
  const std::shared_ptr<PeerMemory> memory =
      map_across_processes(rank(), numbers(), bytes, exchange);
  allocations_->add(memory);
  return memory;
}

std::unique_ptr<Collectives> MpiComm::collectives(const std::vector<int>& ranks) {
  const std::vector<std::vector<int>> division = agree_on_groups(*this, ranks);
  // By the division of the whole world, so that all ranks find it here or none does.
  Ways& ways = ways_[division];
  if (!ways.large) ways = make_ways(ranks);
  return std::make_unique<TieredGroup>(ways.small, ways.direct, ways.large);
}

MpiComm::Ways MpiComm::make_ways(const std::vector<int>& ranks) {
  // In the first page: the count of arrivals, and the board on which tensors are announced.
  constexpr std::size_t board_at = 64;
  constexpr std::size_t slots_at = 4096;
  const std::shared_ptr<PeerMemory> memory = allocate(slots_at + CopyGroup::slots_bytes);
  std::vector<int> numbers;
  std::vector<std::uint64_t*> arrivals;
  std::vector<PeerGroup::Board*> boards;
  std::vector<std::byte*> slots;
  for (const int rank : ranks) {
    numbers.push_back(number_of(rank));
    arrivals.push_back(reinterpret_cast<std::uint64_t*>(memory->base(rank)));
    boards.push_back(reinterpret_cast<PeerGroup::Board*>(memory->base(rank) + board_at));
    slots.push_back(memory->base(rank) + slots_at);
  }
  const auto barrier =
      std::make_shared<Barrier>(membership(), std::move(numbers), std::move(arrivals), memory);
  MPI_Comm split = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, ranks.front(), barrier->position(), &split), "MPI_Comm_split");
  MPI_Comm_set_errhandler(split, MPI_ERRORS_RETURN);
  return {std::make_shared<CopyGroup>(barrier, std::move(slots)),
          std::make_shared<PeerGroup>(barrier, ranks, std::move(boards), allocations_),
          make_mpi_group(split, barrier)};
}

}  // namespace coconet::jit
