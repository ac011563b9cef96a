// Errors of MPI, and calls that make and free communicators, which have no form that does not wait.
#include "jit/mpi/door.h"

#include <fmt/format.h>

#include <array>

#include "coconet/error.h"

namespace coconet::jit {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  throw CommError(
      fmt::format("{} failed on rank {}: {}", call, rank, std::string_view(text.data(), length)));
}

bool is_done(Membership& membership, MPI_Request& request) {
  int done = 0;
  call_mpi(membership, "MPI_Test", [&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
  return done != 0;
}

namespace {

struct PrivateMembership {
  PrivateMembership(int rank, int ranks, std::chrono::milliseconds timeout)
      : statuses(ranks), notices(ranks) {
    std::vector<RankStatus*> of_ranks;
    for (RankStatus& status : statuses) of_ranks.push_back(&status);
    std::vector<std::uint64_t*> tables(ranks);
    tables[rank] = notices.data();
    membership = std::make_unique<Membership>(rank, std::move(of_ranks), std::move(tables),
                                              Waiting{timeout});
  }

  std::vector<RankStatus> statuses;
  std::vector<std::uint64_t> notices;
  std::unique_ptr<Membership> membership;
};

}  // namespace

std::shared_ptr<Membership> make_private_membership(int rank, int ranks,
                                                    std::chrono::milliseconds timeout) {
  const auto made = std::make_shared<PrivateMembership>(rank, ranks, timeout);
  return {made, made->membership.get()};
}

MPI_Comm OwnComms::split(MPI_Comm comm, int color, int key) {
  MPI_Comm made = MPI_COMM_NULL;
  call_mpi(*membership_, "MPI_Comm_split", [&] { return MPI_Comm_split(comm, color, key, &made); });
  if (made == MPI_COMM_NULL) return made;
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  made_.push_back(made);
  return made;
}

void OwnComms::free() {
  for (MPI_Comm& comm : made_)
    call_mpi(*membership_, "MPI_Comm_free", [&] { return MPI_Comm_free(&comm); });
  made_.clear();
}

}  // namespace coconet::jit
