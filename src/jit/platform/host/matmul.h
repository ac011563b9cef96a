// Matmuls on the host, by OpenBLAS.
#pragma once

#include <cstdint>
#include <memory>

#include "jit/platform/platform.h"

namespace coconet::jit {

/// Rows of the tiles in which a product of `rows` rows is made. They are the same where nothing
/// waits for them, because OpenBLAS adds in another order for fewer rows.
[[nodiscard]] std::int64_t rows_of_host_tile(std::int64_t rows);

/// Throws BackendError when there is no OpenBLAS.
[[nodiscard]] std::unique_ptr<LibraryMatmul> make_host_matmul(MatmulShape shape);

}  // namespace coconet::jit
