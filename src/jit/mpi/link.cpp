// Messages go from each rank to each rank of the other nodes that it concerns: nobody passes on
// what another one says, so that a rank that is late is missed by its own name, and only as long as
// it is late.
#include "jit/mpi/link.h"

#include <chrono>
#include <thread>

#include "jit/mpi/door.h"

namespace coconet::jit {

namespace {

enum Tag : int { arrival_tag, status_tag };

constexpr std::chrono::seconds patience{1};

}  // namespace

MpiLink::MpiLink(std::vector<int> far) : far_(std::move(far)) {
  for (const int rank : far_) statuses_[rank] = {};
}

void MpiLink::open(MPI_Comm world, Membership& membership) {
  world_ = world;
  membership_ = &membership;
  open_ = true;
}

void MpiLink::send(const std::vector<int>& ranks, int tag, const void* data, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  for (const int rank : ranks) {
    sendings_.push_back({MPI_REQUEST_NULL, {first, first + bytes}});
    auto& sending = sendings_.back();
    call_mpi(*membership_, "MPI_Isend", [&] {
      return MPI_Isend(sending.bytes.data(), static_cast<int>(bytes), MPI_BYTE, rank, tag, world_,
                       &sending.request);
    });
  }
  (void)told();
}

bool MpiLink::told() {
  for (auto sending = sendings_.begin(); open_ && sending != sendings_.end();) {
    const bool done = is_done(*membership_, sending->request);
    sending = done ? sendings_.erase(sending) : std::next(sending);
  }
  return sendings_.empty();
}

void MpiLink::tell_arrival(const std::vector<int>& ranks, std::uint64_t number,
                           std::uint64_t arrival) {
  const Arrival message{number, arrival};
  if (open_) send(ranks, arrival_tag, &message, sizeof message);
}

void MpiLink::tell_state(int rank, const RankStatus& status) noexcept {
  if (!open_) return;
  try {
    const StatusNotice notice{rank, status};
    send(far_, status_tag, &notice, sizeof notice);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!told() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  } catch (const std::exception&) {
    // The others miss this rank when their time is over.
  }
}

// What a rank says of itself is all there is; what others say of it is that it has ended or
// stopped.
void MpiLink::take_notice(const StatusNotice& notice, int from) {
  RankStatus& status = *status_of(notice.rank);
  if (notice.rank == from) {
    const auto [ended, stopped] = std::pair(status.ended, status.stopped);
    status = notice.status;
    status.ended |= ended;
    status.stopped |= stopped;
    return;
  }
  status.ended |= notice.status.ended;
  status.stopped |= notice.status.stopped;
  if (status.state == 0) status.state = notice.status.state;
}

void MpiLink::poll() {
  for (;;) {
    if (!open_) return;
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    call_mpi(*membership_, "MPI_Improbe", [&] {
      return MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, world_, &found, &message, &status);
    });
    if (found == 0) return;
    const auto take = [&](auto& data) {
      call_mpi(*membership_, "MPI_Mrecv", [&] {
        return MPI_Mrecv(&data, sizeof data, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      });
    };
    if (status.MPI_TAG == arrival_tag) {
      Arrival arrived{};
      take(arrived);
      *arrival(arrived.number, status.MPI_SOURCE) = arrived.arrival;
    } else {
      StatusNotice notice{};
      take(notice);
      take_notice(notice, status.MPI_SOURCE);
    }
  }
}

}  // namespace coconet::jit
