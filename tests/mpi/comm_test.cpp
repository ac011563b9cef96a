// The MPI world, on all ranks of an mpirun: every rank runs the same checks.
#include <catch2/catch.hpp>

#include "coconet/mesh.h"
#include "coconet/world.h"
#include "jit/comm/access.h"
#include "jit/comm/checks_16_bit.h"
#include "jit/comm/collectives/direct_collectives.h"
#include "jit/comm/comm_checks.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/mpi/world.h"
#include "sample.h"

using namespace coconet;

TEST_CASE("the mpi world does what every world does") {
  const auto comm = jit::make_mpi_comm();
  CHECK(comm->kind() == "mpi");
  CHECK(comm->ranks_per_core() >= 1);
  REQUIRE_NOTHROW(test::check_world(*comm));
}

TEST_CASE("messages that are longer than a copy arrive piece by piece, and by MPI") {
  const auto comm = jit::make_mpi_comm();
  const std::vector<int> all = test::all_ranks(*comm);
  test::Group group(*comm);
  for (const DType dtype : all_dtypes) {
    std::vector<std::size_t> counts(all.begin(), all.end());
    counts[0] = jit::DirectCollectives::capacity / size_of(dtype) + 1;
    for (const Reduction reduction : test::reductions_of(dtype)) {
      if (!test::draw()) continue;
      for (const bool by_mpi : {false, true}) {
        group.go_by_mpi(by_mpi);
        REQUIRE_NOTHROW(test::check_collectives(group, counts, dtype, reduction));
      }
    }
  }
  REQUIRE_NOTHROW(test::check_edges(*comm, jit::DirectCollectives::capacity + 1));
}

TEST_CASE("16-bit floats of processes are added in f32 and rounded once, whichever way they go") {
  REQUIRE_NOTHROW(test::check_16_bit(*jit::make_mpi_comm()));
}

TEST_CASE("collectives give the same by whatever way they are told to go") {
  const auto comm = jit::make_mpi_comm();
  test::Group group(*comm);
  const std::size_t always = jit::CollectiveWays::always;
  const auto memory = comm->allocate(std::size_t{1} << 20);
  std::byte* const own = memory->base(comm->rank());
  for (const jit::CollectiveWays& ways :
       {jit::CollectiveWays{0, 0}, jit::CollectiveWays{always, always}}) {
    comm->set_ways(ways);
    const std::vector<std::size_t> counts(group.size(), 700);
    REQUIRE_NOTHROW(test::check_collectives(group, counts, f32, Reduction::sum));
    REQUIRE_NOTHROW(test::check_collectives(group, counts, f32, Reduction::sum, own,
                                            own + (std::size_t{1} << 19)));
    REQUIRE_NOTHROW(test::check_edges(*comm, 700));
    REQUIRE_NOTHROW(test::check_calls_at_once(group, 70000, own, own + (std::size_t{1} << 19)));
  }
}

TEST_CASE(
    "tensors in peer memory are reduced where they are, and others in copies, by one decision of "
    "all ranks") {
  const auto comm = jit::make_mpi_comm();
  std::vector<int> down = test::all_ranks(*comm);
  std::ranges::reverse(down);
  test::Group group(*comm, down);
  const int rank = group.rank();
  const auto memory = comm->allocate(std::size_t{32} << 20);
  std::byte* const shared_in = memory->base(comm->rank());
  // Not at the same place on all ranks.
  std::byte* const shared_out =
      shared_in + (std::size_t{16} << 20) + static_cast<std::size_t>(comm->rank()) * 64;
  for (const std::size_t length : {1500, 100001}) {
    std::vector<std::size_t> counts(down.begin(), down.end());
    counts[0] = length;
    for (const DType dtype : all_dtypes) {
      for (const Reduction reduction : test::reductions_of(dtype)) {
        if (!test::draw()) continue;
        REQUIRE_NOTHROW(
            test::check_collectives(group, counts, dtype, reduction, shared_in, shared_out));
      }
    }
    // One rank's result, or its operand, is where the others cannot reach it.
    test::Bytes own((length + 100) * 8);
    const bool first = rank == 0;
    REQUIRE_NOTHROW(test::check_collectives(group, counts, f32, Reduction::sum, shared_in,
                                            first ? own.data() : shared_out));
    REQUIRE_NOTHROW(test::check_collectives(group, counts, f32, Reduction::sum,
                                            first ? own.data() : shared_in, shared_out));
  }
  // So long that the others' results are written past the caches; at its end, what fills no vector.
  const std::vector<std::size_t> long_counts(down.size(), (std::size_t{1} << 20) / down.size() + 3);
  for (const DType dtype : {f32, f16, u8})
    REQUIRE_NOTHROW(
        test::check_collectives(group, long_counts, dtype, Reduction::sum, shared_in, shared_out));
  // Many at once: where they are, though no line of the caches begins with them, and in copies.
  constexpr std::size_t many = 500000, odd = sizeof(float);
  REQUIRE_NOTHROW(test::check_calls_at_once(group, many, shared_in + odd, shared_out + odd));
  test::Bytes own((many + 1) * sizeof(float));
  REQUIRE_NOTHROW(test::check_calls_at_once(group, many, own.data(), shared_out + odd));
  REQUIRE_NOTHROW(test::check_calls_at_once(group, many, shared_in, own.data() + odd));
  // Some of them where the others cannot reach them, on one rank.
  constexpr std::size_t each = 20000;
  REQUIRE_NOTHROW(test::check_mixed_memory(group, each, shared_in, shared_out,
                                           rank == 0 ? own.data() : nullptr));
  // Every rank's tensors are in peer memory, but not of the same allocation.
  const auto other = comm->allocate(std::size_t{1} << 20);
  std::byte* const elsewhere = rank == 0 ? other->base(comm->rank()) : shared_in;
  REQUIRE_NOTHROW(test::check_collectives(group, std::vector<std::size_t>(down.size(), 5000), f32,
                                          Reduction::sum, elsewhere, shared_out));
}

TEST_CASE("there is one mpi world in a process") {
  CHECK(jit::Access::comm(World::mpi()) == jit::Access::comm(World::mpi()));
  CHECK(Mesh::over(World::mpi()).size() == World::mpi().size());
}

TEST_CASE("ranks share memory with and without a name") {
  const auto comm = jit::make_mpi_comm();
  if (comm->nodes().count() > 1) return;
  const std::vector<int>& all = comm->nodes().beside(0);
  const jit::Exchange exchange = [&](std::string_view mine) { return comm->all_gather(mine); };
  for (const auto kind : {jit::SharedFile::memfd, jit::SharedFile::shm}) {
    const auto memory = jit::map_across_processes(comm->rank(), all, 1000, exchange, kind);
    const int next = (comm->rank() + 1) % comm->size();
    memory->base(next)[999] = static_cast<std::byte>(comm->rank() + 1);
    comm->barrier();
    const int previous = (comm->rank() + comm->size() - 1) % comm->size();
    CHECK(memory->base(comm->rank())[999] == static_cast<std::byte>(previous + 1));
    comm->barrier();
  }
}
