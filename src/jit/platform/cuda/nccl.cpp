// Loading NCCL.
#include "jit/platform/cuda/nccl.h"

#include <vector>

#include "jit/platform/shared_library.h"

namespace coconet::jit {

namespace {

// ncclCommInitRankConfig and communicators that do not block came with 2.14.
constexpr int least_version = 21400;

// major * 10000 + minor * 100 + patch since 2.9; before, major * 1000.
std::string version_text(int number) {
  const int unit = number < 10000 ? 1000 : 10000;
  return std::to_string(number / unit) + "." + std::to_string(number % unit / 100) + "." +
         std::to_string(number % 100);
}

Nccl load() {
  Nccl nccl;
  const SharedLibrary file({"libnccl.so.2"});
  if (!file.is_open()) {
    nccl.unavailable = file.problem();
    return nccl;
  }
  std::vector<std::string> missing;
#define COCONET_FIND(member, function) file.find(#function, nccl.member, missing);
  COCONET_NCCL_FUNCTIONS(COCONET_FIND)
#undef COCONET_FIND
  if (nccl.get_version == nullptr || nccl.get_version(&nccl.number) != ncclSuccess) {
    nccl.number = 0;
    nccl.unavailable = "libnccl.so.2 is there and does not tell its version";
  } else if (nccl.number < least_version) {
    nccl.unavailable =
        "libnccl.so.2 is " + version_text(nccl.number) + ", and 2.14 or later is needed";
  } else if (!missing.empty()) {
    nccl.unavailable = "libnccl.so.2 is there and has no function " + missing.front();
  }
  return nccl;
}

}  // namespace

const Nccl& loaded_nccl() {
  static const Nccl loaded = load();
  return loaded;
}

NcclFacts nccl_facts() {
  const Nccl& nccl = loaded_nccl();
  return {nccl.number > 0 ? version_text(nccl.number) : std::string(), nccl.unavailable};
}

}  // namespace coconet::jit
