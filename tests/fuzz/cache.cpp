// A cache directory that others have written in. The first byte says what the rest is:
//   0  an entry's file, as it is
//   1  an entry for the key looked for, whose header, lengths and checksum are right: key, log and
//      payload are the rest, divided at the bytes 0xff
//   2  two texts of keys, divided so
//   3  the ledger
//   4  names of files, links and folders, divided by slashes and zeros
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "child_process.h"
#include "files.h"
#include "fuzz/targets.h"
#include "jit/cache/disk_cache.h"
#include "jit/cache/inspect.h"

namespace coconet::fuzz {
namespace {

namespace fs = std::filesystem;
using jit::CachedBinary;
using jit::CacheKey;

std::vector<std::string> divided(std::string_view text, std::string_view at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (at.find(c) == std::string_view::npos) {
      parts.back() += c;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

void write_file(const fs::path& path, std::string_view bytes) {
  test::write_file(path, bytes);
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

/// A cache directory with one good entry, beside a folder of somebody else's.
class Directory {
 public:
  Directory() {
    key_.add("format", "1");
    key_.add("source", "void kernel() {}");
    fs::create_directory(path());
    fs::permissions(path(), fs::perms::owner_all);
    fs::create_directory(outside());
    write_file(outside() / "file", "somebody else's");
  }

  [[nodiscard]] fs::path path() const { return scratch_.path() / "cache"; }
  [[nodiscard]] fs::path outside() const { return scratch_.path() / "outside"; }
  [[nodiscard]] const CacheKey& key() const { return key_; }
  [[nodiscard]] const CachedBinary& binary() const { return binary_; }
  [[nodiscard]] fs::path folder() const { return path() / jit::folder_of(key_.digest()); }
  [[nodiscard]] fs::path entry() const { return folder() / jit::name_of(key_.digest()); }

  void put_entry(std::string_view bytes) const {
    fs::create_directory(folder());
    fs::permissions(folder(), fs::perms::owner_all);
    write_file(entry(), bytes);
  }

  /// Looks at everything that is there, finds, publishes, and clears.
  void use() const {
    const auto directory = jit::CacheDirectory::open(path(), jit::Ownership::mine);
    for (const jit::InspectDepth depth : {jit::InspectDepth::key, jit::InspectDepth::all}) {
      jit::inspect_all(*directory, depth, [&](const jit::InspectedEntry& entry) {
        require(entry.problem.empty() || entry.key_text.empty(), "a bad entry's key is not told");
        (void)jit::fields_of(entry.key_text);
      });
    }
    (void)jit::unusable_folders(*directory);
    const CacheKey wanted[] = {key_};
    const std::shared_ptr<const jit::CacheDirectory> directories[] = {directory};
    (void)jit::find_nearest(directories, wanted);
    (void)jit::read_stats(*directory);
    {
      jit::DiskCache cache(path(), jit::CacheMode::read_write, {1, 1});
      if (const auto found = cache.find(key_))
        require(found->payload == binary_.payload, "what is found is what was stored");
      (void)cache.publish(key_, binary_);
      (void)cache.id();
    }
    (void)jit::evict(*directory, {1, 1}, jit::time_now());
    (void)jit::clear(*directory);
    require(test::read_file(outside() / "file") == "somebody else's", "nothing outside is written");
    require(std::distance(fs::directory_iterator(outside()), {}) == 1,
            "nothing outside is made or removed");
  }

 private:
  test::ScratchDirectory scratch_;
  CacheKey key_;
  CachedBinary binary_{"payload", "log"};
};

/// Each of `text`'s names as a file, a link out of the directory, or a folder, by its length.
void put_names(const Directory& directory, std::string_view text) {
  constexpr std::size_t most = 16;
  std::vector<std::string> names = divided(text, std::string_view("/\0", 2));
  names.resize(std::min(names.size(), most));
  fs::create_directory(directory.folder());
  fs::permissions(directory.folder(), fs::perms::owner_all);
  std::error_code ignored;  // of names that are too long, or there
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || names[i] == "." || names[i] == "..") continue;
    const fs::path path = (i % 2 == 0 ? directory.path() : directory.folder()) / names[i];
    if (fs::exists(fs::symlink_status(path, ignored))) continue;
    switch (i % 5) {
      case 0:
      case 1:
        fs::create_symlink(directory.outside() / (i % 3 == 0 ? "" : "file"), path, ignored);
        break;
      case 2:
        fs::create_directory(path, ignored);
        break;
      case 3:
        (void)mkfifo(path.c_str(), 0600);
        break;
      default:
        test::write_file(path, names[i]);
    }
  }
}

}  // namespace

void fuzz_cache(Bytes bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = text_of(bytes.subspan(1));
  const Directory directory;
  switch (bytes.front() % 5) {
    case 0: {
      jit::EntryView view;
      const char* const wrong = jit::decode_entry(rest, view);
      require(wrong != nullptr || view.key_text.size() + view.log.size() + view.payload.size() +
                                          jit::least_entry_bytes ==
                                      rest.size(),
              "an entry is all of its parts");
      directory.put_entry(rest);
      break;
    }
    case 1: {
      std::vector<std::string> parts = divided(rest, "\xff");
      parts.resize(3);
      CacheKey key;
      key.add("format", parts[0]);
      directory.put_entry(jit::encode_entry(key, {parts[2], parts[1]}));
      break;
    }
    case 2: {
      std::vector<std::string> parts = divided(rest, "\xff");
      parts.resize(2);
      const auto fields = jit::fields_of(parts[0]);
      if (!fields.empty()) {
        CacheKey again;
        for (const jit::KeyField& field : fields) again.add(field.tag, field.value);
        require(again.text() == parts[0], "a key's text is that of its fields");
      }
      (void)jit::difference(parts[0], parts[1]);
      (void)jit::field_of(parts[0], "source");
      return;
    }
    case 3:
      write_file(directory.path() / jit::stats_file, rest);
      break;
    default:
      put_names(directory, rest);
  }
  directory.use();
}

}  // namespace coconet::fuzz
