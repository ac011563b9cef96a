// The host backend: kernels are shared objects made by the system C++ compiler and loaded from memory.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/backend/backend.h"
#include "jit/compile/host_compiler.h"

namespace coconet::jit {

namespace {

/// A file in memory with the shared object's bytes. It stays open as long as the object is loaded: the loader knows
/// objects by path, and /proc/self/fd/N must not come to name another one.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes, const std::string& name)
      : descriptor_(memfd_create(name.c_str(), MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail(name);
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        const int error = errno;
        close(descriptor_);
        errno = error;
        fail(name);
      }
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  [[noreturn]] static void fail(const std::string& name) {
    throw BackendError("kernel '" + name + "' cannot be put into memory: " + std::strerror(errno));
  }
  int descriptor_;
};

class HostKernel final : public Kernel {
 public:
  HostKernel(std::string_view binary, const std::string& entry)
      : file_(binary, entry), object_(dlopen(file_.path().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (object_ == nullptr)
      throw BackendError("kernel '" + entry + "' cannot be loaded: " + dlerror());
    entry_ = reinterpret_cast<Entry>(dlsym(object_, entry.c_str()));
    if (entry_ == nullptr) {
      dlclose(object_);
      throw BackendError("the binary of kernel '" + entry + "' has no such entry point");
    }
  }
  ~HostKernel() override { dlclose(object_); }
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

  void launch(std::span<const std::uint64_t> words, int blocks) const override {
    for (long long block = 0; block < blocks; ++block) entry_(words.data(), block, blocks);
  }

 private:
  using Entry = void (*)(const void* arguments, long long block, long long blocks);
  MemoryFile file_;
  void* object_;
  Entry entry_ = nullptr;
};

class HostBackend final : public Backend {
 public:
  HostBackend() : compiler_(config().cxx, config().cxx_flags, config().compile_timeout) {}

  [[nodiscard]] std::string_view name() const override { return "host"; }
  [[nodiscard]] const Compiler& compiler() const override { return compiler_; }
  [[nodiscard]] std::shared_ptr<const Kernel> load(std::string_view binary,
                                                   const std::string& entry) const override {
    return load_host_kernel(binary, entry);
  }

 private:
  HostCompiler compiler_;
};

}  // namespace

const Backend& host_backend() {
  static const HostBackend backend;
  return backend;
}

std::shared_ptr<const Kernel> load_host_kernel(std::string_view binary, const std::string& entry) {
  return std::make_shared<HostKernel>(binary, entry);
}

}  // namespace coconet::jit
