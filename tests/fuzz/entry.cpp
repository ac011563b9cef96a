// libFuzzer's entry point, for the target that the build names.
#include <algorithm>

#include "coconet/log.h"
#include "fuzz/targets.h"
#include "jit/config/log.h"

// NOLINTNEXTLINE: the name is libFuzzer's
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  (void)coconet::jit::set_log_level("off");
  return 0;
}

// NOLINTNEXTLINE: the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coconet::fuzz;
  static const Target& target =
      *std::ranges::find(targets, std::string_view(FUZZ_TARGET), &Target::name);
  (void)run(target, {data, size});
  return 0;
}
