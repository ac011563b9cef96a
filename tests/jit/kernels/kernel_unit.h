// A batch with all headers of the prelude that kernels may need, for texts that do not say which.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "jit/exchange/algorithm.h"
#include "jit/kernels/kernel_batch.h"

namespace coconet::test {

inline jit::KernelBatch unit_with_all_headers(std::string_view target) {
  // The first three are what the others are written over.
  std::vector<std::string> headers = {"exchange/protocols.h",
                                      "exchange/mailboxes.h",
                                      "exchange/tiles.h",
                                      "philox.h",
                                      "random_words.h",
                                      "exchange/direct.h",
                                      "buckets.h",
                                      "buffers.h",
                                      "segments.h",
                                      "columns.h",
                                      "rows.h",
                                      "strided.h",
                                      "lookups.h",
                                      "functions.h"};
  const auto add = [&](std::string_view header) {
    if (!header.empty() && std::ranges::find(headers, header) == headers.end())
      headers.emplace_back(header);
  };
  for (const jit::Algorithm* algorithm : jit::algorithms()) add(algorithm->header);
  for (const jit::Protocol* protocol : jit::protocols()) add(protocol->header);
  return jit::KernelBatch(target, std::move(headers));
}

}  // namespace coconet::test
