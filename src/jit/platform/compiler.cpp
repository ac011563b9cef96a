// Keys of kernels. The fields that tell most about a miss come first: the first that differs is
// what `coconet cache explain` names.
#include "jit/platform/compiler.h"

namespace coconet::jit {
namespace {

// The fields below and what they mean. Whoever changes that counts up.
constexpr std::string_view key_format = "1";

// An option that leaves the machine to the compiler says nothing to other machines: the field
// `arch` does.
std::string resolved(const std::string& option) {
  constexpr std::string_view native = "=native";
  if (!option.ends_with(native)) return option;
  return option.substr(0, option.size() - native.size()) + "=(arch)";
}

}  // namespace

CacheKey Compiler::key(const KernelSource& source) const {
  std::string options;
  for (const std::string& option : facts_.options) options += resolved(option) + "\n";
  CacheKey key;
  key.add("kind", "kernel");
  key.add("format", key_format);
  key.add("target", target());
  key.add("entry", source.entry);
  key.add("arch", facts_.arch);
  key.add("compiler", facts_.identity);
  key.add("options", options);
  key.add("environment", facts_.environment);
  key.add("abi", facts_.abi);
  key.add("prelude", source.prelude);
  key.add("source", source.text);
  return key;
}

}  // namespace coconet::jit
