// Whether all ranks give a collective call the same.
#pragma once

#include <map>
#include <span>
#include <string>

#include "ir/lists.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

/// Something that ranks give to a call.
struct Given {
  std::string difference;  ///< what a rank has that gave another text: "other sizes"
  std::string text;        ///< the same on all ranks
  std::string shown;       ///< the rank's own, for people: "sizes n=17"
};

/// Collective: throws CommError on every rank when ranks give other texts than rank 0, naming them.
/// `rule` begins the sentence: "all ranks must compile the same".
void require_agreement(Comm& comm, const std::string& rule, std::span<const Given> given);

/// "m=3, n=17".
[[nodiscard]] std::string text_of(const std::map<std::string, std::int64_t>& sizes);
/// The lengths of all buffers, "n: 3 1".
[[nodiscard]] std::string text_of(const ir::Lists& lists);

}  // namespace coconet::jit
