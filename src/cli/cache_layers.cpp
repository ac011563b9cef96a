// Opens the configured directories, and words for what lies in them; see cache_layers.h.
#include "cli/cache_layers.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <system_error>

#include "cli/commands.h"
#include "cli/launch.h"
#include "coconet/config.h"
#include "coconet/error.h"

namespace coconet::cli {
namespace {

jit::Ownership ownership_of_written() {
  return config().cache == "ro" ? jit::Ownership::vetted : jit::Ownership::mine;
}

Layer open_layer(const std::filesystem::path& path, bool read_only) {
  Layer layer{path, read_only, nullptr, {}};
  try {
    layer.directory = jit::CacheDirectory::open(
        path, read_only ? jit::Ownership::vetted : ownership_of_written());
  } catch (const jit::Distrust& reason) {
    layer.problem = reason.what();
  } catch (const std::system_error& error) {
    layer.problem = error.what();
  }
  return layer;
}

std::string formatted(jit::FileTime time, const char* format, bool utc) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  if ((utc ? gmtime_r(&seconds, &parts) : localtime_r(&seconds, &parts)) == nullptr) return "?";
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

// The first line: a processor's features follow its model. A key is any bytes, and these are for a
// terminal.
std::string field(std::string_view key_text, std::string_view tag) {
  const std::string_view value = jit::field_of(key_text, tag).value_or(std::string_view());
  std::string line(value.substr(0, value.find('\n')));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 127) c = '?';
  }
  return line;
}

}  // namespace

std::vector<Layer> cache_layers() {
  std::vector<Layer> layers;
  if (!config().cache_dir.empty()) layers.push_back(open_layer(config().cache_dir, false));
  for (const auto& path : config().cache_path) layers.push_back(open_layer(path, true));
  return layers;
}

int complain_of(const std::vector<Layer>& layers) {
  int code = exit_ok;
  for (const Layer& layer : layers) {
    if (layer.problem.empty()) continue;
    complain(layer.problem);
    code = exit_failure;
  }
  return code;
}

std::shared_ptr<const jit::CacheDirectory> directory_to_clean() {
  if (config().cache != "rw") {
    throw ConfigError("COCONET_CACHE is '" + config().cache +
                      "', so nothing is removed from the cache; unset it");
  }
  if (config().cache_dir.empty())
    throw ConfigError("there is no cache directory; set COCONET_CACHE_DIR to one");
  return jit::CacheDirectory::open(config().cache_dir, ownership_of_written());
}

std::string mode_note() {
  if (config().cache == "off")
    return "COCONET_CACHE is 'off': no kernel is read from a directory, and none is written.\n";
  if (config().cache == "ro") return "COCONET_CACHE is 'ro': kernels are read, and not written.\n";
  return {};
}

Label label_of(std::string_view key_text) {
  Label label{field(key_text, "kind"), field(key_text, "entry"), field(key_text, "target"),
              field(key_text, "arch")};
  if (label.name.empty()) label.name = field(key_text, "what");
  return label;
}

std::string readable_bytes(std::uint64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < units.size(); ++unit) amount /= 1024;
  return fmt::format("{:.{}f} {}", amount, unit == 0 ? 0 : 1, units[unit]);
}

std::string readable_time(jit::FileTime time) {
  return formatted(time, "%Y-%m-%d %H:%M", false);
}

std::string iso_time(jit::FileTime time) {
  return formatted(time, "%Y-%m-%dT%H:%M:%SZ", true);
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace coconet::cli
