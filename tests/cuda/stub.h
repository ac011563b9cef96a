// The emulated driver's controls, for tests in the same process.
#pragma once

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace coconet::test {

/// A stand-in library, found by its file as the library itself finds it.
class Stub {
 public:
  explicit Stub(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    auto* const found = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (found == nullptr) throw std::runtime_error(std::string("the stub has no ") + name);
    return found;
  }

 private:
  void* handle_;  // stays open: the library under test has it open, too
};

namespace stub_cuda {

inline const Stub& library() {
  static const Stub stub(COCONET_STUBS_DIR "/libcuda.so.1");
  return stub;
}
inline void clear() {
  library().find<void()>("stub_cuda_clear")();
}
/// The calls since the last `clear`, one each.
inline std::vector<std::string> calls() {
  std::istringstream text(library().find<const char*()>("stub_cuda_calls")());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}
/// Those of `function`.
inline std::vector<std::string> calls(const std::string& function) {
  std::vector<std::string> found;
  for (const std::string& line : calls()) {
    if (line.substr(0, line.find(' ')) == function) found.push_back(line);
  }
  return found;
}
inline void fail(const char* function, int skip, int result) {
  library().find<void(const char*, int, int)>("stub_cuda_fail")(function, skip, result);
}
inline void heal() {
  library().find<void()>("stub_cuda_heal")();
}
inline void hold(bool on) {
  library().find<void(int)>("stub_cuda_hold")(on ? 1 : 0);
}
inline long long live(const char* what) {
  return library().find<long long(const char*)>("stub_cuda_live")(what);
}
/// What is alive of everything that an executable makes.
inline std::map<std::string, long long> live() {
  std::map<std::string, long long> counts;
  for (const char* what :
       {"streams", "events", "graphs", "bytes", "pinned", "physical", "reserved"}) {
    counts[what] = live(what);
  }
  return counts;
}

}  // namespace stub_cuda

namespace stub_nccl {

inline const Stub& library() {
  static const Stub stub(COCONET_STUBS_DIR "/libnccl.so.2");
  return stub;
}
inline void clear() {
  library().find<void()>("stub_nccl_clear")();
}
inline std::vector<std::string> calls() {
  std::istringstream text(library().find<const char*()>("stub_nccl_calls")());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}
inline void fail(const char* function, int skip, int result) {
  library().find<void(const char*, int, int)>("stub_nccl_fail")(function, skip, result);
}
inline void async(int result) {
  library().find<void(int)>("stub_nccl_async")(result);
}
inline long long live() {
  return library().find<long long()>("stub_nccl_live")();
}

}  // namespace stub_nccl

}  // namespace coconet::test
