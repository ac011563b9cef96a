// Matmuls on the host: by oneDNN, by OpenBLAS what that lacks, and by loops of this library where a
// side is a vector, at which libraries are slow.
#pragma once

#include <cstdint>
#include <memory>

#include "jit/platform/platform.h"

namespace coconet::jit {

/// Rows of the tiles in which a product of `rows` x `columns` is made. They are the same where
/// nothing waits for them, because libraries add in another order for fewer rows.
[[nodiscard]] std::int64_t rows_of_host_tile(std::int64_t rows, std::int64_t columns);

/// `shape.cores` of the host's threads share out the tiles. Throws BackendError when no library
/// multiplies its dtype.
[[nodiscard]] std::unique_ptr<LibraryMatmul> make_host_matmul(MatmulShape shape);

}  // namespace coconet::jit
