// The emulated driver's controls, for tests in the same process.
#pragma once

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace coconet::test {

/// A stand-in library, found by its file as the library itself finds it, and the controls that all
/// of them have.
class Stub {
 public:
  /// `name` begins the controls' names: "stub_cuda".
  Stub(const char* file, const char* name)
      : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)), name_(name) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  template <class Function>
  [[nodiscard]] Function* find(const std::string& symbol) const {
    auto* const found = reinterpret_cast<Function*>(dlsym(handle_, symbol.c_str()));
    if (found == nullptr) throw std::runtime_error("the stub has no " + symbol);
    return found;
  }

  /// Its calls are counted from here on.
  void clear() const { find<void()>(name_ + "_clear")(); }
  /// The calls since the last `clear`, one each.
  [[nodiscard]] std::vector<std::string> calls() const {
    std::istringstream text(find<const char*()>(name_ + "_calls")());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  /// The call of `function` after `skip` more of them gives `result`.
  void fail(const char* function, int skip, int result) const {
    find<void(const char*, int, int)>(name_ + "_fail")(function, skip, result);
  }

 private:
  void* handle_;  // stays open: the library under test has it open, too
  std::string name_;
};

namespace stub_cuda {

inline const Stub& library() {
  static const Stub stub(COCONET_STUBS_DIR "/libcuda.so.1", "stub_cuda");
  return stub;
}
inline void clear() {
  library().clear();
}
inline std::vector<std::string> calls() {
  return library().calls();
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
  library().fail(function, skip, result);
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
/// What is alive of everything that an executable makes: "streams=1 events=2 ...".
inline std::string live() {
  std::string counts;
  for (const char* what :
       {"streams", "events", "graphs", "bytes", "pinned", "physical", "multicasts", "reserved"}) {
    counts += std::string(counts.empty() ? "" : " ") + what + "=" + std::to_string(live(what));
  }
  return counts;
}

}  // namespace stub_cuda

namespace stub_nccl {

inline const Stub& library() {
  static const Stub stub(COCONET_STUBS_DIR "/libnccl.so.2", "stub_nccl");
  return stub;
}
inline void clear() {
  library().clear();
}
inline std::vector<std::string> calls() {
  return library().calls();
}
inline void fail(const char* function, int skip, int result) {
  library().fail(function, skip, result);
}
inline void async(int result) {
  library().find<void(int)>("stub_nccl_async")(result);
}
inline long long live() {
  return library().find<long long()>("stub_nccl_live")();
}

}  // namespace stub_nccl

}  // namespace coconet::test
