// Manifests to text and back.
#include "jit/checkpoint/manifest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include "jit/checkpoint/boxes.h"
#include "jit/checkpoint/json_scanner.h"
#include "jit/checkpoint/safetensors.h"

namespace coconet::jit {
namespace {

constexpr std::string_view format_name = "coconet-checkpoint";
constexpr std::uint64_t format_version = 1;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 60, most_ranks = 1 << 24;
/// Before the last member's 16 digits, and after them.
constexpr std::string_view last_key = "\"xxh3\":\"", ending = "\"}\n";
constexpr std::size_t checksum_digits = 16;

std::uint64_t checksum(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string digits(std::uint64_t checksum) {
  return fmt::format("{:016x}", checksum);
}

/// The members that a manifest of any version begins with, and the next two.
void read_start(JsonScanner& json, Manifest& manifest) {
  json.expect('{');
  json.key("format");
  const std::size_t format_at = json.at();
  if (json.string() != format_name)
    json.fail(format_at, fmt::format("its format must be '{}'", format_name));
  json.expect(',');
  json.key("version");
  const std::size_t version_at = json.at();
  if (json.number(most_bytes) != format_version)
    json.fail(version_at, fmt::format("its version must be {}", format_version));
  json.expect(',');
  json.key("sequence");
  manifest.sequence = json.number(most_sequence);
  json.expect(',');
  json.key("program");
  manifest.program = json.string();
}

/// Reads what is behind the start.
class Reader {
 public:
  Reader(JsonScanner& json, Manifest& manifest) : json_(json), manifest_(manifest) {}

  void read() {
    next("ranks");
    const std::size_t ranks_at = json_.at();
    manifest_.ranks = static_cast<int>(json_.number(most_ranks));
    if (manifest_.ranks == 0) json_.fail(ranks_at, "there must be ranks");
    next("block_bytes");
    if (const std::size_t at = json_.at(); json_.number(most_bytes) != block_bytes)
      json_.fail(at, fmt::format("blocks must have {} bytes", block_bytes));
    next("metadata");
    json_.object([&] { read_metadata(); });
    next("files");
    json_.array([&] { read_file(); });
    next("tensors");
    json_.array([&] { read_tensor(); });
    json_.expect(',');
    require_files_full();
  }

 private:
  void next(std::string_view name) {
    json_.expect(',');
    json_.key(name);
  }

  void read_metadata() {
    const std::size_t at = json_.at();
    std::string name = json_.string();
    json_.expect(':');
    if (!manifest_.metadata.emplace(name, json_.string()).second)
      json_.fail(at, fmt::format("there are two metadata '{}'", name));
  }

  void read_file() {
    SavedFile file;
    json_.expect('{');
    json_.key("name");
    const std::size_t name_at = json_.at();
    file.name = json_.string();
    // The names are this library's own, in order: none leads out of the directory.
    while (rank_ < manifest_.ranks && file_of_rank(rank_) != file.name) ++rank_;
    if (rank_++ == manifest_.ranks) {
      json_.fail(name_at, fmt::format("files must be called '{}' to '{}', in that order",
                                      file_of_rank(0), file_of_rank(manifest_.ranks - 1)));
    }
    next("bytes");
    const std::size_t bytes_at = json_.at();
    file.bytes = json_.number(most_bytes);
    next("data");
    const std::size_t data_at = json_.at();
    file.data = json_.number(file.bytes);
    if (file.data == 0 || file.data % data_alignment != 0) {
      json_.fail(data_at,
                 fmt::format("elements must begin at a multiple of {} bytes", data_alignment));
    }
    next("xxh3");
    json_.array([&] { file.checksums.push_back(read_checksum()); });
    if (file.checksums.size() != (file.bytes + block_bytes - 1) / block_bytes) {
      json_.fail(bytes_at,
                 fmt::format("{} bytes have {} checksums", file.bytes, file.checksums.size()));
    }
    json_.expect('}');
    manifest_.files.push_back(std::move(file));
    uses_.emplace_back();
  }

  std::uint64_t read_checksum() {
    const std::size_t at = json_.at();
    const std::string text = json_.string();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc() || digits(value) != text)
      json_.fail(at, "a checksum must be 16 hexadecimal digits");
    return value;
  }

  void read_tensor() {
    SavedTensor tensor;
    json_.expect('{');
    json_.key("name");
    const std::size_t name_at = json_.at();
    tensor.name = json_.string();
    if (tensor.name == reserved_name || !names_.insert(tensor.name).second)
      json_.fail(name_at, fmt::format("'{}' is the name of something else", tensor.name));
    next("dtype");
    const std::size_t dtype_at = json_.at();
    const std::string dtype = json_.string();
    if (!safetensors_dtype(dtype))
      json_.fail(dtype_at, fmt::format("there is no dtype '{}'", dtype));
    tensor.dtype = *safetensors_dtype(dtype);
    next("shape");
    const std::size_t shape_at = json_.at();
    tensor.shape = read_extents();
    // Neither may overflow anywhere below.
    std::uint64_t count = 1;
    for (const std::int64_t extent : tensor.shape) {
      if (extent != 0 && count > most_bytes / 8 / static_cast<std::uint64_t>(extent))
        json_.fail(shape_at, "a shape has too many elements");
      count *= static_cast<std::uint64_t>(extent);
    }
    next("layout");
    tensor.layout = json_.string();
    next("copies");
    const std::size_t copies_at = json_.at();
    tensor.copies =
        static_cast<std::int64_t>(json_.number(static_cast<std::uint64_t>(manifest_.ranks)));
    if (tensor.copies == 0) json_.fail(copies_at, "there must be copies");
    next("parts");
    const std::size_t parts_at = json_.at();
    json_.array([&] { read_part(tensor); });
    json_.expect('}');
    require_tiled(tensor, parts_at);
    manifest_.tensors.push_back(std::move(tensor));
  }

  void read_part(SavedTensor& tensor) {
    SavedPart part;
    const std::size_t part_at = json_.at();
    json_.expect('{');
    json_.key("file");
    const std::size_t file_at = json_.at();
    part.file = json_.number(most_ranks);
    if (part.file >= manifest_.files.size())
      json_.fail(file_at, fmt::format("there are {} files", manifest_.files.size()));
    next("copy");
    part.copy =
        static_cast<std::int64_t>(json_.number(static_cast<std::uint64_t>(tensor.copies - 1)));
    next("begin");
    part.box.begin = read_extents();
    next("extent");
    part.box.extent = read_extents();
    next("offset");
    const std::size_t offset_at = json_.at();
    const SavedFile& file = manifest_.files[part.file];
    part.offset = json_.number(file.bytes);
    json_.expect('}');
    bool fits = part.box.begin.size() == tensor.shape.size() &&
                part.box.extent.size() == tensor.shape.size();
    for (std::size_t d = 0; fits && d < tensor.shape.size(); ++d) {
      fits = part.box.extent[d] > 0 && part.box.begin[d] < tensor.shape[d] &&
             part.box.extent[d] <= tensor.shape[d] - part.box.begin[d];
    }
    if (!fits) json_.fail(part_at, fmt::format("a part of '{}' is not in its shape", tensor.name));
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(part.box.count()) * size_of(tensor.dtype);
    if (bytes > file.bytes - part.offset)
      json_.fail(offset_at, fmt::format("a part of '{}' is beyond its file", tensor.name));
    uses_[part.file].push_back({part.offset, bytes, offset_at, manifest_.tensors.size()});
    tensor.parts.push_back(std::move(part));
  }

  ir::Extents read_extents() {
    constexpr std::size_t most_dimensions = 64;
    const std::size_t at = json_.at();
    ir::Extents extents;
    json_.array([&] {
      extents.push_back(static_cast<std::int64_t>(json_.number(most_bytes)));
      if (extents.size() > most_dimensions)
        json_.fail(at, fmt::format("there are more than {} dimensions", most_dimensions));
    });
    return extents;
  }

  void require_tiled(const SavedTensor& tensor, std::size_t at) {
    std::map<std::int64_t, std::vector<ir::Part>> by_copy;
    for (const SavedPart& part : tensor.parts) by_copy[part.copy].push_back(part.box);
    const bool is_whole =
        std::ranges::all_of(by_copy,
                            [&](const auto& one) { return is_tiled(tensor.shape, one.second); }) &&
        (ir::product(tensor.shape) == 0 ||
         by_copy.size() == static_cast<std::size_t>(tensor.copies));
    if (!is_whole) {
      json_.fail(at,
                 fmt::format("the parts of '{}' must have each of its elements once", tensor.name));
    }
  }

  void require_files_full() {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const SavedFile& file = manifest_.files[i];
      std::ranges::sort(uses_[i], {}, &Use::offset);
      std::uint64_t at = file.data;
      std::set<std::size_t> tensors;
      for (const Use& use : uses_[i]) {
        if (use.offset != at) {
          json_.fail(use.said_at,
                     fmt::format("a part must begin at {}, where the one before it in '{}' ends",
                                 at, file.name));
        }
        if (!tensors.insert(use.tensor).second) {
          json_.fail(
              use.said_at,
              fmt::format("a file must have one part of a tensor, not two as '{}'", file.name));
        }
        at += use.bytes;
      }
      if (at != file.bytes) {
        json_.fail(json_.at(), fmt::format("the parts in '{}' end at {}, and it has {} bytes",
                                           file.name, at, file.bytes));
      }
    }
  }

  /// What lies in a file.
  struct Use {
    std::uint64_t offset, bytes;
    std::size_t said_at;  ///< byte of the manifest
    std::size_t tensor;   ///< its index
  };

  JsonScanner& json_;
  Manifest& manifest_;
  int rank_ = 0;  ///< whose file may be next
  std::vector<std::vector<Use>> uses_;
  std::set<std::string> names_;
};

void append_tensor(std::string& text, const SavedTensor& tensor) {
  auto to = std::back_inserter(text);
  fmt::format_to(to, R"({{"name":{},"dtype":"{}","shape":[{}],"layout":{},"copies":{},"parts":[)",
                 json_string(tensor.name), safetensors_name(tensor.dtype),
                 fmt::join(tensor.shape, ","), json_string(tensor.layout), tensor.copies);
  const char* separator = "\n";
  for (const SavedPart& part : tensor.parts) {
    fmt::format_to(to, R"({}{{"file":{},"copy":{},"begin":[{}],"extent":[{}],"offset":{}}})",
                   separator, part.file, part.copy, fmt::join(part.box.begin, ","),
                   fmt::join(part.box.extent, ","), part.offset);
    separator = ",\n";
  }
  text += "]}";
}

}  // namespace

const SavedTensor* Manifest::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &SavedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string file_of_rank(int rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

std::string text_of(const Manifest& manifest) {
  std::string text;
  auto to = std::back_inserter(text);
  fmt::format_to(to, R"({{"format":"{}","version":{},"sequence":{},"program":{},)", format_name,
                 format_version, manifest.sequence, json_string(manifest.program));
  fmt::format_to(to, "\n\"ranks\":{},\"block_bytes\":{},\n\"metadata\":{{", manifest.ranks,
                 block_bytes);
  const char* separator = "";
  for (const auto& [name, value] : manifest.metadata) {
    fmt::format_to(to, "{}{}:{}", separator, json_string(name), json_string(value));
    separator = ",";
  }
  text += "},\n\"files\":[";
  separator = "\n";
  for (const SavedFile& file : manifest.files) {
    fmt::format_to(to, R"({}{{"name":{},"bytes":{},"data":{},"xxh3":[)", separator,
                   json_string(file.name), file.bytes, file.data);
    separator = "";
    for (const std::uint64_t one : file.checksums) {
      fmt::format_to(to, "{}\"{}\"", separator, digits(one));
      separator = ",";
    }
    text += "]}";
    separator = ",\n";
  }
  text += "],\n\"tensors\":[";
  separator = "\n";
  for (const SavedTensor& tensor : manifest.tensors) {
    text += separator;
    append_tensor(text, tensor);
    separator = ",\n";
  }
  text += "],\n";
  text += last_key;
  text += digits(checksum(text));
  text += ending;
  return text;
}

Manifest parse_manifest(std::string_view text, const std::filesystem::path& file) {
  JsonScanner json(text, file);
  Manifest manifest;
  // The version is first: of another one nothing else is known.
  read_start(json, manifest);
  const std::size_t tail = last_key.size() + checksum_digits + ending.size();
  const std::size_t checked =
      text.size() < tail ? 0 : text.size() - ending.size() - checksum_digits;
  if (checked == 0 || !text.substr(0, checked).ends_with(last_key) || !text.ends_with(ending))
    json.fail(text.size(), "it does not end as a manifest does, so that its end is missing");
  const std::string found = digits(checksum(text.substr(0, checked)));
  if (text.substr(checked, checksum_digits) != found) {
    json.fail(checked, fmt::format("the checksum of all before is {}, and {} is there", found,
                                   text.substr(checked, checksum_digits)));
  }
  Reader(json, manifest).read();
  if (json.at() != checked - last_key.size()) json.fail(json.at(), "there must be its checksum");
  return manifest;
}

}  // namespace coconet::jit
