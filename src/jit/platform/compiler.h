// Compilers: how a kernel's text becomes a binary, and what that binary depends on.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/cache/key.h"

namespace coconet::jit {

/// What one kernel takes of a GPU's multiprocessor, as its assembler reports it.
struct KernelResources {
  std::string entry;
  int registers = 0;          ///< per thread
  int stack_bytes = 0;        ///< per thread
  int spill_store_bytes = 0;  ///< per thread
  int spill_load_bytes = 0;   ///< per thread
  int shared_bytes = 0;       ///< per block
};

struct CompileResult {
  bool ok = false;
  std::string binary;                    ///< when ok: a shared object's or a cubin's bytes
  std::string log;                       ///< what the compiler printed
  std::string command;                   ///< the command as one would type it
  std::vector<KernelResources> kernels;  ///< GPUs only
};

/// A kernel as its key sees it.
struct KernelSource {
  std::string_view prelude;  ///< what the prelude is made of, name and digest of every header
  std::string_view text;     ///< the kernel's own, without the prelude
  std::string_view entry;    ///< the entry point's symbol
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// The prelude half that its kernels are written over: "host", "host_threads" or "cuda".
  [[nodiscard]] std::string_view target() const { return facts_.target; }
  /// Whether several kernels in one text, and one binary, take it less time than apart.
  [[nodiscard]] virtual bool has_batches() const { return false; }
  /// `source` with its prelude. A compiler that is a program of its own is stopped after `limit`;
  /// 0: the one that it was made with.
  [[nodiscard]] virtual CompileResult compile(std::string_view source,
                                              std::chrono::milliseconds limit = {}) const = 0;

  /// What kernels take of a GPU, by the log of their compilation; none on the host.
  [[nodiscard]] virtual std::vector<KernelResources> resources(std::string_view log) const {
    (void)log;
    return {};
  }

  /// Everything that the binary of `source` depends on.
  [[nodiscard]] CacheKey key(const KernelSource& source) const;

 protected:
  /// What the binaries of one compiler have in common.
  struct Facts {
    std::string_view target;
    std::string identity;              ///< version and build
    std::string arch;                  ///< instructions of the real machine, "native" resolved
    std::string abi;                   ///< what a binary expects where it is loaded
    std::vector<std::string> options;  ///< in order
    std::string environment;  ///< variables and files that the compiler reads: a line for each
  };
  Facts facts_;
};

/// What `ask` answers about the program or library `file`; remembered in this process's first cache
/// until its path, size, inode or times change. `what` is what is asked: "C++ compiler".
[[nodiscard]] std::string remembered_of(const std::filesystem::path& file, std::string_view what,
                                        const std::function<std::string()>& ask);

/// SHA-256 of a file's content, 64 digits. Throws CompileError when it cannot be read.
[[nodiscard]] std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace coconet::jit
