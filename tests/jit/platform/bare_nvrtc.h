// NVRTC without the library: for what the library has no use for, and to compare with.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/shared_library.h"

namespace coconet::test {

class BareNvrtc {
 public:
  BareNvrtc() {
    if (!nvrtc_.is_open() || !jit::nvrtc::is_available()) return;
    std::vector<std::string> missing;
    nvrtc_.find("nvrtcCreateProgram", create_, missing);
    nvrtc_.find("nvrtcCompileProgram", compile_, missing);
    nvrtc_.find("nvrtcGetProgramLogSize", log_size_, missing);
    nvrtc_.find("nvrtcGetProgramLog", log_, missing);
    nvrtc_.find("nvrtcGetPTXSize", ptx_size_, missing);
    nvrtc_.find("nvrtcGetPTX", ptx_, missing);
    nvrtc_.find("nvrtcGetCUBINSize", cubin_size_, missing);
    nvrtc_.find("nvrtcGetCUBIN", cubin_, missing);
    nvrtc_.find("nvrtcDestroyProgram", destroy_, missing);
    REQUIRE(missing == std::vector<std::string>());
    is_here_ = true;
  }
  [[nodiscard]] bool is_here() const { return is_here_; }

  [[nodiscard]] std::string ptx(const std::string& source,
                                const std::vector<std::string>& options) const {
    return compiled(source, options, ptx_size_, ptx_);
  }
  [[nodiscard]] std::string cubin(const std::string& source,
                                  const std::vector<std::string>& options) const {
    return compiled(source, options, cubin_size_, cubin_);
  }

 private:
  using Size = int (*)(void*, std::size_t*);
  using Bytes = int (*)(void*, char*);

  static std::string fetch(void* program, Size size, Bytes bytes) {
    std::size_t count = 0;
    REQUIRE(size(program, &count) == 0);
    std::string text(count, ' ');
    REQUIRE(bytes(program, text.data()) == 0);
    return text;
  }

  std::string compiled(const std::string& source, const std::vector<std::string>& options,
                       Size size, Bytes bytes) const {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    void* program = nullptr;
    REQUIRE(create_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr) == 0);
    const int code = compile_(program, static_cast<int>(pointers.size()), pointers.data());
    INFO(fetch(program, log_size_, log_));
    REQUIRE(code == 0);
    std::string result = fetch(program, size, bytes);
    REQUIRE(destroy_(&program) == 0);
    return result;
  }

  jit::SharedLibrary nvrtc_{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  bool is_here_ = false;
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  Size log_size_ = nullptr;
  Bytes log_ = nullptr;
  Size ptx_size_ = nullptr;
  Bytes ptx_ = nullptr;
  Size cubin_size_ = nullptr;
  Bytes cubin_ = nullptr;
  int (*destroy_)(void**) = nullptr;
};

}  // namespace coconet::test
