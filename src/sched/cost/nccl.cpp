// NCCL's tuning model with the constants of NCCL 2.28.9 (src/graph/tuning.cc, in
// ncclTunerConstantsDefaults, ncclTopoTuneModel and ncclTopoGetAlgoTime). Microseconds, and 10^9
// bytes a second.
#include "sched/cost/nccl.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace coconet::sched {

namespace {

using ir::Op;

enum Protocol : std::uint8_t { ll, ll128, simple };
constexpr std::string_view protocol_names[] = {"ll", "ll128", "simple"};
using ByProtocol = std::array<double, 3>;
/// By nodes: one, two, more.
using ByNodes = std::array<double, 3>;

constexpr ByProtocol ring_base = {6.6, 14.0, 8.4}, tree_base = {6.8, 14.0, 8.4};
constexpr ByProtocol ring_hop = {0.6, 1.9, 3.4}, tree_hop = {0.6, 1.25, 4.0};  // NVLink
constexpr ByProtocol ring_net = {2.7, 4.0, 14.0}, tree_net = {5.0, 8.5, 14.0};
constexpr double nvls_hop = 25, nvls_tree_net = 20.9;
/// What a network adapter costs the processor for each step of a ring; three times for simple.
constexpr double net_overhead = 1;

/// Caps by generation.
constexpr ByNodes most_ll[] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}};
constexpr ByNodes most_ring_ll128[] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}};  // a channel
constexpr ByNodes most_tree_ll128[] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}};
constexpr ByNodes most_tree[] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}};
constexpr ByNodes most_nvls_tree = {0, 57.7, 45.5};  // hopper
constexpr double nvls_efficiency = 0.85;             // hopper

/// Of the bandwidth that trees reach, by the binary logarithm of bytes / 64.
constexpr std::array<std::array<double, 23>, 3> tree_corrections = {
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

double tree_correction(Protocol protocol, double bytes) {
  const double index = std::floor(std::log2(std::max(bytes, 1.0) / 64));
  const auto& row = tree_corrections[protocol];
  return index < 0 || index >= static_cast<double>(row.size())
             ? 1
             : row[static_cast<std::size_t>(index)];
}

class Model {
 public:
  Model(const NcclTopology& topology, Op op, double bytes, int ranks, int nodes)
      : topology_(topology),
        op_(op),
        bytes_(bytes),
        ranks_(ranks),
        nodes_(nodes),
        paths_(nodes > 1 ? topology.network : topology.node),
        generation_(static_cast<std::size_t>(topology.generation)),
        by_nodes_(nodes == 1   ? 0
                  : nodes == 2 ? 1
                               : 2) {}

  std::vector<NcclWay> ways() {
    if (op_ == Op::send || op_ == Op::all_to_all) {
      add_sends();
      return std::move(ways_);
    }
    for (const Protocol protocol : {ll, ll128, simple}) {
      add("ring", protocol, ring_latency(protocol), ring_rate(protocol));
      if (op_ == Op::all_reduce)
        add("tree", protocol, tree_latency(protocol),
            tree_rate(protocol) * tree_correction(protocol, bytes_));
    }
    const bool has_switch = topology_.node_switch.channels > 1;
    if (has_switch && nodes_ == 1 && scatters()) add("nvls", simple, nvls_hop, nvls_rate());
    if (has_switch && nodes_ > 1 && op_ == Op::all_reduce)
      add("nvls_tree", simple, nvls_hop + 2 * log2_nodes() * nvls_tree_net, nvls_rate());
    return std::move(ways_);
  }

 private:
  void add(std::string_view algorithm, Protocol protocol, double us, double gb_per_s) {
    if (gb_per_s <= 0) return;
    ways_.push_back({algorithm, protocol_names[protocol], us + bytes_ / (1000 * gb_per_s)});
  }

  [[nodiscard]] bool scatters() const {
    return op_ == Op::all_reduce || op_ == Op::reduce_scatter || op_ == Op::all_gather;
  }
  /// Of a ring.
  [[nodiscard]] int steps(int members) const {
    if (op_ == Op::all_reduce) return 2 * (members - 1);
    return scatters() ? members - 1 : members;
  }
  [[nodiscard]] double log2_nodes() const {
    return std::bit_width(static_cast<unsigned>(nodes_)) - 1;
  }

  [[nodiscard]] double ring_latency(Protocol protocol) const {
    const int across = nodes_ > 1 ? steps(nodes_) : 0;
    const double overhead = nodes_ > 1 ? net_overhead * (protocol == simple ? 3 : 1) : 0;
    double us = ring_base[protocol] +
                (steps(ranks_) - across) * std::max(ring_hop[protocol], overhead) +
                across * ring_net[protocol];
    // The pipeline of chunks that fill a buffer in every channel.
    const bool fills = bytes_ / (2.0 * paths_.channels * ranks_) >= 64;
    if (op_ == Op::all_reduce && protocol == simple && nodes_ > 1 && fills)
      us *= topology_.generation == NcclTopology::Generation::volta ? 1.9 : 1.4;
    return us;
  }

  [[nodiscard]] double ring_rate(Protocol protocol) const {
    double bus = paths_.all();
    if (protocol == ll) bus = std::min(0.5 * bus, most_ll[generation_][by_nodes_]);
    if (protocol == ll128)
      bus = std::min(0.92 * bus, paths_.channels * most_ring_ll128[generation_][by_nodes_]);
    return bus * ranks_ / steps(ranks_);
  }

  [[nodiscard]] double tree_latency(Protocol protocol) const {
    const int inside = ranks_ / nodes_ - 1;
    return tree_base[protocol] +
           2 * (inside * tree_hop[protocol] + log2_nodes() * tree_net[protocol]);
  }

  [[nodiscard]] double tree_rate(Protocol protocol) const {
    double bus = std::min(0.92 * paths_.all(), paths_.channels * most_tree[generation_][by_nodes_]);
    if (protocol == ll) bus = std::min(bus / 3.8, most_ll[generation_][by_nodes_]);
    if (protocol == ll128) {
      bus = std::min(bus * (nodes_ == 1 ? 7.0 / 9 : 120.0 / 128),
                     paths_.channels * most_tree_ll128[generation_][by_nodes_]);
    }
    return bus / 2;
  }

  [[nodiscard]] double nvls_rate() const {
    const double channels = topology_.node_switch.channels;
    double each = topology_.node_switch.gb_per_s * nvls_efficiency * (channels - 1) / channels;
    const double inside = ranks_ / nodes_;
    each *= op_ == Op::all_reduce ? 2 : (inside - 1) / inside;
    if (nodes_ > 1) {
      const double across = topology_.network.all() / channels * (nodes_ == 2 ? 2 : 1);
      each = std::min({each, across, most_nvls_tree[static_cast<std::size_t>(by_nodes_)]});
    }
    return channels * each * (op_ == Op::all_reduce ? ranks_ / double(steps(ranks_)) : 1);
  }

  /// Sends have no model in NCCL: each goes with simple over all channels, and is no part of a
  /// ring. Of an all_to_all each rank sends its blocks at once.
  void add_sends() {
    const double own = op_ == Op::send ? 1 : 1 - 1.0 / ranks_;
    const double us = ring_base[simple] + (nodes_ > 1 ? ring_net[simple] : ring_hop[simple]);
    ways_.push_back({"send", "simple", us + own * bytes_ / (1000 * paths_.all())});
  }

  const NcclTopology& topology_;
  Op op_;
  double bytes_;
  int ranks_, nodes_;
  NcclTopology::Paths paths_;
  std::size_t generation_;
  std::size_t by_nodes_;
  std::vector<NcclWay> ways_;
};

}  // namespace

std::string_view to_string(NcclTopology::Generation generation) {
  constexpr std::string_view names[] = {"volta", "ampere", "hopper"};
  return names[static_cast<std::size_t>(generation)];
}

std::vector<NcclWay> nccl_ways(const NcclTopology& topology, Op op, double bytes, int ranks,
                               int nodes) {
  return Model(topology, op, bytes, ranks, nodes).ways();
}

NcclWay nccl_way(const NcclTopology& topology, Op op, double bytes, int ranks, int nodes) {
  const std::vector<NcclWay> ways = nccl_ways(topology, op, bytes, ranks, nodes);
  return *std::ranges::min_element(ways, {}, &NcclWay::us);
}

}  // namespace coconet::sched
