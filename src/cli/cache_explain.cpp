// `coconet cache explain`: where a program's kernels are in the cache, or why they are not.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cli/cache_layers.h"
#include "cli/commands.h"
#include "cli/kernels.h"
#include "cli/key_difference.h"
#include "jit/cache/inspect.h"
#include "jit/kernels/binary_request.h"

namespace coconet::cli {
namespace {

using Directories = std::vector<std::shared_ptr<const jit::CacheDirectory>>;

/// Prints where the kernel is, and whether it is of use there; whether it is.
bool print_places(const Directories& directories, const jit::CacheKey& key) {
  for (const auto& directory : directories) {
    const auto entry = jit::inspect(*directory, key, jit::InspectDepth::all);
    if (!entry) continue;
    const std::string path = (directory->path() / entry->file.folder / entry->file.name).string();
    if (entry->problem.empty()) {
      std::printf("in '%s', %s\n", path.c_str(),
                  readable_bytes(static_cast<std::uint64_t>(entry->file.status.st_size)).c_str());
      return true;
    }
    std::printf("bad in '%s': %s; ", path.c_str(), entry->problem.c_str());
  }
  return false;
}

void print_nearest(const jit::CacheKey& key, const std::optional<jit::Nearest>& nearest) {
  if (!nearest) {
    std::printf("in no directory, and no other kernel is\n");
    return;
  }
  const Label label = label_of(nearest->key_text);
  const jit::KeyDifference& difference = nearest->difference;
  std::printf("in no directory; the nearest, '%s' (%s for %s %s), differs in %s:\n",
              nearest->path.c_str(), label.name.c_str(), label.target.c_str(), label.arch.c_str(),
              difference.tag.c_str());
  for (const std::string& line : describe(difference)) std::printf("  %s\n", line.c_str());
  const auto further = further_differences(key.text(), nearest->key_text, difference.tag);
  if (!further.empty())
    std::printf("  and in %s\n", fmt::format("{}", fmt::join(further, ", ")).c_str());
}

void explain_for(const CompileOptions& options, const std::string& arch,
                 const Directories& directories) {
  const std::vector<jit::KernelText> kernels = kernels_of(options, arch);
  if (kernels.empty()) std::printf("no kernel: every step is a collective of the library\n");
  const auto compiler = compiler_for(options, arch);
  std::vector<jit::CacheKey> keys;
  for (const jit::KernelText& text : kernels)
    keys.push_back(jit::BinaryRequest(*compiler, text, config()).key());
  const auto nearest = jit::find_nearest(directories, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::printf("%-24s %-8s ", kernels[i].name.c_str(), arch.c_str());
    if (!print_places(directories, keys[i])) print_nearest(keys[i], nearest[i]);
  }
}

}  // namespace

int cache_explain(const CompileOptions& options) {
  Directories directories;
  std::fputs(mode_note().c_str(), stdout);
  const std::vector<Layer> layers = cache_layers();
  for (const Layer& layer : layers) {
    if (layer.directory) directories.push_back(layer.directory);
  }
  const int code = complain_of(layers);
  for (const std::string& arch : archs_of(options)) explain_for(options, arch, directories);
  return code;
}

}  // namespace coconet::cli
