// Clusters from JSON and back.
#include "sched/cost/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "coconet/error.h"
#include "ir/graph.h"
#include "ir/json/element.h"
#include "ir/json/text.h"
#include "ir/read_file.h"

namespace coconet::sched {

namespace {

using ir::JsonElement;

constexpr int format_version = 1;
constexpr int most_ranks = 1 << 20;

double positive(const JsonElement& element) {
  const double number = element.number();
  if (!(number > 0) || !std::isfinite(number)) element.wrong_type("a number above 0");
  return number;
}

double not_negative(const JsonElement& element) {
  const double number = element.number();
  if (!(number >= 0) || !std::isfinite(number)) element.wrong_type("a number of at least 0");
  return number;
}

/// Points of so many bytes and what `key` says of them, in the order of their bytes.
template <class Point>
std::vector<Point> parse_points(const JsonElement& element, std::string_view key) {
  std::vector<Point> points;
  for (const JsonElement& point : element.elements()) {
    point.require_object({"bytes", key});
    points.push_back({positive(point.at("bytes")), positive(point.at(key))});
    if (points.size() > 1 && points[points.size() - 2].bytes >= points.back().bytes)
      point.at("bytes").fail("the points must be in the order of their bytes");
  }
  return points;
}

std::vector<Cluster::Rate> parse_memory(const JsonElement& element) {
  auto rates = parse_points<Cluster::Rate>(element, "gb_per_s");
  if (rates.empty())
    element.fail("there must be a point at least: {\"bytes\": 1e9, \"gb_per_s\": 10}");
  return rates;
}

std::map<DType, double> parse_matmul(const JsonElement& element) {
  std::map<DType, double> rates;
  for (const auto& [name, rate] : element.members()) {
    const DType dtype = rate.one_of("dtype", name, all_dtypes);
    rates[dtype] = positive(rate);
  }
  if (!rates.contains(DType::f32))
    element.fail("the key 'f32' is missing: other dtypes take its rate");
  return rates;
}

NcclTopology::Paths parse_paths(const JsonElement& element) {
  element.require_object({"channels", "gb_per_s"});
  return {element.at("channels").small_integer(1), positive(element.at("gb_per_s"))};
}

NcclTopology parse_nccl(const JsonElement& element, int nodes) {
  element.require_object({"generation", "node", "network", "node_switch"});
  using Generation = NcclTopology::Generation;
  const JsonElement generation = element.at("generation");
  NcclTopology topology;
  topology.generation =
      generation.one_of("generation", generation.string(),
                        std::array{Generation::volta, Generation::ampere, Generation::hopper});
  topology.node = parse_paths(element.at("node"));
  if (const auto network = element.find("network")) topology.network = parse_paths(*network);
  if (nodes > 1 && topology.network.channels == 0)
    element.fail("the key 'network' is missing: there are several nodes");
  if (const auto node_switch = element.find("node_switch"))
    topology.node_switch = parse_paths(*node_switch);
  return topology;
}

std::vector<Cluster::Time> parse_times(const JsonElement& element) {
  auto times = parse_points<Cluster::Time>(element, "us");
  if (times.size() < 2)
    element.fail("there must be two points at least: {\"bytes\": 1e6, \"us\": 50}");
  return times;
}

ir::Op next(ir::Op op) {
  return static_cast<ir::Op>(static_cast<int>(op) + 1);
}

std::map<ir::Op, std::vector<Cluster::Time>> parse_library(const JsonElement& element) {
  std::map<ir::Op, std::vector<Cluster::Time>> times;
  for (const auto& [name, points] : element.members()) {
    const auto op = ir::parse_op(name);
    if (!op || !ir::is_collective(*op)) {
      std::vector<std::string> known;
      for (auto one = ir::Op::all_reduce; ir::is_collective(one); one = next(one))
        known.emplace_back(to_string(one));
      points.unknown("collective", name, known);
    }
    times[*op] = parse_times(points);
  }
  return times;
}

std::map<std::string, std::vector<Cluster::Time>> parse_mailboxes(const JsonElement& element) {
  std::map<std::string, std::vector<Cluster::Time>> times;
  for (const auto& [way, points] : element.members()) times[way] = parse_times(points);
  return times;
}

Cluster::Measured parse_measured(const JsonElement& element) {
  element.require_object({"on", "spread", "preempted"});
  const JsonElement on = element.at("on");
  Cluster::Measured measured{on.string(), positive(element.at("spread")),
                             not_negative(element.at("preempted"))};
  if (!parse_day(measured.on))
    on.fail(fmt::format("'{}' is no day, such as 2026-11-28", measured.on));
  return measured;
}

Cluster parse_root(const JsonElement& root, std::optional<int> nodes, bool is_begun) {
  if (!root.is_object()) root.wrong_type("an object with the key coconet_cluster and others");
  root.require_version("coconet_cluster", format_version);
  root.require_object({"coconet_cluster",
                       "name",
                       "description",
                       "nodes",
                       "ranks_per_node",
                       "cores",
                       "memory",
                       "launch_us",
                       "jump_us",
                       "barrier_us",
                       "pointwise_gop_per_s",
                       "matmul_gop_per_s",
                       "overlaps",
                       "link_gb_per_s",
                       "kernels_cross_nodes",
                       "nccl",
                       "library",
                       "mailboxes",
                       "lines",
                       "measured"});
  Cluster cluster;
  cluster.name = root.at("name").name();
  if (const auto description = root.find("description"))
    cluster.description = description->string();
  if (const auto element = root.find("nodes")) cluster.nodes = element->small_integer(1);
  if (nodes) cluster.nodes = *nodes;
  cluster.ranks_per_node = root.at("ranks_per_node").small_integer(1);
  if (cluster.ranks_per_node > most_ranks / cluster.nodes)
    root.at("ranks_per_node").fail(fmt::format("there are more than {} ranks in all", most_ranks));
  if (const auto cores = root.find("cores")) cluster.cores = cores->small_integer(1);
  const auto is_there = [&](const char* key) { return !is_begun || root.find(key).has_value(); };
  if (is_there("memory")) cluster.memory = parse_memory(root.at("memory"));
  cluster.launch_us = not_negative(root.at("launch_us"));
  if (const auto jump = root.find("jump_us")) cluster.jump_us = not_negative(*jump);
  cluster.barrier_us = not_negative(root.at("barrier_us"));
  if (is_there("pointwise_gop_per_s"))
    cluster.pointwise_gop_per_s = positive(root.at("pointwise_gop_per_s"));
  if (is_there("matmul_gop_per_s"))
    cluster.matmul_gop_per_s = parse_matmul(root.at("matmul_gop_per_s"));
  if (const auto overlaps = root.find("overlaps")) cluster.overlaps = overlaps->boolean();
  if (const auto link = root.find("link_gb_per_s")) cluster.link_gb_per_s = positive(*link);
  if (const auto cross = root.find("kernels_cross_nodes"))
    cluster.kernels_cross_nodes = cross->boolean();
  if (const auto nccl = root.find("nccl")) cluster.nccl = parse_nccl(*nccl, cluster.nodes);
  if (const auto library = root.find("library")) cluster.library = parse_library(*library);
  if (const auto mailboxes = root.find("mailboxes"))
    cluster.mailboxes = parse_mailboxes(*mailboxes);
  if (const auto lines = root.find("lines")) cluster.lines = parse_times(*lines);
  if (const auto measured = root.find("measured")) cluster.measured = parse_measured(*measured);
  if (cluster.nodes > 1 && !cluster.nccl)
    root.fail(fmt::format("the key 'nccl' is missing: it says what joins {} nodes", cluster.nodes));
  return cluster;
}

Cluster parse(std::string_view json, std::optional<int> nodes) {
  try {
    return parse_root(ir::parse_json(json, "cluster JSON"), nodes, false);
  } catch (const ProgramError& error) {
    throw ConfigError(error.what());
  }
}

/// Between two points, and past the last one, on a line.
double us_of(const std::vector<Cluster::Time>& times, double bytes) {
  if (bytes <= times.front().bytes) return times.front().us;
  auto above =
      std::ranges::find_if(times, [&](const Cluster::Time& time) { return time.bytes >= bytes; });
  if (above == times.end()) --above;
  const Cluster::Time& below = *std::prev(above);
  const double share = (bytes - below.bytes) / (above->bytes - below.bytes);
  return std::max(below.us + share * (above->us - below.us), below.us);
}

/// Nothing where `key` was not measured.
template <class Key>
std::optional<double> us_of(const std::map<Key, std::vector<Cluster::Time>>& measured,
                            const Key& key, double bytes) {
  const auto found = measured.find(key);
  return found == measured.end() ? std::nullopt : std::optional(us_of(found->second, bytes));
}

/// "dgx2-x16": a shipped cluster and its nodes.
struct Asked {
  std::string name;
  std::optional<int> nodes;
};
Asked split_name(const std::string& asked) {
  const auto at = asked.rfind("-x");
  if (at == std::string::npos) return {asked, {}};
  int nodes = 0;
  const char* const end = asked.data() + asked.size();
  const auto [rest, error] = std::from_chars(asked.data() + at + 2, end, nodes);
  if (error != std::errc() || rest != end || nodes < 1) return {asked, {}};
  return {asked.substr(0, at), nodes};
}

nlohmann::ordered_json as_json(const std::vector<Cluster::Time>& times) {
  nlohmann::ordered_json points;
  for (const Cluster::Time& time : times)
    points.push_back({{"bytes", time.bytes}, {"us", time.us}});
  return points;
}

nlohmann::ordered_json as_json(const NcclTopology::Paths& paths) {
  return {{"channels", paths.channels}, {"gb_per_s", paths.gb_per_s}};
}

}  // namespace

std::optional<std::chrono::sys_days> parse_day(const std::string& text) {
  int year = 0, end = 0;
  unsigned month = 0, day = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &end) != 3 ||
      static_cast<std::size_t>(end) != text.size())
    return {};
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  return date.ok() ? std::optional(std::chrono::sys_days(date)) : std::nullopt;
}

std::string to_string(std::chrono::sys_days day) {
  const std::chrono::year_month_day date(day);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

double Cluster::memory_gb_per_s(double bytes) const {
  const auto above =
      std::ranges::find_if(memory, [&](const Rate& rate) { return rate.bytes >= bytes; });
  if (above == memory.begin()) return memory.front().gb_per_s;
  if (above == memory.end()) return memory.back().gb_per_s;
  const Rate& below = *std::prev(above);
  const double share = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return below.gb_per_s + share * (above->gb_per_s - below.gb_per_s);
}

double Cluster::matmul_gop(DType dtype) const {
  const auto found = matmul_gop_per_s.find(dtype);
  return found != matmul_gop_per_s.end() ? found->second : matmul_gop_per_s.at(DType::f32);
}

std::optional<double> Cluster::library_us(ir::Op op, double bytes) const {
  return us_of(library, op, bytes);
}

double Cluster::lines_us(double bytes) const {
  if (lines.empty() || bytes == 0) return 0;
  const Time& least = lines.front();
  return bytes < least.bytes ? least.us * bytes / least.bytes : us_of(lines, bytes);
}

std::optional<double> Cluster::mailboxes_us(const std::string& way, double bytes) const {
  return us_of(mailboxes, way, bytes);
}

Cluster parse_cluster(std::string_view json) {
  return parse(json, {});
}

Cluster parse_cluster(const JsonElement& element, bool is_begun) {
  return parse_root(element, {}, is_begun);
}

std::string to_json(const Cluster& cluster) {
  nlohmann::ordered_json out;
  out["coconet_cluster"] = format_version;
  out["name"] = cluster.name;
  if (!cluster.description.empty()) out["description"] = cluster.description;
  out["nodes"] = cluster.nodes;
  out["ranks_per_node"] = cluster.ranks_per_node;
  if (cluster.cores > 1) out["cores"] = cluster.cores;
  for (const Cluster::Rate& rate : cluster.memory)
    out["memory"].push_back({{"bytes", rate.bytes}, {"gb_per_s", rate.gb_per_s}});
  out["launch_us"] = cluster.launch_us;
  if (cluster.jump_us > 0) out["jump_us"] = cluster.jump_us;
  out["barrier_us"] = cluster.barrier_us;
  if (cluster.pointwise_gop_per_s > 0) out["pointwise_gop_per_s"] = cluster.pointwise_gop_per_s;
  for (const auto& [dtype, rate] : cluster.matmul_gop_per_s)
    out["matmul_gop_per_s"][std::string(to_string(dtype))] = rate;
  out["overlaps"] = cluster.overlaps;
  if (cluster.link_gb_per_s) out["link_gb_per_s"] = *cluster.link_gb_per_s;
  out["kernels_cross_nodes"] = cluster.kernels_cross_nodes;
  if (const auto& nccl = cluster.nccl) {
    out["nccl"]["generation"] = to_string(nccl->generation);
    out["nccl"]["node"] = as_json(nccl->node);
    if (nccl->network.channels > 0) out["nccl"]["network"] = as_json(nccl->network);
    if (nccl->node_switch.channels > 0) out["nccl"]["node_switch"] = as_json(nccl->node_switch);
  }
  for (const auto& [op, times] : cluster.library)
    out["library"][std::string(to_string(op))] = as_json(times);
  for (const auto& [way, times] : cluster.mailboxes) out["mailboxes"][way] = as_json(times);
  if (!cluster.lines.empty()) out["lines"] = as_json(cluster.lines);
  if (const auto& measured = cluster.measured) {
    out["measured"] = {
        {"on", measured->on}, {"spread", measured->spread}, {"preempted", measured->preempted}};
  }
  return ir::json_text(out, 2) + "\n";
}

Cluster load_cluster(const std::string& name_or_file) {
  const ir::FileText read = ir::read_file(name_or_file);
  if (!read.is_missing) {
    return ir::parse_file<ConfigError>(name_or_file, read, "cluster",
                                       [](const std::string& text) { return parse(text, {}); });
  }
  const Asked asked = split_name(name_or_file);
  std::vector<std::string> known;
  for (const ShippedCluster& shipped : shipped_clusters()) {
    const std::string name(shipped.file.substr(0, shipped.file.find('.')));
    if (name == asked.name) {
      Cluster cluster = parse(shipped.text, asked.nodes);
      cluster.name = name_or_file;
      return cluster;
    }
    known.push_back(name);
  }
  throw ConfigError(
      "there is no cluster file '" + name_or_file + "', and none of that name ships" +
      ir::suggestion(asked.name, known, fmt::format("; those are {}", fmt::join(known, ", "))));
}

}  // namespace coconet::sched
