// Loading cuBLASLt.
#include "jit/platform/cuda/cublas.h"

#include <vector>

#include "jit/platform/shared_library.h"

namespace coconet::jit {

namespace {

// The header's types are those of one major version.
constexpr const char* file_name = CUBLAS_VER_MAJOR >= 13   ? "libcublasLt.so.13"
                                  : CUBLAS_VER_MAJOR == 12 ? "libcublasLt.so.12"
                                                           : "libcublasLt.so.11";

Cublas load() {
  Cublas cublas;
  const SharedLibrary file({file_name});
  if (!file.is_open()) {
    cublas.unavailable = file.problem();
    return cublas;
  }
  std::vector<std::string> missing;
#define COCONET_FIND(member, function) file.find(#function, cublas.member, missing);
  COCONET_CUBLAS_FUNCTIONS(COCONET_FIND)
#undef COCONET_FIND
  if (!missing.empty()) {
    cublas.unavailable =
        std::string(file_name) + " is there and has no function " + missing.front();
    return cublas;
  }
  // major * 10000 + minor * 100 + patch
  const std::size_t number = cublas.get_version();
  cublas.version = std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) +
                   "." + std::to_string(number % 100);
  return cublas;
}

}  // namespace

const Cublas& loaded_cublas() {
  static const Cublas loaded = load();
  return loaded;
}

CublasFacts cublas_facts() {
  const Cublas& cublas = loaded_cublas();
  return {cublas.version, cublas.unavailable};
}

}  // namespace coconet::jit
