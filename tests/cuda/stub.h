// The emulated driver's controls, for tests in the same process.
#pragma once

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
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
  /// Those of `function`.
  [[nodiscard]] std::vector<std::string> calls(const std::string& function) const {
    std::vector<std::string> found = calls();
    std::erase_if(found,
                  [&](const std::string& line) { return !line.starts_with(function + " "); });
    return found;
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
inline std::vector<std::string> calls(const std::string& function) {
  return library().calls(function);
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

/// A stream of the application on the current GPU. Its calls return 0 where the driver has no
/// objection.
class OwnStream {
 public:
  OwnStream() {
    if (library().find<int(void**, unsigned)>("cuStreamCreate")(&stream_, 1) != 0)
      throw std::runtime_error("no stream");
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() {
    if (stream_ != nullptr) (void)destroy();
  }

  [[nodiscard]] void* get() const { return stream_; }
  [[nodiscard]] int synchronize() const {
    return library().find<int(void*)>("cuStreamSynchronize")(stream_);
  }
  [[nodiscard]] int begin_capture() const {
    return library().find<int(void*, int)>("cuStreamBeginCapture_v2")(stream_, 2);
  }
  /// Drops what was captured.
  [[nodiscard]] int end_capture() const {
    void* graph = nullptr;
    const int ended = library().find<int(void*, void**)>("cuStreamEndCapture")(stream_, &graph);
    return ended != 0 ? ended : library().find<int(void*)>("cuGraphDestroy")(graph);
  }
  [[nodiscard]] int destroy() {
    return library().find<int(void*)>("cuStreamDestroy_v2")(std::exchange(stream_, nullptr));
  }

 private:
  void* stream_ = nullptr;
};

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
inline std::vector<std::string> calls(const std::string& function) {
  return library().calls(function);
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
