// Walks over cache directories.
#include "jit/cache/inspect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>
#include <utility>

#include "jit/cache/entry.h"

namespace coconet::jit {
namespace {

std::string cannot_be_read(int error) {
  return "it cannot be read: " + std::generic_category().message(error);
}

std::string kind_of_file(mode_t mode) {
  if (S_ISLNK(mode)) return "it is a symbolic link";
  if (S_ISDIR(mode)) return "it is a directory";
  return "it is no regular file";
}

const char* key_problem(std::string_view key_text, const std::string& digits) {
  if (sha256_hex(key_text) != digits) return "its name is not the digest of its key";
  if (fields_of(key_text).empty()) return "its key is not made of fields";
  return nullptr;
}

// The header and the key. The digest that they are compared with is the file's name.
std::string read_key(int file, const EntryFile& of, std::string& key_text) {
  const auto size = static_cast<std::size_t>(of.status.st_size);
  std::string start = read_bytes(file, std::min(size, entry_header_bytes));
  EntryLengths lengths;
  if (const char* wrong = decode_header(start, size, lengths)) return wrong;
  start = read_bytes(file, entry_header_bytes + lengths.key);
  if (start.size() != entry_header_bytes + lengths.key) return "it is too short";
  key_text = start.substr(entry_header_bytes);
  const char* const wrong = key_problem(key_text, of.digits());
  return wrong == nullptr ? "" : wrong;
}

std::string read_all(int file, const EntryFile& of, std::string& key_text) {
  const std::string bytes = read_bytes(file, static_cast<std::size_t>(of.status.st_size));
  EntryView entry;
  if (const char* wrong = decode_entry(bytes, entry)) return wrong;
  key_text = entry.key_text;
  if (const char* wrong = key_problem(key_text, of.digits())) return wrong;
  return hex(entry.digest) == of.digits() ? "" : "its name is not the digest that it states";
}

bool is_ours(const EntryFile& file) {
  return file.name.ends_with(fmt::format(".v{}", entry_format));
}

auto rank(const Nearest& candidate) {
  return std::tie(candidate.difference.equal, candidate.prefix, candidate.time, candidate.digits);
}

std::size_t common_prefix(const std::vector<KeyField>& wanted, const std::vector<KeyField>& found) {
  const auto [end, other] = std::ranges::mismatch(wanted, found);
  return static_cast<std::size_t>(end - wanted.begin());
}

}  // namespace

std::optional<InspectedEntry> inspect(const CacheDirectory& directory, int folder,
                                      const EntryFile& file, InspectDepth depth) {
  InspectedEntry seen{file, {}, !is_ours(file), {}};
  const OpenFile opened = open_at(folder, file.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!opened.is_open()) {
    const int error = errno;
    if (error == ENOENT) return std::nullopt;
    seen.problem =
        S_ISREG(file.status.st_mode) ? cannot_be_read(error) : kind_of_file(file.status.st_mode);
    return seen;
  }
  if (fstat(opened.number(), &seen.file.status) == -1) {
    seen.problem = cannot_be_read(errno);
    return seen;
  }
  const struct stat& status = seen.file.status;
  if (!S_ISREG(status.st_mode)) {
    seen.problem = kind_of_file(status.st_mode);
  } else if (const char* reason = directory.distrusts(status)) {
    seen.problem = reason;
  } else if (!seen.foreign && status.st_size > static_cast<off_t>(most_entry_bytes)) {
    seen.problem = "it is too long";
  } else if (!seen.foreign) {
    try {
      seen.problem = (depth == InspectDepth::key ? read_key : read_all)(opened.number(), seen.file,
                                                                        seen.key_text);
    } catch (const std::system_error& error) {
      seen.problem = cannot_be_read(error.code().value());
    }
    if (!seen.problem.empty()) seen.key_text.clear();
  }
  return seen;
}

std::optional<InspectedEntry> inspect(const CacheDirectory& directory, const CacheKey& key,
                                      InspectDepth depth) {
  EntryFile file{folder_of(key.digest()), name_of(key.digest()), {}};
  const OpenFile folder = directory.folder(file.folder);
  if (!folder.is_open() ||
      fstatat(folder.number(), file.name.c_str(), &file.status, AT_SYMLINK_NOFOLLOW) == -1) {
    if (errno == ENOENT) return std::nullopt;
    return InspectedEntry{file, cannot_be_read(errno), false, {}};
  }
  return inspect(directory, folder.number(), file, depth);
}

void inspect_all(const CacheDirectory& directory, InspectDepth depth,
                 const std::function<void(const InspectedEntry& entry)>& visit) {
  directory.for_each([&](int folder, const EntryFile& file) {
    if (const auto seen = inspect(directory, folder, file, depth)) visit(*seen);
  });
}

std::vector<std::pair<std::filesystem::path, std::string>> unusable_folders(
    const CacheDirectory& directory) {
  std::vector<std::pair<std::filesystem::path, std::string>> unusable;
  for_each_name(directory.descriptor(), [&](const std::string& name) {
    if (!is_folder_name(name) || directory.folder(name).is_open()) return;
    const int error = errno;
    struct stat status {};
    if (fstatat(directory.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == -1) return;
    std::string problem = kind_of_file(status.st_mode);
    if (S_ISREG(status.st_mode)) problem = "it is a file where a directory belongs";
    if (S_ISDIR(status.st_mode)) {
      const char* const wrong = directory.distrusts(status);
      problem = wrong != nullptr ? wrong : cannot_be_read(error);
    }
    unusable.emplace_back(directory.path() / name, std::move(problem));
  });
  std::ranges::sort(unusable);
  return unusable;
}

// An entry's time is set a day back as soon as it has its name, which changes its status.
std::optional<FileTime> last_use(const struct stat& status) {
  const auto age = time_of(status.st_ctim) - time_of(status);
  constexpr std::chrono::minutes slack{1};
  if (age >= day - slack && age <= day + slack) return std::nullopt;
  return time_of(status);
}

std::vector<std::optional<Nearest>> find_nearest(
    std::span<const std::shared_ptr<const CacheDirectory>> directories,
    std::span<const CacheKey> wanted) {
  std::vector<std::optional<Nearest>> best(wanted.size());
  const auto consider = [&](const CacheDirectory& directory, const InspectedEntry& entry) {
    const std::vector<KeyField> found = fields_of(entry.key_text);
    for (std::size_t i = 0; i < wanted.size() && !found.empty(); ++i) {
      const std::size_t prefix = common_prefix(fields_of(wanted[i].text()), found);
      auto differs = prefix == 0 ? std::nullopt : difference(wanted[i].text(), entry.key_text);
      if (!differs) continue;
      Nearest candidate{directory.path() / entry.file.folder / entry.file.name,
                        entry.file.digits(),
                        entry.key_text,
                        std::move(*differs),
                        prefix,
                        time_of(entry.file.status)};
      if (!best[i] || rank(*best[i]) < rank(candidate)) best[i] = std::move(candidate);
    }
  };
  for (const auto& directory : directories) {
    inspect_all(*directory, InspectDepth::key,
                [&](const InspectedEntry& entry) { consider(*directory, entry); });
  }
  return best;
}

Cleared clear(const CacheDirectory& directory) {
  Cleared result;
  std::vector<EntryFile> entries, temporaries;
  directory.for_each([&](int, const EntryFile& file) { entries.push_back(file); },
                     [&](int, const EntryFile& file) { temporaries.push_back(file); });
  // Whether it is gone by this process's hand.
  const auto remove = [&](const EntryFile& file) {
    const OpenFile folder = directory.folder(file.folder);
    if (unlinkat(folder.number(), file.name.c_str(), 0) == 0) return true;
    if (errno != ENOENT) ++result.refused;
    return false;
  };
  for (const EntryFile& file : entries) {
    if (remove(file)) result.removed.add(file.bytes());
  }
  for (const EntryFile& file : temporaries) {
    if (remove(file)) ++result.temporaries;
  }
  try {
    (void)update_stats(directory, [](CacheStats& stats) { stats.totals = {}; });
  } catch (const std::system_error&) {  // hints, which the next eviction corrects
  }
  return result;
}

}  // namespace coconet::jit
