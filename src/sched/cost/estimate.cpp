// From what steps do to how long that takes.
#include "sched/cost/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "coconet/error.h"

namespace coconet::sched {

namespace {

using ir::Op;

constexpr double per_us = 1e3;  // 10^9 a second, in a microsecond

/// The ranks that exchange data along an axis.
struct Peers {
  int ranks = 1;
  int nodes = 1;
};

class Estimator {
 public:
  Estimator(const Plan& plan, const PlanWork& work, const Cluster& cluster)
      : plan_(plan), mesh_(plan.graph.mesh), work_(work), cluster_(cluster) {}

  Estimate run() {
    for (const Work& work : work_.steps) {
      result_.steps.push_back(work.kind == Work::Kind::kernel    ? kernel(work)
                              : work.kind == Work::Kind::library ? library(work)
                                                                 : matmul(work));
      if (work.kind == Work::Kind::matmul) result_.matmuls_us += result_.steps.back().total();
    }
    result_.us = whole();
    return std::move(result_);
  }

 private:
  [[nodiscard]] Peers peers_along(int axis) const {
    std::set<int> nodes;
    const std::vector<int> ranks = mesh_.group(0, axis);
    for (const int rank : ranks) nodes.insert(rank / cluster_.ranks_per_node);
    return {static_cast<int>(ranks.size()), static_cast<int>(nodes.size())};
  }

  [[nodiscard]] double memory_us(double bytes) const {
    return bytes / (per_us * cluster_.memory_gb_per_s(work_.footprint));
  }

  StepEstimate kernel(const Work& work) {
    StepEstimate step{.name = work.name, .way = ""};
    step.latency = cluster_.launch_us;
    double bytes = work.bytes, mailboxes = 0;
    for (const Exchange& exchange : work.exchanges) {
      const Peers peers = peers_along(exchange.axis);
      if (peers.ranks == 1) continue;
      if (peers.nodes > 1) {
        cross_nodes(work, exchange, peers, step);
        continue;
      }
      if (const auto us = cluster_.mailboxes_us(work.way, exchange.bytes)) {
        // Measured of an all_reduce, of which the others are halves.
        mailboxes += *us * (exchange.op == Op::all_reduce ? 1 : 0.5);
        continue;
      }
      const Moved moved = moved_by(exchange, peers.ranks);
      // Mailboxes are written by one rank and read by another beside what is sent.
      const double copies = work.in_place ? 1 : 2;
      bytes += copies * moved.all;
      if (cluster_.link_gb_per_s) step.links += moved.remote / (per_us * *cluster_.link_gb_per_s);
      // The ranks of an all_reduce meet before they read, and after they have written.
      step.latency += cluster_.barrier_us * (exchange.op == Op::all_reduce ? 2 : 1);
    }
    step.latency += work.totals * cluster_.barrier_us;
    step.memory = memory_us(bytes) + cluster_.lines_us(work.lines) + work.jumps * cluster_.jump_us +
                  mailboxes;
    step.arithmetic = work.operations / (per_us * cluster_.pointwise_gop_per_s);
    return step;
  }

  /// A kernel that NCCL's ring goes through, as CoCoNet's do.
  void cross_nodes(const Work& work, const Exchange& exchange, const Peers& peers,
                   StepEstimate& step) {
    if (!cluster_.kernels_cross_nodes || !cluster_.nccl) {
      result_.problem = fmt::format(
          "kernel '{}' exchanges data among {} ranks of {} nodes, and kernels reach the {} ranks "
          "of a node",
          work.name, peers.ranks, peers.nodes, cluster_.ranks_per_node);
      return;
    }
    const NcclWay* best = nullptr;
    const std::vector<NcclWay> ways =
        nccl_ways(*cluster_.nccl, exchange.op, exchange.bytes, peers.ranks, peers.nodes);
    for (const NcclWay& way : ways) {
      if (way.algorithm == "ring" && (best == nullptr || way.us < best->us)) best = &way;
    }
    step.links += best->us;
    step.way = fmt::format("{}, {}", best->algorithm, best->protocol);
  }

  [[nodiscard]] StepEstimate library(const Work& work) const {
    StepEstimate step{.name = work.name, .way = ""};
    const Exchange& exchange = work.exchanges.front();
    const Peers peers = peers_along(exchange.axis);
    if (peers.ranks == 1) return step;
    if (cluster_.nccl) {
      const NcclWay way =
          nccl_way(*cluster_.nccl, exchange.op, exchange.bytes, peers.ranks, peers.nodes);
      step.links = way.us;
      step.way = fmt::format("{}, {}", way.algorithm, way.protocol);
      return step;
    }
    if (const auto us = cluster_.library_us(exchange.op, exchange.bytes)) {
      step.memory = *us + memory_us(work.bytes) + cluster_.lines_us(work.lines);
      return step;
    }
    // Each rank computes and writes its share of the results, between two barriers.
    const Moved moved = moved_by(exchange, peers.ranks);
    const bool copies = exchange.op != Op::all_reduce && exchange.op != Op::reduce_scatter;
    double bytes = moved.all * (copies ? 2 : 1);
    if (exchange.op == Op::reduce_scatter) bytes += exchange.bytes / peers.ranks;
    step.latency = 2 * cluster_.barrier_us;
    step.memory = memory_us(bytes + work.bytes) + cluster_.lines_us(work.lines);
    return step;
  }

  [[nodiscard]] StepEstimate matmul(const Work& work) const {
    StepEstimate step{.name = work.name, .way = ""};
    step.latency = cluster_.launch_us;
    step.memory = memory_us(work.bytes);
    step.arithmetic = work.operations / (per_us * cluster_.matmul_gop(work.dtype));
    return step;
  }

  [[nodiscard]] double whole() const {
    double us = 0;
    for (std::size_t index = 0; index < result_.steps.size();) {
      const auto overlap = std::ranges::find(plan_.overlaps, index, &Overlap::first);
      if (overlap == plan_.overlaps.end() || !cluster_.overlaps) {
        us += result_.steps[index++].total();
      } else {
        us += overlapped(index, overlap->count);
        index += overlap->count;
      }
    }
    return us;
  }

  /// Tiles go through the steps one after the other. Two of them work at once where one needs the
  /// links and the other the rank's own arithmetic and memory, which each serve one at a time.
  [[nodiscard]] double overlapped(std::size_t first, std::size_t count) const {
    constexpr int tiles = 16;
    double latency = 0, own_free = 0, links_free = 0;
    std::vector<double> done(count, 0);
    // They are launched together, and each waits for the one before all the same.
    for (std::size_t k = 0; k < count; ++k)
      latency += result_.steps[first + k].latency - (k > 0 ? cluster_.launch_us : 0);
    for (int tile = 0; tile < tiles; ++tile) {
      double ready = 0;
      for (std::size_t k = 0; k < count; ++k) {
        const StepEstimate& step = result_.steps[first + k];
        const bool is_sent = step.bound() == "links";
        double& free = is_sent ? links_free : own_free;
        const double begin = std::max({ready, done[k], free});
        done[k] = begin + (step.total() - step.latency) / tiles;
        free = done[k];
        ready = done[k];
      }
    }
    return latency + done.back();
  }

  const Plan& plan_;
  const Mesh& mesh_;
  const PlanWork& work_;
  const Cluster& cluster_;
  Estimate result_;
};

}  // namespace

double StepEstimate::total() const {
  return latency + std::max({memory, links, arithmetic});
}

std::string_view StepEstimate::bound() const {
  const double most = std::max({memory, links, arithmetic});
  if (latency > most) return "latency";
  return most == memory ? "memory" : most == links ? "links" : "arithmetic";
}

Estimate estimate(const Plan& plan, const ir::Sizes& sizes, const Cluster& cluster) {
  if (plan.graph.mesh.size() != cluster.ranks()) {
    throw ConfigError(fmt::format(
        "the cluster '{}' has {} ranks, {} in each node, but the program's mesh {} has {}",
        cluster.name, cluster.ranks(), cluster.ranks_per_node, plan.graph.mesh.str(),
        plan.graph.mesh.size()));
  }
  return Estimator(plan, work_of(plan, sizes), cluster).run();
}

}  // namespace coconet::sched
