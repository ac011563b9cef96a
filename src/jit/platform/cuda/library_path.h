// Where a shared library would be loaded from, without loading it.
#pragma once

#include <filesystem>
#include <initializer_list>

namespace coconet::jit {

/// The file of the first of `names` that is found: in a directory of COCONET_CUDA_PATH, of
/// LD_LIBRARY_PATH or of the system's loader, in $CUDA_HOME/lib64, or in /usr/local/cuda/lib64.
/// Empty when none is.
[[nodiscard]] std::filesystem::path locate_library(std::initializer_list<const char*> names);

}  // namespace coconet::jit
