// Loading images and finding their kernels.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "functions.h"
#include "kernels.h"
#include "turns.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

namespace stub {
namespace {

using LibraryTable = Table<Image, CUlibrary, Kind::library>;
using KernelTable = Table<Kernel, CUkernel, Kind::kernel>;

LibraryTable& libraries() {
  return immortal<LibraryTable>();
}

KernelTable& kernels() {
  return immortal<KernelTable>();
}

using FunctionTable = Table<Function, CUfunction, Kind::function>;

FunctionTable& functions() {
  return immortal<FunctionTable>();
}

template <class T>
T read_at(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// An image comes without its size: it reaches to the end of whatever its header and its segments
// mention.
std::size_t size_of(const char* data, const Elf64_Ehdr& header) {
  std::size_t end = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(data + header.e_phoff + i * header.e_phentsize);
    end = std::max<std::size_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

// The file stays open: the loader knows a library by its path, and a number that is used again
// would be another's.
CUresult load_code(Image& image, const char* data, std::size_t bytes) {
  image.file = memfd_create("stub_cuda_image", MFD_CLOEXEC);
  if (image.file == -1) return CUDA_ERROR_OPERATING_SYSTEM;
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t wrote = write(image.file, data + done, bytes - done);
    if (wrote <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
    done += static_cast<std::size_t>(wrote);
  }
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", image.file);
  image.code = dlopen(path.data(), RTLD_NOW | RTLD_LOCAL);
  if (image.code == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  if (void* const alias = dlsym(image.code, alias_name)) *static_cast<Alias*>(alias) = alias_of;
  if (void* const way = dlsym(image.code, give_way_name)) *static_cast<GiveWay*>(way) = give_way;
  return CUDA_SUCCESS;
}

// A binary is for its architecture and newer ones of the same major number.
bool runs_here(const Image& image) {
  const auto* const arch = static_cast<const int*>(dlsym(image.code, "stub_arch"));
  return arch == nullptr || (*arch / 10 == architecture() / 10 && *arch <= architecture());
}

// Of digits behind the line ".target sm_90" of what the stub of NVRTC makes of PTX.
CUresult load_ptx(Image& image, std::string_view ptx) {
  constexpr std::string_view target = ".target sm_";
  const std::size_t at = ptx.find(target);
  if (at == std::string_view::npos) return CUDA_ERROR_INVALID_IMAGE;
  if (std::atoi(ptx.data() + at + target.size()) > architecture()) return CUDA_ERROR_INVALID_PTX;
  const std::string_view digits = ptx.substr(ptx.find('\n', at) + 1);
  std::string code;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    code += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return load_code(image, code.data(), code.size());
}

CUresult load(Image& image, const void* code) {
  if (code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::memcmp(code, "//", 2) == 0) return load_ptx(image, static_cast<const char*>(code));
  if (std::memcmp(code, ELFMAG, SELFMAG) != 0) return CUDA_ERROR_INVALID_IMAGE;
  const auto* const data = static_cast<const char*>(code);
  const auto header = read_at<Elf64_Ehdr>(data);
  const std::size_t bytes = size_of(data, header);
  if (header.e_machine == EM_X86_64) {
    if (const CUresult loaded = load_code(image, data, bytes); loaded != CUDA_SUCCESS)
      return loaded;
    return runs_here(image) ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (header.e_machine != EM_CUDA) return CUDA_ERROR_INVALID_IMAGE;
  image.bytes.assign(data, bytes);
  return CUDA_SUCCESS;
}

CUresult find_entry(Kernel& kernel) {
  const Image& image = *kernel.image;
  if (image.code == nullptr)
    return image.bytes.find(kernel.name) == std::string::npos ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  void* const entry = dlsym(image.code, kernel.name.c_str());
  const void* const bytes = dlsym(image.code, (kernel.name + "_bytes").c_str());
  if (entry == nullptr || bytes == nullptr) return CUDA_ERROR_NOT_FOUND;
  kernel.entry = reinterpret_cast<Entry>(entry);
  kernel.argument_bytes = *static_cast<const unsigned long long*>(bytes);
  return CUDA_SUCCESS;
}

}  // namespace

Image::~Image() {
  if (code != nullptr) dlclose(code);
  if (file != -1) close(file);
}

std::size_t live_libraries() {
  return libraries().size();
}

std::shared_ptr<Function> find_function(CUfunction handle) {
  return functions().find(handle);
}

}  // namespace stub

using namespace stub;

CUresult cuLibraryLoadData(CUlibrary* handle, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return call("cuLibraryLoadData", Needs::initialisation, [&](Lock&) {
    const auto image = std::make_shared<Image>();
    if (const CUresult loaded = load(*image, code); loaded != CUDA_SUCCESS) return loaded;
    *handle = libraries().add(image);
    note("cuLibraryLoadData", details("library=", number_of(*handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryUnload(CUlibrary handle) {
  return call("cuLibraryUnload", Needs::initialisation, [&](Lock&) {
    const auto image = libraries().find(handle);
    if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    libraries().remove(handle);
    functions().remove_if([&](const Function& one) { return one.kernel->image == image; });
    kernels().remove_if([&](const Kernel& kernel) { return kernel.image == image; });
    note("cuLibraryUnload", details("library=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel* handle, CUlibrary library, const char* name) {
  return call("cuLibraryGetKernel", Needs::initialisation, [&](Lock&) {
    const auto kernel = std::make_shared<Kernel>();
    kernel->image = libraries().find(library);
    kernel->name = name;
    if (kernel->image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult found = find_entry(*kernel); found != CUDA_SUCCESS) return found;
    *handle = kernels().add(kernel);
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetFunction(CUfunction* handle, CUkernel kernel_handle) {
  return call("cuKernelGetFunction", Needs::context, [&](Lock&) {
    const auto kernel = kernels().find(kernel_handle);
    if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& [number, function] : functions().all()) {
      if (function->kernel == kernel && function->device == current_device()) {
        *handle = make_handle<CUfunction>(Kind::function, number);
        return CUDA_SUCCESS;
      }
    }
    *handle = functions().add(std::make_shared<Function>(Function{kernel, current_device()}));
    return CUDA_SUCCESS;
  });
}
