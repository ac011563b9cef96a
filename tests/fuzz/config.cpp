// Values of COCONET_* variables: the first byte chooses one, and the rest is its value; 255: a
// whole environment, a line for each variable.
#include "coconet/config.h"

#include <algorithm>

#include "fuzz/targets.h"
#include "jit/config/parse.h"
#include "sched/knobs.h"

namespace coconet::fuzz {
namespace {

constexpr std::uint8_t whole_environment = 255;

jit::Environment environment_of(Bytes bytes) {
  const std::uint8_t chosen = bytes.front();
  std::string_view text = text_of(bytes.subspan(1));
  if (chosen != whole_environment) {
    const std::vector<ConfigVariable>& variables = config_variables();
    return {{std::string(variables[chosen % variables.size()].name), std::string(text)}};
  }
  jit::Environment environment;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      environment.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return environment;
}

}  // namespace

void fuzz_config(Bytes bytes) {
  if (bytes.empty()) return;
  const jit::Environment environment = environment_of(bytes);
  const jit::ParsedConfig parsed = jit::parse_config(environment, {"c++", "/cache"});
  require(jit::parse_config(environment, {"c++", "/cache"}).config == parsed.config,
          "an environment has one meaning");
  const Config& config = parsed.config;
  sched::check_knobs(config.knobs);
  require(config.timeout.count() > 0 && config.compile_timeout.count() > 0, "a wait takes time");
  require(config.host_threads >= 1 && config.host_threads <= 1024, "a block has threads");
  require(config.cores >= 0 && config.cores <= 1024, "there are so many cores");
  require(config.jit_jobs >= 0 && config.jit_jobs <= 1024, "there are so many compilers");
  for (const std::filesystem::path& path : {config.cache_dir, config.tune_file, config.dump_dir})
    require(path.empty() || path.is_absolute(), "directories stay where they are");
  // The value given as an option of the application.
  Options options;
  const std::string& value = environment.empty() ? std::string() : environment.front().second;
  options.backend = options.overlap = options.log_level = value;
  options.cache_dir = value;
  std::vector<std::string> notes;
  (void)jit::with_options(config, options, {}, notes);
}

}  // namespace coconet::fuzz
