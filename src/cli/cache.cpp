// `coconet cache`: what lies in the kernel cache, whether it is sound, and how to get rid of it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/cache_layers.h"
#include "cli/commands.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/json/text.h"
#include "jit/cache/entry.h"
#include "jit/cache/inspect.h"
#include "jit/cache/kernel_cache.h"
#include "jit/cache/locks.h"

namespace coconet::cli {
namespace {

constexpr std::size_t shown_digits = 12;

std::uint64_t size_of(const jit::InspectedEntry& entry) {
  return static_cast<std::uint64_t>(entry.file.status.st_size);
}

/// Used last first.
std::vector<jit::InspectedEntry> newest_first(const jit::CacheDirectory& directory) {
  std::vector<jit::InspectedEntry> entries;
  jit::inspect_all(directory, jit::InspectDepth::key,
                   [&](const jit::InspectedEntry& entry) { entries.push_back(entry); });
  std::ranges::sort(entries, [](const jit::InspectedEntry& one, const jit::InspectedEntry& other) {
    const auto time = jit::time_of(one.file.status);
    const auto other_time = jit::time_of(other.file.status);
    return time != other_time ? time > other_time : one.file.digits() < other.file.digits();
  });
  return entries;
}

std::string format_of(const jit::InspectedEntry& entry) {
  return entry.file.name.substr(entry.file.name.find('.') + 1);
}

void print_table(const std::vector<jit::InspectedEntry>& entries) {
  std::size_t name_width = std::string("kernel").size();
  std::size_t arch_width = std::string("arch").size();
  std::vector<Label> labels;
  for (const jit::InspectedEntry& entry : entries) {
    labels.push_back(label_of(entry.key_text));
    Label& label = labels.back();
    if (label.kind != "kernel" && !label.kind.empty()) label.name = label.kind + ": " + label.name;
    name_width = std::max(name_width, label.name.size());
    arch_width = std::max(arch_width, label.arch.size());
  }
  std::printf("%-*s  %-*s  %-12s  %-*s  %10s  used\n", static_cast<int>(shown_digits), "digest",
              static_cast<int>(name_width), "kernel", "target", static_cast<int>(arch_width),
              "arch", "bytes");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string digits = entries[i].file.digits().substr(0, shown_digits);
    if (!entries[i].problem.empty()) {
      std::printf("%s  not usable: %s\n", digits.c_str(), entries[i].problem.c_str());
      continue;
    }
    if (entries[i].foreign) {
      std::printf("%s  of the format %s, for another version of the library\n", digits.c_str(),
                  format_of(entries[i]).c_str());
      continue;
    }
    const auto used = jit::last_use(entries[i].file.status);
    std::printf("%s  %-*s  %-12s  %-*s  %10llu  %s\n", digits.c_str(), static_cast<int>(name_width),
                labels[i].name.c_str(), labels[i].target.c_str(), static_cast<int>(arch_width),
                labels[i].arch.c_str(), static_cast<unsigned long long>(size_of(entries[i])),
                used ? readable_time(*used).c_str() : "not yet");
  }
}

nlohmann::ordered_json to_json(const jit::InspectedEntry& entry) {
  const Label label = label_of(entry.key_text);
  const auto used = jit::last_use(entry.file.status);
  return {{"digest", entry.file.digits()},
          {"format", format_of(entry)},
          {"kind", label.kind},
          {"name", label.name},
          {"target", label.target},
          {"arch", label.arch},
          {"bytes", size_of(entry)},
          {"used", used ? nlohmann::ordered_json(iso_time(*used)) : nlohmann::ordered_json()},
          {"problem", entry.problem}};
}

void print_no_directory(const std::vector<Layer>& layers) {
  if (!config().cache_dir.empty()) return;
  std::printf(
      "There is no directory to keep kernels in: none of COCONET_CACHE_DIR, XDG_CACHE_HOME and "
      "HOME names one.%s\n",
      layers.empty() ? " There are no kernels." : "");
}

int print_no_kernels(const std::filesystem::path& directory) {
  std::printf("%s: no kernels\n", directory.c_str());
  return exit_ok;
}

/// Checks all of `layer`; the number of entries that are bad.
std::uint64_t verify_layer(const Layer& layer) {
  std::uint64_t good = 0;
  std::uint64_t foreign = 0;
  std::vector<std::string> bad;
  const auto report = [&](const std::filesystem::path& path, const std::string& problem) {
    bad.push_back("'" + path.string() + "': " + problem + ".");
  };
  jit::inspect_all(*layer.directory, jit::InspectDepth::all, [&](const jit::InspectedEntry& entry) {
    if (!entry.problem.empty()) {
      report(layer.path / entry.file.folder / entry.file.name, entry.problem);
    } else {
      ++(entry.foreign ? foreign : good);
    }
  });
  for (const auto& [path, problem] : jit::unusable_folders(*layer.directory)) report(path, problem);
  std::ranges::sort(bad);
  for (const std::string& line : bad) std::printf("%s\n", line.c_str());
  std::printf("%s: %llu good, %zu bad", layer.path.c_str(), static_cast<unsigned long long>(good),
              bad.size());
  if (foreign != 0)
    std::printf(", %llu of other formats, not looked into",
                static_cast<unsigned long long>(foreign));
  std::printf("\n");
  return bad.size();
}

/// How much of a directory is whose.
struct Census {
  jit::Totals all;
  std::uint64_t temporaries = 0;
  std::map<std::string, jit::Totals> groups;  ///< by target and architecture
};

Census take_census(const jit::CacheDirectory& directory) {
  Census census;
  const auto add = [](jit::Totals& totals, const jit::InspectedEntry& entry) {
    ++totals.files;
    totals.bytes += size_of(entry);
  };
  jit::inspect_all(directory, jit::InspectDepth::key, [&](const jit::InspectedEntry& entry) {
    const Label label = label_of(entry.key_text);
    std::string group = label.kind;
    if (!entry.problem.empty()) {
      group = "not usable";
    } else if (entry.foreign) {
      group = "of other formats";
    } else if (!label.target.empty()) {
      group = label.target + " " + label.arch;
    }
    add(census.all, entry);
    add(census.groups[group], entry);
  });
  directory.for_each([](int, const jit::EntryFile&) {},
                     [&](int, const jit::EntryFile&) { ++census.temporaries; });
  return census;
}

std::string described(const jit::Totals& totals) {
  return counted(totals.files, "entry", "entries") + ", " + readable_bytes(totals.bytes);
}

std::string limits_text(const jit::Limits& limits) {
  const std::string bytes = limits.bytes == 0 ? "" : readable_bytes(limits.bytes);
  const std::string files = limits.files == 0 ? "" : counted(limits.files, "entry", "entries");
  if (bytes.empty() && files.empty()) return "none";
  return bytes + (bytes.empty() || files.empty() ? "" : ", ") + files;
}

void print_fact(const char* what, const std::string& fact) {
  std::printf("  %-12s %s\n", what, fact.c_str());
}

void print_stats(const Layer& layer) {
  std::printf("%s%s\n", layer.path.c_str(), layer.read_only ? " (only read)" : "");
  if (!layer.directory) {
    print_fact("entries", layer.problem.empty() ? "no kernels: there is no such directory"
                                                : "not used: " + layer.problem);
    return;
  }
  const Census census = take_census(*layer.directory);
  print_fact("entries", census.all.files == 0 ? "no kernels" : described(census.all));
  for (const auto& [group, totals] : census.groups)
    print_fact("", group + ": " + described(totals));
  if (layer.read_only) return;
  print_fact("limits", limits_text(jit::limits_of(config())));
  print_fact("temporaries", std::to_string(census.temporaries));
  const auto stats = jit::read_stats(*layer.directory);
  print_fact("last sweep", stats && stats->evicted > 0
                               ? readable_time(jit::FileTime(std::chrono::seconds(stats->evicted)))
                               : "never");
}

/// Waits for another process's eviction.
jit::Eviction evict_now(const jit::CacheDirectory& directory, const jit::Limits& limits) {
  jit::Backoff backoff(std::chrono::steady_clock::now() + config().timeout);
  do {
    if (const auto done = jit::evict_alone(directory, limits)) return *done;
  } while (backoff.wait());
  throw Error("another process has been sweeping the cache in '" + directory.path().string() +
              "' for as long as COCONET_TIMEOUT_S allows; try again later");
}

}  // namespace

int cache_list(bool as_json) {
  const std::vector<Layer> layers = cache_layers();
  nlohmann::ordered_json directories = nlohmann::ordered_json::array();
  if (!as_json) {
    std::fputs(mode_note().c_str(), stdout);
    print_no_directory(layers);
  }
  for (const Layer& layer : layers) {
    if (!layer.problem.empty()) continue;
    const auto entries =
        layer.directory ? newest_first(*layer.directory) : std::vector<jit::InspectedEntry>();
    if (as_json) {
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (const jit::InspectedEntry& entry : entries) rows.push_back(to_json(entry));
      directories.push_back({{"path", layer.path.string()},
                             {"read_only", layer.read_only},
                             {"entries", std::move(rows)}});
      continue;
    }
    std::printf(
        "%s%s: %s\n", layer.path.c_str(), layer.read_only ? " (only read)" : "",
        entries.empty() ? "no kernels" : counted(entries.size(), "entry", "entries").c_str());
    if (!entries.empty()) print_table(entries);
  }
  if (as_json) {
    const nlohmann::ordered_json all{{"cache", config().cache}, {"directories", directories}};
    std::printf("%s\n", ir::json_text(all, 2).c_str());
  }
  return complain_of(layers);
}

int cache_verify() {
  const std::vector<Layer> layers = cache_layers();
  print_no_directory(layers);
  std::uint64_t bad = 0;
  for (const Layer& layer : layers) {
    if (!layer.problem.empty()) continue;
    if (layer.directory) {
      bad += verify_layer(layer);
    } else {
      print_no_kernels(layer.path);
    }
  }
  if (bad > 0) {
    std::printf(
        "Nothing was removed. A kernel whose entry is bad is compiled again, and the entry is "
        "replaced where it can be written.\n");
  }
  return std::max(complain_of(layers), bad > 0 ? exit_failure : exit_ok);
}

int cache_stats() {
  const std::vector<Layer> layers = cache_layers();
  std::fputs(mode_note().c_str(), stdout);
  print_no_directory(layers);
  for (const Layer& layer : layers) print_stats(layer);
  return complain_of(layers);
}

int cache_prune(const CachePruneOptions& options) {
  const auto directory = directory_to_clean();
  if (!directory) return print_no_kernels(config().cache_dir);
  jit::Limits limits = jit::limits_of(config());
  if (options.max_size) limits.bytes = *options.max_size;
  if (options.max_files) limits.files = *options.max_files;
  const jit::Eviction done = evict_now(*directory, limits);
  std::printf("%s: removed %s and %s; %s left (limits: %s)\n", directory->path().c_str(),
              described(done.removed).c_str(),
              counted(done.temporaries, "stale temporary file", "stale temporary files").c_str(),
              described(done.left).c_str(), limits_text(limits).c_str());
  if (limits.exceeded_by(done.left)) {
    throw Error("the cache in '" + directory->path().string() +
                "' is still above its limits: the file system does not let go of its files");
  }
  return exit_ok;
}

int cache_clear() {
  const auto directory = directory_to_clean();
  if (!directory) return print_no_kernels(config().cache_dir);
  const jit::Cleared done = jit::clear(*directory);
  std::printf("%s: removed %s and %s\n", directory->path().c_str(), described(done.removed).c_str(),
              counted(done.temporaries, "temporary file", "temporary files").c_str());
  if (done.refused > 0) {
    throw Error(counted(done.refused, "file", "files") + " in '" + directory->path().string() +
                "' cannot be removed");
  }
  return exit_ok;
}

}  // namespace coconet::cli
