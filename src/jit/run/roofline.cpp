// The copy that rooflines are measured with.
#include "jit/run/roofline.h"

#include <algorithm>
#include <bit>
#include <string>

namespace coconet::jit {

double Roofline::copy_ms(Comm& comm, const Platform& platform, std::uint64_t bytes) {
  // Slices differ by rank; all ranks must measure the same size together.
  std::uint64_t largest = bytes;
  for (const std::string& other : comm.all_gather(std::to_string(bytes)))
    largest = std::max<std::uint64_t>(largest, std::stoull(other));
  const int exponent = std::clamp(static_cast<int>(std::bit_width(largest)) - 1, 10, 28);
  const auto known = ms_per_byte_.find(exponent);
  if (known != ms_per_byte_.end()) return known->second * static_cast<double>(bytes);

  const std::size_t half = std::size_t{1} << (exponent - 1);
  std::shared_ptr<Memory> from, to;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Event> begin, end;
  together(comm, [&] {
    from = platform.allocate(half);
    to = platform.allocate(half);
    queue = platform.make_queue();
    begin = platform.make_event();
    end = platform.make_event();
    queue->zero(from->data(), half);  // backed by pages from here on
    queue->zero(to->data(), half);
    queue->finish();
  });
  // Some milliseconds a pass, or one copy; a GPU's copies each take microseconds to begin.
  const std::size_t most = platform.traits().immediate ? std::size_t{1} << 13 : 32;
  const std::size_t copies = std::clamp<std::size_t>((std::size_t{1} << 22) / half, 1, most);
  double best = 0;
  for (int pass = 0; pass < 7; ++pass) {
    begin->record(*queue);
    for (std::size_t i = 0; i < copies; ++i) queue->copy(to->data(), from->data(), half);
    end->record(*queue);
    queue->finish();
    const double per_byte = static_cast<double>(end->ms_since(*begin)) /
                            static_cast<double>(copies) / static_cast<double>(2 * half);
    best = pass == 0 ? per_byte : std::min(best, per_byte);
  }
  comm.barrier();
  ms_per_byte_[exponent] = best;
  return best * static_cast<double>(bytes);
}

}  // namespace coconet::jit
