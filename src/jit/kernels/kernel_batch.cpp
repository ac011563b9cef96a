// Each kernel gets a namespace, as all of them call their arguments alike.
#include "jit/kernels/kernel_batch.h"

#include <fmt/format.h>

#include <algorithm>

namespace coconet::jit {

void KernelBatch::add(std::string_view text, const std::string& entry,
                      std::span<const std::string> headers) {
  // Every list, and so the merged one, has what a header is written over before it.
  for (const std::string& header : headers) {
    if (std::ranges::find(headers_, header) == headers_.end()) headers_.push_back(header);
  }
  const std::string scope = fmt::format("kernel_{}", entries_.size());
  if (std::ranges::find(entries_, entry) == entries_.end()) {
    kernels_ += fmt::format("namespace {} {{\n{}}}\n", scope, text);
    entries_.push_back(entry);
    return;
  }
  // Entry points are C functions, outside all namespaces; threads' kernels add a C variable.
  entries_.push_back(scope + "_" + entry);
  kernels_ += fmt::format(
      "#define {1} {2}\n#define {1}_state_bytes {2}_state_bytes\n"
      "namespace {0} {{\n{3}}}\n#undef {1}\n#undef {1}_state_bytes\n",
      scope, entry, entries_.back(), text);
}

}  // namespace coconet::jit
