// The headers of ELF files, as elf(5) has them, and the system's loader.
#include "jit/platform/host/shared_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "coconet/error.h"
#include "jit/config/log.h"

namespace coconet::jit {
namespace {

constexpr int word_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr int byte_order = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

/// The end of `count` pieces of `each` bytes from `begin`; the largest number where that overflows.
std::uint64_t end_of(std::uint64_t begin, std::uint64_t count, std::uint64_t each) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (each != 0 && count > (most - begin) / each) return most;
  return begin + count * each;
}

template <class Header>
Header header_at(std::string_view bytes, std::uint64_t offset) {
  Header header{};
  std::memcpy(&header, bytes.data() + offset, sizeof header);
  return header;
}

/// Memory that holds `bytes` and that nobody changes any more, this process included.
OpenFile sealed_memory(std::string_view bytes, const std::string& name) {
  // The name is for people who read /proc/PID/maps; the system takes 249 bytes.
  OpenFile memory(
      memfd_create(fmt::format("{:.200}", name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  try {
    if (!memory.is_open()) throw_errno("cannot make", name);
    write_bytes(memory.number(), bytes);
  } catch (const std::system_error& error) {
    throw BackendError(
        fmt::format("kernel '{}' cannot be put into memory: {}", name, error.code().message()));
  }
  // Some systems have no seals; others' descriptors do not lead here there, either.
  (void)fcntl(memory.number(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  return memory;
}

/// For dl_iterate_phdr: reads a byte of each page of the object that is loaded at the address
/// `wanted`. ThreadSanitizer, which does not see the loader map these pages, would take them for
/// what another thread had there before.
__attribute__((no_sanitize("thread"))) int touch_pages_at(dl_phdr_info* info, std::size_t,
                                                          void* wanted) {
  if (info->dlpi_addr != *static_cast<const ElfW(Addr)*>(wanted)) return 0;
  const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_R) == 0) continue;
    const ElfW(Addr) first = info->dlpi_addr + segment.p_vaddr;
    for (auto at = first; at < first + segment.p_memsz; at = (at / page + 1) * page)
      (void)*reinterpret_cast<const volatile char*>(at);
  }
  return 1;
}

/// Reads from each page of a loaded object, so that none is missing when its kernel runs. A masked
/// load of constants whose lanes are all off does not make the system bring their page, and each
/// such load takes the processor some 600 cycles as long as that is missing.
void touch_pages(void* object) {
  struct link_map* map = nullptr;
  if (dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) return;
  ElfW(Addr) base = map->l_addr;
  dl_iterate_phdr(touch_pages_at, &base);
}

void* load(const OpenFile& file) {
  return dlopen(fmt::format("/proc/self/fd/{}", file.number()).c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Why the last `load` failed.
std::string reason() {
  const char* const said = dlerror();
  return said != nullptr ? said : "the system's loader does not say why";
}

/// Once in a process: the same holds for every kernel.
void tell_not_loaded_from(const OpenFile& file, const std::string& why) {
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  std::error_code ignored;
  const std::filesystem::path path =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file.number()), ignored);
  log_warn(fmt::format(
      "kernels cannot be loaded from the directory '{}', where profilers would find their symbols: "
      "{}. They are loaded from memory. Is the directory mounted noexec?",
      path.parent_path().string(), why));
}

}  // namespace

std::string shared_object_problem(std::string_view bytes) {
  const auto cut_off = [&](std::uint64_t end) {
    return fmt::format("it is cut off: it has {} bytes, and its headers speak of {}", bytes.size(),
                       end);
  };
  if (!bytes.substr(0, SELFMAG).starts_with(std::string_view(ELFMAG, SELFMAG)))
    return "it is no ELF file";
  if (bytes.size() < sizeof(ElfW(Ehdr))) return cut_off(sizeof(ElfW(Ehdr)));
  const auto file = header_at<ElfW(Ehdr)>(bytes, 0);
  if (file.e_ident[EI_CLASS] != word_class || file.e_ident[EI_DATA] != byte_order)
    return "it is an ELF file for other machines";
  if (file.e_type != ET_DYN) return "it is an ELF file, but no shared object";
  if (file.e_phentsize != sizeof(ElfW(Phdr))) return "its program headers are of another size";

  // The sections come last, and the loader needs none of them, but a file without its end is not
  // what the linker meant to write.
  const std::uint64_t sections =
      file.e_shoff == 0 ? 0 : end_of(file.e_shoff, file.e_shnum, file.e_shentsize);
  const std::uint64_t segments = end_of(file.e_phoff, file.e_phnum, file.e_phentsize);
  std::uint64_t end = std::max(sections, segments);
  if (end > bytes.size()) return cut_off(end);
  bool has_code = false;
  bool has_symbols = false;
  for (int i = 0; i < file.e_phnum; ++i) {
    const auto segment =
        header_at<ElfW(Phdr)>(bytes, file.e_phoff + std::uint64_t(i) * sizeof(ElfW(Phdr)));
    end = std::max(end, end_of(segment.p_offset, segment.p_filesz, 1));
    has_code = has_code || segment.p_type == PT_LOAD;
    has_symbols = has_symbols || segment.p_type == PT_DYNAMIC;
  }
  if (end > bytes.size()) return cut_off(end);
  if (!has_code || !has_symbols) return "it has nothing that could be loaded";
  return {};
}

SharedObject::SharedObject(std::string_view binary, const std::string& name, OpenFile file)
    : file_(std::move(file)) {
  const auto fail = [&](const std::string& why) {
    throw BackendError(fmt::format("kernel '{}' cannot be loaded: {}", name, why));
  };
  if (const std::string problem = shared_object_problem(binary); !problem.empty()) fail(problem);
  if (file_.is_open()) handle_.reset(load(file_));
  if (handle_ == nullptr) {
    const std::string from_file = file_.is_open() ? reason() : "";
    OpenFile memory = sealed_memory(binary, name);
    handle_.reset(load(memory));
    if (handle_ == nullptr) fail(reason());
    if (file_.is_open()) tell_not_loaded_from(file_, from_file);
    file_ = std::move(memory);
  }
  touch_pages(handle_.get());
}

void* SharedObject::find(const std::string& symbol) const {
  return dlsym(handle_.get(), symbol.c_str());
}

void SharedObject::Close::operator()(void* handle) const {
  dlclose(handle);
}

}  // namespace coconet::jit
