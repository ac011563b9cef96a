// Messages go from each rank to each rank of the other nodes that it concerns: nobody passes on
// what another one says, so that a rank that is late is missed by its own name, and only as long as
// it is late.
#include "jit/mpi/link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "coconet/error.h"
#include "jit/mpi/collectives.h"

namespace coconet::jit {

namespace {

enum Tag : int { arrival_tag, status_tag };

constexpr std::chrono::seconds patience{1};

}  // namespace

MpiLink::MpiLink(MPI_Comm world, std::vector<int> far) : world_(world), far_(std::move(far)) {
  for (const int rank : far_) statuses_[rank] = {};
}

void MpiLink::send(const std::vector<int>& ranks, int tag, const void* data, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  for (const int rank : ranks) {
    sendings_.push_back({MPI_REQUEST_NULL, {first, first + bytes}});
    auto& [request, kept] = sendings_.back();
    check_mpi(
        MPI_Isend(kept.data(), static_cast<int>(bytes), MPI_BYTE, rank, tag, world_, &request),
        "MPI_Isend");
  }
  (void)told();
}

bool MpiLink::told() {
  for (auto sending = sendings_.begin(); open_ && sending != sendings_.end();) {
    int done = 0;
    check_mpi(MPI_Test(&sending->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    sending = done != 0 ? sendings_.erase(sending) : std::next(sending);
  }
  return sendings_.empty();
}

void MpiLink::tell_arrival(const std::vector<int>& ranks, std::uint64_t number,
                           std::uint64_t arrival) {
  const Arrival message{number, arrival};
  if (open_) send(ranks, arrival_tag, &message, sizeof message);
}

void MpiLink::tell_state(const RankStatus& status) noexcept {
  if (!open_) return;
  try {
    send(far_, status_tag, &status, sizeof status);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!told() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  } catch (const Error&) {
    // The others miss this rank when their time is over.
  }
}

void MpiLink::poll() {
  for (;;) {
    if (!open_) return;
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, world_, &found, &message, &status),
              "MPI_Improbe");
    if (found == 0) return;
    if (status.MPI_TAG == arrival_tag) {
      Arrival arrived{};
      check_mpi(MPI_Mrecv(&arrived, sizeof arrived, MPI_BYTE, &message, MPI_STATUS_IGNORE),
                "MPI_Mrecv");
      *arrival(arrived.number, status.MPI_SOURCE) = arrived.arrival;
    } else {
      check_mpi(MPI_Mrecv(status_of(status.MPI_SOURCE), sizeof(RankStatus), MPI_BYTE, &message,
                          MPI_STATUS_IGNORE),
                "MPI_Mrecv");
    }
  }
}

}  // namespace coconet::jit
