// Manifests of checkpoints. The first byte, even or odd, says what the rest is:
//   0  a manifest's file, as it is
//   1  what comes before the checksum of one, which is right then
#include <fmt/format.h>
#include <xxhash.h>

#include "fuzz/targets.h"
#include "jit/checkpoint/manifest.h"

namespace coconet::fuzz {
namespace {

std::string sealed(std::string_view members) {
  std::string text = std::string(members) + "\"xxh3\":\"";
  return text + fmt::format("{:016x}\"}}\n", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

void fuzz_checkpoint(Bytes bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = text_of(bytes.subspan(1));
  const std::string text = bytes.front() % 2 == 0 ? std::string(rest) : sealed(rest);
  const jit::Manifest manifest = jit::parse_manifest(text, "checkpoint.json");
  const std::string again = jit::text_of(manifest);
  require(jit::text_of(jit::parse_manifest(again, "again.json")) == again,
          "a manifest survives its JSON");
  for (const jit::SavedFile& file : manifest.files) {
    require(file.name.find('/') == std::string::npos, "no file is outside the directory");
    require(file.checksums.size() * jit::block_bytes >= file.bytes, "every byte has a checksum");
  }
  for (const jit::SavedTensor& tensor : manifest.tensors) {
    require(manifest.find(tensor.name) == &tensor, "what the manifest has is found");
    for (const jit::SavedPart& part : tensor.parts) {
      const jit::SavedFile& file = manifest.files.at(part.file);
      require(part.offset >= file.data && part.offset <= file.bytes, "a part is in its file");
    }
  }
}

}  // namespace coconet::fuzz
