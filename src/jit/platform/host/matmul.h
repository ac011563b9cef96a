// Matmuls on the host, by OpenBLAS: loaded when the first program needs it, so that no other pays
// for its memory and threads.
#pragma once

#include <cstdint>
#include <memory>

#include "jit/platform/platform.h"
#include "jit/platform/shared_library.h"

namespace coconet::jit {

/// Loads OpenBLAS at the first call, and sets it to one thread, as every core has a rank of its
/// own, unless OPENBLAS_NUM_THREADS says otherwise.
[[nodiscard]] LibraryFacts blas_facts();

/// Rows of the tiles in which a product of `rows` rows is made. They are the same where nothing
/// waits for them, because OpenBLAS adds in another order for fewer rows.
[[nodiscard]] std::int64_t rows_of_host_tile(std::int64_t rows);

/// Throws BackendError when there is no OpenBLAS.
[[nodiscard]] std::unique_ptr<LibraryMatmul> make_host_matmul(MatmulShape shape);

}  // namespace coconet::jit
