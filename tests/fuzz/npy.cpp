// NumPy's files.
#include "cli/npy.h"

#include "fuzz/targets.h"

namespace coconet::fuzz {

void fuzz_npy(Bytes bytes) {
  const cli::NpyArray array = cli::parse_npy(text_of(bytes), "fuzz.npy");
  std::size_t elements = 1;
  for (const std::int64_t extent : array.shape) {
    require(extent >= 0, "no extent is negative");
    elements *= static_cast<std::size_t>(extent);
  }
  require(array.elements.size() == elements * size_of(array.dtype),
          "an array has the elements that its shape says");
  const cli::NpyArray again = cli::parse_npy(cli::npy_text(array), "again.npy");
  require(
      again.dtype == array.dtype && again.shape == array.shape && again.elements == array.elements,
      "an array survives its file");
}

}  // namespace coconet::fuzz
