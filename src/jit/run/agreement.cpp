// Comparing what ranks give, by digests.
#include "jit/run/agreement.h"

#include <fmt/format.h>

#include "coconet/error.h"
#include "jit/cache/digest.h"

namespace coconet::jit {

std::string text_of(const std::map<std::string, std::int64_t>& sizes) {
  std::vector<std::string> text;
  for (const auto& [name, extent] : sizes) text.push_back(fmt::format("{}={}", name, extent));
  return fmt::format("{}", fmt::join(text, ", "));
}

std::string text_of(const ir::Lists& lists) {
  std::vector<std::string> text;
  for (const auto& [name, lengths] : lists)
    text.push_back(fmt::format("{}: {}", name, fmt::join(lengths, " ")));
  return fmt::format("{}", fmt::join(text, ", "));
}

void require_agreement(Comm& comm, const std::string& rule, std::span<const Given> given) {
  if (comm.size() == 1) return;
  std::string digests;
  for (const Given& one : given) digests += sha256_hex(one.text);
  const std::vector<std::string> others = comm.all_gather(digests);
  const std::size_t length = digests.size() / given.size();
  for (std::size_t part = 0; part < given.size(); ++part) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 1; rank < others.size(); ++rank) {
      if (others[rank].compare(part * length, length, others[0], part * length, length) != 0)
        ranks.push_back(rank);
    }
    if (ranks.empty()) continue;
    throw CommError(fmt::format("{}, but rank{} {} {} {} than rank 0; rank {} has {}", rule,
                                ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "),
                                ranks.size() > 1 ? "have" : "has", given[part].difference,
                                comm.rank(), given[part].shown));
  }
}

}  // namespace coconet::jit
