// Finding NCCL at run time, and what its results say.
#include "jit/platform/cuda/nccl_library.h"

#include <fmt/format.h>

#include "coconet/error.h"
#include "jit/platform/cuda/facts.h"
#include "jit/platform/cuda/libraries.h"

namespace coconet::jit {
namespace {

// ncclCommInitRankConfig and communicators that do not block came with 2.14.
constexpr int least_nccl = 21400;

// major * 10000 + minor * 100 + patch since 2.9; before, major * 1000.
std::string version_text(int number) {
  const int unit = number < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", number / unit, number % unit / 100, number % 100);
}

Nccl load_nccl() {
  Nccl nccl;
  const SharedLibrary file({"libnccl.so.2"});
  nccl.file = file.file();
  const std::vector<std::string> missing = nccl.NcclFunctions::find_in(file);
  const bool has_windows = nccl.WindowFunctions::find_in(file).empty();
  int number = 0;
  const bool told = nccl.get_version != nullptr && nccl.get_version(&number) == ncclSuccess;
  if (told) nccl.version = version_text(number);
  nccl.has_windows = has_windows && number >= least_version_of_windows;
  if (!file.is_open()) {
    nccl.problem = file.problem();
  } else if (!told) {
    nccl.problem = "libnccl.so.2 is there and does not tell its version";
  } else if (number < least_nccl) {
    nccl.problem = "libnccl.so.2 is " + nccl.version + ", and 2.14 or later is needed";
  } else if (!missing.empty()) {
    nccl.problem = "libnccl.so.2 is there and has no function " + missing.front();
  }
  return nccl;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl loaded = load_nccl();
  return loaded;
}

bool is_fine(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

void require(ncclResult_t result, std::string_view call) {
  if (is_fine(result)) return;
  const char* const last = nccl().last_error(nullptr);
  const bool explained = last != nullptr && *last != '\0';
  throw CommError(fmt::format("{} failed: {}{}", call, nccl().error_string(result),
                              explained ? fmt::format(" ({})", last) : ""));
}

LibraryFacts nccl_facts() {
  return nccl();
}

bool nccl_has_windows() {
  return nccl().problem.empty() && nccl().has_windows;
}

}  // namespace coconet::jit
