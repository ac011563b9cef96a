// The configuration: one table of COCONET_* variables drives reading, config_variables() and the
// documentation.
#include "coconet/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "coconet/error.h"
#include "coconet/version.h"
#include "ir/graph.h"
#include "ir/knobs.h"
#include "jit/config/build_info.h"
#include "jit/config/build_tree.h"
#include "jit/config/configure.h"
#include "jit/config/log.h"
#include "jit/config/parse.h"

namespace coconet {
namespace jit {
namespace {

bool parse(std::string_view text, std::string& into) {
  into = text;
  return true;
}

bool parse(std::string_view text, bool& into) {
  into = text == "1";
  return into || text == "0";
}

// Absolute, because the application may change its working directory later.
bool parse(std::string_view text, std::filesystem::path& into) {
  std::error_code error;
  into = std::filesystem::absolute(std::filesystem::path(text), error);
  return !error;
}

bool parse(std::string_view text, std::vector<std::filesystem::path>& into) {
  into.clear();
  while (!text.empty()) {
    const std::string_view directory = text.substr(0, text.find(':'));
    if (!directory.empty() && !parse(directory, into.emplace_back())) return false;
    text.remove_prefix(std::min(directory.size() + 1, text.size()));
  }
  return true;
}

// Seconds, rounded up to a whole millisecond, so that no positive number means no time at all, and
// at most some thirty years, so that adding them to a clock cannot overflow.
bool parse(std::string_view text, std::chrono::milliseconds& into) {
  constexpr double longest = 1e9;
  double seconds = 0;
  if (!parse_number(text, seconds) || !std::isfinite(seconds) || seconds <= 0) return false;
  into = std::chrono::milliseconds(
      static_cast<std::int64_t>(std::ceil(std::min(seconds, longest) * 1e3)));
  return true;
}

/// Sets a field to what a variable that takes `accepts` says; false when it may not say that.
using Read = bool (*)(std::string_view text, std::string_view accepts, Config& config);

template <auto field>
bool read(std::string_view text, std::string_view, Config& config) {
  return parse(text, config.*field);
}

/// Whether `word` is in `list`, "rw, ro or off".
bool lists(std::string_view list, std::string_view word) {
  for (const std::string_view divider : {", ", " or "}) {
    const std::size_t at = list.find(divider);
    if (at != std::string_view::npos)
      return word == list.substr(0, at) || lists(list.substr(at + divider.size()), word);
  }
  return word == list;
}

template <auto field>
bool read_word(std::string_view text, std::string_view accepts, Config& config) {
  config.*field = text;
  return lists(accepts, text);
}

template <auto field, int least, int most>
bool read_number(std::string_view text, std::string_view, Config& config) {
  auto& number = config.*field;
  return parse_number(text, number) && std::cmp_less_equal(least, number) &&
         std::cmp_less_equal(number, most);
}

// More than one thread are whole warps.
bool read_host_threads(std::string_view text, std::string_view accepts, Config& config) {
  const int& threads = config.host_threads;
  return read_number<&Config::host_threads, 1, 1024>(text, accepts, config) &&
         (threads == 1 || threads % 32 == 0);
}

// sm_ and a number; behind it may be the a or f of a variant, as in sm_90a.
bool read_arch(std::string_view text, std::string_view, Config& config) {
  config.arch = text;
  if (!text.starts_with("sm_")) return false;
  std::string_view number = text.substr(3);
  if (number.ends_with('a') || number.ends_with('f')) number.remove_suffix(1);
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

bool read_cache_max_size(std::string_view text, std::string_view, Config& config) {
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes) config.cache_max_size = *bytes;
  return bytes.has_value();
}

struct Row {
  ConfigVariable variable;
  Read read = nullptr;
  const ir::KnobRow* knob = nullptr;  ///< which is read instead
};

/// How steps run.
constexpr Row settings_of_runs[] = {
    {{"COCONET_LOG", "trace, debug, info, warn, error or off", "warn",
      "the least severe messages that are printed on standard error"},
     read_word<&Config::log_level>},
    {{"COCONET_BACKEND", "host or cuda", "host",
      "where kernels run and tensors are: the processors, or NVIDIA GPUs"},
     read_word<&Config::backend>},
    {{"COCONET_GRAPH", "auto, on or off", "auto",
      "whether a step on a GPU is replayed as a CUDA graph; auto: a step of several launches is"},
     read_word<&Config::graph>},
    {{"COCONET_OVERLAP", "auto, on or off", "auto",
      "whether steps that a schedule overlaps run at once, on the host as threads and on GPUs in "
      "streams of their own, or one after the other; auto: at once where every one has a core, and "
      "wherever a GPU has room for them"},
     read_word<&Config::overlap>},
    {{"COCONET_COLLECTIVES", "auto or mpi", "auto",
      "how the library's collectives among processors go; auto: through shared memory, unless the "
      "tuning file says that MPI is quicker for the program; mpi: all by MPI"},
     read_word<&Config::collectives>},
    {{"COCONET_FREE_MULTIPROCESSORS", "a number from 0 to 1024", "0",
      "multiprocessors of a GPU that kernels which wait for other ranks leave free, for the "
      "application's own NCCL; above 0, their blocks have one each"},
     read_number<&Config::free_multiprocessors, 0, 1024>},
    {{"COCONET_CHECK", "0 or 1", "0",
      "whether ranks compare, before every step, the elements of inputs and states that they must "
      "have alike, whether ranks of one process share memory, and whether indices and labels are "
      "some; slowly, to find mistakes"},
     read<&Config::check>},
    {{"COCONET_CORES", "1 to 1024", "the cores that a rank has for itself",
      "threads over which each rank spreads its kernels, products and collectives on the "
      "processors, the same number on all ranks: the least that one of them has"},
     read_number<&Config::cores, 1, 1024>},
    {{"COCONET_HOST_THREADS", "1, or a multiple of 32 up to 1024", "1",
      "threads of a kernel's block on the processors; many run as a GPU's do, slowly, for race "
      "checks"},
     read_host_threads},
};

/// How kernels are compiled and kept, and how long to wait.
constexpr Row settings_of_builds[] = {
    {{"COCONET_CXX", "a path or a name on PATH", "the compiler that built the library",
      "the C++20 compiler of host kernels"},
     read<&Config::cxx>},
    {{"COCONET_CXXFLAGS", "options, split at blanks", "none",
      "appended to the options of host kernels"},
     read<&Config::cxx_flags>},
    {{"COCONET_ARCH", "a GPU architecture such as sm_90", "none",
      "what `coconet compile` and `coconet explain --show kernels` compile for without --arch"},
     read_arch},
    {{"COCONET_LINE_INFO", "0 or 1", "0", "whether GPU kernels carry line numbers, for profilers"},
     read<&Config::line_info>},
    {{"COCONET_CUDA_PATH", "directories, divided by colons", "none",
      "where libcuda, libnvrtc and libnccl are looked for first"},
     read<&Config::cuda_path>},
    {{"COCONET_CACHE_DIR", "a directory",
      "kernel_cache in the source tree for builds with the presets, else "
      "$XDG_CACHE_HOME/coconet-jit, "
      "else $HOME/.cache/coconet-jit",
      "where compiled kernels are kept"},
     read<&Config::cache_dir>},
    {{"COCONET_CACHE", "rw, ro or off", "rw",
      "whether kernels on disk are read and written, only read, or neither"},
     read_word<&Config::cache>},
    {{"COCONET_CACHE_PATH", "directories, divided by colons", "none",
      "where kernels are looked for after COCONET_CACHE_DIR, and never written: a site's own"},
     read<&Config::cache_path>},
    {{"COCONET_CACHE_MAX_SIZE", "bytes, such as 500M or 2G; 0: no limit", "1G",
      "what COCONET_CACHE_DIR may hold; then the kernels that were not used the longest are "
      "removed"},
     read_cache_max_size},
    {{"COCONET_CACHE_MAX_FILES", "a number; 0: no limit", "20000", "how many kernels it may hold"},
     read_number<&Config::cache_max_files, 0, 1'000'000'000>},
    {{"COCONET_JIT_JOBS", "1 to 1024", "the node's cores over the job's processes there",
      "compilers that run at once for every process"},
     read_number<&Config::jit_jobs, 1, 1024>},
    {{"COCONET_TUNE", "off, cached or on", "cached",
      "whether compile(), for an automatic schedule or without one, leaves the tuning file alone, "
      "takes what it has, or measures what is not there, and keeps it"},
     read_word<&Config::tune>},
    {{"COCONET_TUNE_S", "a number of seconds above 0", "20",
      "how long compile() measures at most for COCONET_TUNE=on; then it takes the best so far"},
     read<&Config::tune_limit>},
    {{"COCONET_TUNE_FILE", "a file", "tuning.json in COCONET_CACHE_DIR",
      "where what `coconet tune` and `coconet calibrate` measured is kept"},
     read<&Config::tune_file>},
    {{"COCONET_DUMP_DIR", "a directory", "none",
      "where the source of every kernel is written, with its binary, from which it is loaded so "
      "that profilers find its symbols, and what its compiler said; it is made where there is "
      "none, and not used where other users may write: `/tmp/kernels`, but not `/tmp`"},
     read<&Config::dump_dir>},
    {{"COCONET_HOST_ID", "a text", "the host's name", "MPI ranks with equal ids share memory"},
     read<&Config::host_id>},
    {{"COCONET_TIMEOUT_S", "a number of seconds above 0", "300",
      "the longest wait for another rank, and for a reader of a pipe that an output goes to"},
     read<&Config::timeout>},
    {{"COCONET_COMPILE_TIMEOUT_S", "a number of seconds above 0", "120",
      "the longest run of a compiler"},
     read<&Config::compile_timeout>},
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
  const auto found = std::ranges::find(environment, name, &Environment::value_type::first);
  return found == environment.end() ? nullptr : &found->second;
}

// The XDG base directory specification has relative paths ignored. Empty: no cache on disk.
std::filesystem::path default_cache_dir(const Environment& environment,
                                        const BuildDefaults& defaults) {
  if (!defaults.cache_dir.empty()) return defaults.cache_dir;
  for (const auto& [name, folder] :
       {std::pair{"XDG_CACHE_HOME", "coconet-jit"}, std::pair{"HOME", ".cache/coconet-jit"}}) {
    const std::string* base = find(environment, name);
    if (base != nullptr && base->starts_with('/')) return std::filesystem::path(*base) / folder;
  }
  return {};
}

std::string unknown_name(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = ir::nearest(name, known);
  return fmt::format("{} is not a variable of coconet-jit and is ignored; {}", name,
                     near.empty() ? fmt::format("the known ones are {}", fmt::join(known, ", "))
                                  : fmt::format("did you mean {}?", near));
}

/// The process's environment, as it was at the first call.
const ParsedConfig& parsed_environment() {
  // A throwing initialiser runs again at the next call, so every caller hears of a malformed
  // variable.
  static const ParsedConfig read = [] {
    const std::string cache_dir = build_tree_cache_dir();
    const BuildDefaults defaults{build_info::default_cxx, cache_dir};
    ParsedConfig parsed = parse_config(process_environment(), defaults);
    set_log_level(parsed.config.log_level);
    for (const std::string& warning : parsed.warnings) log_warn(warning);
    return parsed;
  }();
  return read;
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
  if (!parse_number(text, bytes) || bytes > (~std::uint64_t{0} >> shift)) return std::nullopt;
  return bytes << shift;
}

ParsedConfig parse_config(const Environment& environment, const BuildDefaults& defaults) {
  ParsedConfig result;
  result.config.cxx = defaults.cxx;
  result.config.cache_dir = default_cache_dir(environment, defaults);
  std::vector<std::string> known;
  for (const auto& [variable, read, knob] : rows()) {
    known.emplace_back(variable.name);
    const std::string* value = find(environment, variable.name);
    if (value == nullptr || value->empty()) continue;
    result.set.emplace_back(variable.name);
    if (knob != nullptr ? knob->parse(*value, result.config.knobs)
                        : read(*value, variable.accepts, result.config))
      continue;
    throw ConfigError(
        fmt::format("{} is '{}'; it takes {}", variable.name, *value, variable.accepts));
  }
  Config& config = result.config;
  if (config.tune_file.empty() && !config.cache_dir.empty())
    config.tune_file = config.cache_dir / "tuning.json";
  for (const auto& [name, value] : environment) {
    if (name.starts_with("COCONET_") && std::ranges::find(known, name) == known.end())
      result.warnings.push_back(unknown_name(name, known));
  }
  return result;
}

std::vector<std::string> common_settings(const Config& config) {
  std::vector<std::string> settings{
      fmt::format("COCONET_BACKEND={}", config.backend),
      fmt::format("COCONET_OVERLAP={}", config.overlap),
      fmt::format("COCONET_COLLECTIVES={}", config.collectives),
      fmt::format("COCONET_FREE_MULTIPROCESSORS={}", config.free_multiprocessors),
      fmt::format("COCONET_CHECK={}", config.check ? 1 : 0),
      fmt::format("COCONET_HOST_THREADS={}", config.host_threads),
      fmt::format("COCONET_TUNE={}", config.tune)};
  for (const ir::KnobRow& row : ir::knob_table()) {
    if (row.is_set(config.knobs))
      settings.push_back(fmt::format("{}={}", row.variable, row.value(config.knobs)));
  }
  return settings;
}

Config with_options(const Config& base, const Options& options, const std::vector<std::string>& set,
                    std::vector<std::string>& notes) {
  Config result = base;
  const auto seconds = [](const std::optional<std::chrono::milliseconds>& time) {
    return time ? std::optional(fmt::format("{}", static_cast<double>(time->count()) / 1e3))
                : std::nullopt;
  };
  const auto text_of = [](const auto& value) {
    return value ? std::optional(fmt::format("{}", *value)) : std::nullopt;
  };
  const struct {
    const char* name;
    const char* variable;
    std::optional<std::string> value;
  } given[] = {
      {"backend", "COCONET_BACKEND", options.backend},
      {"overlap", "COCONET_OVERLAP", options.overlap},
      {"cores", "COCONET_CORES", text_of(options.cores)},
      {"cache_dir", "COCONET_CACHE_DIR",
       options.cache_dir ? std::optional(options.cache_dir->string()) : std::nullopt},
      {"check", "COCONET_CHECK",
       options.check ? std::optional<std::string>(*options.check ? "1" : "0") : std::nullopt},
      {"jit_jobs", "COCONET_JIT_JOBS", text_of(options.jit_jobs)},
      {"timeout", "COCONET_TIMEOUT_S", seconds(options.timeout)},
      {"compile_timeout", "COCONET_COMPILE_TIMEOUT_S", seconds(options.compile_timeout)},
      {"log_level", "COCONET_LOG", options.log_level},
  };
  for (const auto& [name, variable, value] : given) {
    if (!value) continue;
    const std::string_view wanted = variable;
    const auto row =
        std::ranges::find_if(rows(), [&](const Row& one) { return one.variable.name == wanted; });
    Config changed = result;
    if (value->empty() || !row->read(*value, row->variable.accepts, changed)) {
      throw ConfigError(
          fmt::format("Options::{} is '{}'; it takes {}", name, *value, row->variable.accepts));
    }
    if (std::ranges::find(set, variable) != set.end()) {
      if (changed != result) {
        notes.push_back(fmt::format("{} is set and wins over the program's Options::{}, '{}'",
                                    variable, name, *value));
      }
      continue;
    }
    result = std::move(changed);
  }
  // What lies in the cache directory unless it is named moves with it.
  if (result.cache_dir != base.cache_dir &&
      std::ranges::find(set, "COCONET_TUNE_FILE") == set.end())
    result.tune_file = result.cache_dir / "tuning.json";
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
    table += fmt::format("| `{}` | {} | {} | {} |\n", name, accepts, fallback, meaning);
  }
  return table;
}

std::shared_ptr<const Config> configure(const Options& options, const Config& base) {
  std::vector<std::string> notes;
  auto result =
      std::make_shared<const Config>(with_options(base, options, parsed_environment().set, notes));
  if (options.log_level) set_log_level(result->log_level);
  for (const std::string& note : notes) log_info(note);
  return result;
}

}  // namespace jit

std::string_view version() {
  return jit::build_info::version;
}

const Config& config() {
  return jit::parsed_environment().config;
}

const std::vector<ConfigVariable>& config_variables() {
  static const std::vector<ConfigVariable> variables = [] {
    std::vector<ConfigVariable> result;
    for (const jit::Row& row : jit::rows()) result.push_back(row.variable);
    return result;
  }();
  return variables;
}

}  // namespace coconet
