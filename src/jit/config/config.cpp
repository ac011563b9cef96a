// The configuration: one table of COCONET_* variables drives reading, config_variables() and the documentation.
#include "coconet/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "coconet/error.h"
#include "ir/graph.h"
#include "ir/knobs.h"
#include "jit/config/build_info.h"
#include "jit/config/log.h"
#include "jit/config/parse.h"

namespace coconet {
namespace jit {
namespace {

constexpr std::string_view prefix = "COCONET_";

template <std::size_t N>
bool read_one_of(const std::array<std::string_view, N>& words, std::string_view text,
                 std::string& into) {
  if (std::find(words.begin(), words.end(), text) == words.end()) return false;
  into = text;
  return true;
}

bool read_log(std::string_view text, Config& config) {
  static constexpr std::array<std::string_view, 6> words{"trace", "debug", "info",
                                                         "warn",  "error", "off"};
  return read_one_of(words, text, config.log_level);
}

bool read_cache(std::string_view text, Config& config) {
  static constexpr std::array<std::string_view, 3> words{"rw", "ro", "off"};
  return read_one_of(words, text, config.cache);
}

bool read_backend(std::string_view text, Config& config) {
  static constexpr std::array<std::string_view, 2> words{"host", "cuda"};
  return read_one_of(words, text, config.backend);
}

constexpr std::array<std::string_view, 3> switches{"auto", "on", "off"};

bool read_graph(std::string_view text, Config& config) {
  return read_one_of(switches, text, config.graph);
}

bool read_overlap(std::string_view text, Config& config) {
  return read_one_of(switches, text, config.overlap);
}

bool read_number(std::string_view text, int least, int most, int& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size() && into >= least && into <= most;
}

// More than one thread are whole warps.
bool read_host_threads(std::string_view text, Config& config) {
  int& threads = config.host_threads;
  return read_number(text, 1, 1024, threads) && (threads == 1 || threads % 32 == 0);
}

bool read_cxx(std::string_view text, Config& config) {
  config.cxx = text;
  return true;
}

bool read_cxx_flags(std::string_view text, Config& config) {
  config.cxx_flags = text;
  return true;
}

// sm_ and a number; behind it may be the a or f of a variant, as in sm_90a.
bool read_arch(std::string_view text, Config& config) {
  if (!text.starts_with("sm_")) return false;
  std::string_view number = text.substr(3);
  if (number.ends_with('a') || number.ends_with('f')) number.remove_suffix(1);
  if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos)
    return false;
  config.arch = text;
  return true;
}

bool read_line_info(std::string_view text, Config& config) {
  config.line_info = text == "1";
  return text == "0" || text == "1";
}

// Absolute, because the application may change its working directory later.
bool read_directory(std::string_view text, std::filesystem::path& into) {
  std::error_code error;
  into = std::filesystem::absolute(std::filesystem::path(text), error);
  return !error;
}

bool read_directories(std::string_view text, std::vector<std::filesystem::path>& into) {
  into.clear();
  while (!text.empty()) {
    const std::string_view directory = text.substr(0, text.find(':'));
    if (!directory.empty() && !read_directory(directory, into.emplace_back())) return false;
    text.remove_prefix(std::min(directory.size() + 1, text.size()));
  }
  return true;
}

bool read_cuda_path(std::string_view text, Config& config) {
  return read_directories(text, config.cuda_path);
}

bool read_cache_path(std::string_view text, Config& config) {
  return read_directories(text, config.cache_path);
}

bool read_cache_max_size(std::string_view text, Config& config) {
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes) config.cache_max_size = *bytes;
  return bytes.has_value();
}

bool read_cache_max_files(std::string_view text, Config& config) {
  int files = 0;
  if (!read_number(text, 0, 1'000'000'000, files)) return false;
  config.cache_max_files = static_cast<std::uint64_t>(files);
  return true;
}

bool read_jit_jobs(std::string_view text, Config& config) {
  return read_number(text, 1, 1024, config.jit_jobs);
}

bool read_cache_dir(std::string_view text, Config& config) {
  return read_directory(text, config.cache_dir);
}

bool read_dump_dir(std::string_view text, Config& config) {
  return read_directory(text, config.dump_dir);
}

// Rounded up to a whole millisecond, so that no positive number means no time at all; a number of more than some
// thirty years means those, so that adding it to a clock cannot overflow.
bool read_seconds(std::string_view text, std::chrono::milliseconds& into) {
  constexpr double longest = 1e9;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (!std::isfinite(seconds) || seconds <= 0) return false;
  into = std::chrono::milliseconds(
      static_cast<std::int64_t>(std::ceil(std::min(seconds, longest) * 1e3)));
  return true;
}

bool read_host_id(std::string_view text, Config& config) {
  config.host_id = text;
  return true;
}

bool read_timeout(std::string_view text, Config& config) {
  return read_seconds(text, config.timeout);
}

bool read_compile_timeout(std::string_view text, Config& config) {
  return read_seconds(text, config.compile_timeout);
}

struct Row {
  ConfigVariable variable;
  bool (*read)(std::string_view text, Config& config) = nullptr;  ///< false: malformed
  const ir::KnobRow* knob = nullptr;                              ///< which is read instead
};

/// How steps run.
constexpr Row settings_of_runs[] = {
    {{"COCONET_LOG", "trace, debug, info, warn, error or off", "warn",
      "the least severe messages that are printed on standard error"},
     read_log},
    {{"COCONET_BACKEND", "host or cuda", "host",
      "where kernels run and tensors are: the processors, or NVIDIA GPUs"},
     read_backend},
    {{"COCONET_GRAPH", "auto, on or off", "auto",
      "whether a step on a GPU is replayed as a CUDA graph; auto: a step of several launches is"},
     read_graph},
    {{"COCONET_OVERLAP", "auto, on or off", "auto",
      "whether steps that a schedule overlaps run at once, on the host as threads and on GPUs in "
      "streams of their own, or one after the other; auto: at once where every one has a core, and "
      "wherever a GPU has room for them"},
     read_overlap},
    {{"COCONET_HOST_THREADS", "1, or a multiple of 32 up to 1024", "1",
      "threads of a kernel's block on the processors; many run as a GPU's do, slowly, for race "
      "checks"},
     read_host_threads},
};

/// How kernels are compiled and kept, and how long to wait.
constexpr Row settings_of_builds[] = {
    {{"COCONET_CXX", "a path or a name on PATH", "the compiler that built the library",
      "the C++20 compiler of host kernels"},
     read_cxx},
    {{"COCONET_CXXFLAGS", "options, split at blanks", "none",
      "appended to the options of host kernels"},
     read_cxx_flags},
    {{"COCONET_ARCH", "a GPU architecture such as sm_90", "none",
      "what `coconet compile` and `coconet explain --show kernels` compile for without --arch"},
     read_arch},
    {{"COCONET_LINE_INFO", "0 or 1", "0", "whether GPU kernels carry line numbers, for profilers"},
     read_line_info},
    {{"COCONET_CUDA_PATH", "directories, divided by colons", "none",
      "where libcuda, libnvrtc and libnccl are looked for first"},
     read_cuda_path},
    {{"COCONET_CACHE_DIR", "a directory",
      "kernel_cache in the source tree for builds with the presets, else "
      "$XDG_CACHE_HOME/coconet-jit, "
      "else $HOME/.cache/coconet-jit",
      "where compiled kernels are kept"},
     read_cache_dir},
    {{"COCONET_CACHE", "rw, ro or off", "rw",
      "whether kernels on disk are read and written, only read, or neither"},
     read_cache},
    {{"COCONET_CACHE_PATH", "directories, divided by colons", "none",
      "where kernels are looked for after COCONET_CACHE_DIR, and never written: a site's own"},
     read_cache_path},
    {{"COCONET_CACHE_MAX_SIZE", "bytes, such as 500M or 2G; 0: no limit", "1G",
      "what COCONET_CACHE_DIR may hold; then the kernels that were not used the longest are "
      "removed"},
     read_cache_max_size},
    {{"COCONET_CACHE_MAX_FILES", "a number; 0: no limit", "20000", "how many kernels it may hold"},
     read_cache_max_files},
    {{"COCONET_JIT_JOBS", "1 to 1024", "the node's cores over the job's processes there",
      "compilers that run at once for every process"},
     read_jit_jobs},
    {{"COCONET_DUMP_DIR", "a directory", "none",
      "where the source of every kernel is written, with its binary and what its compiler said"},
     read_dump_dir},
    {{"COCONET_HOST_ID", "a text", "the host's name",
      "which MPI ranks share memory: those of one machine that have the same"},
     read_host_id},
    {{"COCONET_TIMEOUT_S", "a number of seconds above 0", "60",
      "the longest wait for another rank"},
     read_timeout},
    {{"COCONET_COMPILE_TIMEOUT_S", "a number of seconds above 0", "120",
      "the longest run of a compiler"},
     read_compile_timeout},
};

/// All variables, in the order of `Config`.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> result(std::begin(settings_of_runs), std::end(settings_of_runs));
    for (const ir::KnobRow& row : ir::knob_table()) {
      result.push_back(
          {{row.variable, row.accepted, "as the schedule says", row.effect}, nullptr, &row});
    }
    result.insert(result.end(), std::begin(settings_of_builds), std::end(settings_of_builds));
    return result;
  }();
  return all;
}

const std::string* find(const Environment& environment, std::string_view name) {
  for (const auto& [key, value] : environment) {
    if (key == name) return &value;
  }
  return nullptr;
}

// The XDG base directory specification has relative paths ignored. Empty: no place, no cache on disk.
std::filesystem::path default_cache_dir(const Environment& environment,
                                        const BuildDefaults& defaults) {
  if (!defaults.cache_dir.empty()) return std::filesystem::path(defaults.cache_dir);
  const std::string* xdg = find(environment, "XDG_CACHE_HOME");
  if (xdg != nullptr && xdg->starts_with('/')) return std::filesystem::path(*xdg) / "coconet-jit";
  const std::string* home = find(environment, "HOME");
  if (home != nullptr && home->starts_with('/'))
    return std::filesystem::path(*home) / ".cache" / "coconet-jit";
  return {};
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  names.reserve(rows().size());
  for (const Row& row : rows()) names.emplace_back(row.variable.name);
  return names;
}

std::string unknown_name(const std::string& name, const std::vector<std::string>& known) {
  std::string message = name + " is not a variable of coconet-jit and is ignored; ";
  if (const std::string near = ir::nearest(name, known); !near.empty())
    return message + "did you mean " + near + "?";
  message += "the known ones are";
  for (std::size_t i = 0; i < known.size(); ++i) message += (i == 0 ? " " : ", ") + known[i];
  return message;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view units = "KMGT";
  int shift = 0;
  if (!text.empty()) {
    const std::size_t unit = units.find(text.back());
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (bytes > (~std::uint64_t{0} >> shift)) return std::nullopt;
  return bytes << shift;
}

ParsedConfig parse_config(const Environment& environment, const BuildDefaults& defaults) {
  ParsedConfig result;
  result.config.cxx = defaults.cxx;
  result.config.cache_dir = default_cache_dir(environment, defaults);
  for (const Row& row : rows()) {
    const std::string* value = find(environment, row.variable.name);
    if (value == nullptr || value->empty()) continue;
    if (row.knob != nullptr ? row.knob->parse(*value, result.config.knobs)
                            : row.read(*value, result.config))
      continue;
    throw ConfigError(std::string(row.variable.name) + " is '" + *value + "'; it takes " +
                      std::string(row.variable.accepts));
  }
  const std::vector<std::string> known = known_names();
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(prefix) || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    result.warnings.push_back(unknown_name(name, known));
  }
  return result;
}

Environment process_environment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

std::string config_table() {
  std::string table = "| variable | takes | default | meaning |\n|---|---|---|---|\n";
  for (const auto& [name, accepts, fallback, meaning] : config_variables()) {
    table += "| `" + std::string(name) + "` | " + std::string(accepts) + " | " +
             std::string(fallback) + " | " + std::string(meaning) + " |\n";
  }
  return table;
}

}  // namespace jit

const Config& config() {
  // A throwing initialiser runs again at the next call, so every caller hears of a malformed variable.
  static const Config read = [] {
    const jit::BuildDefaults defaults{jit::build_info::default_cxx,
                                      jit::build_info::source_cache_dir};
    jit::ParsedConfig parsed = jit::parse_config(jit::process_environment(), defaults);
    jit::set_log_level(parsed.config.log_level);
    for (const std::string& warning : parsed.warnings) jit::log_warn(warning);
    return std::move(parsed.config);
  }();
  return read;
}

const std::vector<ConfigVariable>& config_variables() {
  static const std::vector<ConfigVariable> variables = [] {
    std::vector<ConfigVariable> result;
    result.reserve(jit::rows().size());
    for (const jit::Row& row : jit::rows()) result.push_back(row.variable);
    return result;
  }();
  return variables;
}

}  // namespace coconet
