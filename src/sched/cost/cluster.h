// The description of a machine or a cluster that plans are estimated for, and its JSON.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/dtype.h"
#include "ir/json/element.h"
#include "sched/cost/nccl.h"

namespace coconet::sched {

/// Ranks are numbered node by node. Rates are of one rank while all others do the same, in 10^9 a
/// second.
struct Cluster {
  std::string name;
  std::string description;  ///< what the numbers are of and where they come from
  int nodes = 1;
  int ranks_per_node = 1;
  int cores = 1;  ///< of each rank, on which the host's rates were measured

  /// Bytes that kernels read and write, by the bytes that a rank's step works on: caches are faster
  /// than memory. Sorted; between two points on the line between them over the logarithm of bytes.
  struct Rate {
    double bytes = 0, gb_per_s = 0;
    bool operator==(const Rate&) const = default;
  };
  std::vector<Rate> memory;
  double launch_us = 0;   ///< of a kernel, until the next one can begin
  double jump_us = 0;     ///< from a part of a row to the next: what was fetched ahead is lost
  double barrier_us = 0;  ///< of the ranks of a node, inside a kernel
  double pointwise_gop_per_s = 0;  ///< additions of f32, element by element
  /// Additions and multiplications in products of large matrices; other dtypes take f32's.
  std::map<DType, double> matmul_gop_per_s;
  /// Whether steps that overlap run at once: where a rank has one core they do not.
  bool overlaps = true;
  /// How it was measured; nothing where it was written.
  struct Measured {
    std::string on;        ///< the day, in UTC: "2026-11-28"
    double spread = 1;     ///< the largest of a few equal times over the least, as a rule
    double preempted = 0;  ///< the share of the ranks' processors that other processes took
  };
  std::optional<Measured> measured;

  /// Bytes that a rank receives from its node's others, while it sends as many. Nothing where ranks
  /// share memory: what they exchange is then read and written like the rest.
  std::optional<double> link_gb_per_s;
  /// Whether kernels exchange data with ranks of other nodes, through NCCL's rings.
  bool kernels_cross_nodes = false;
  /// Library collectives are NCCL's; nothing where they are this library's own, of ranks that share
  /// memory.
  std::optional<NcclTopology> nccl;

  /// What a library collective took on the whole tensor's bytes.
  struct Time {
    double bytes = 0, us = 0;
    bool operator==(const Time&) const = default;
  };
  /// Of those that were measured, by op; sorted. Between two points, and past the last one, on a
  /// line. The others are calculated.
  std::map<ir::Op, std::vector<Time>> library;
  /// What an all_reduce inside a kernel took whose ranks send each other chunks through mailboxes,
  /// by algorithm and protocol: "ring, ll". The others are calculated.
  std::map<std::string, std::vector<Time>> mailboxes;
  /// What a rank waits, beyond the time of its own caches and memory, for so many bytes that are in
  /// another rank's caches. Sorted; nothing where that was not measured.
  std::vector<Time> lines;

  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
  [[nodiscard]] double memory_gb_per_s(double bytes) const;
  [[nodiscard]] double matmul_gop(DType dtype) const;
  /// Nothing where `op` was not measured.
  [[nodiscard]] std::optional<double> library_us(ir::Op op, double bytes) const;
  /// 0 where it was not measured.
  [[nodiscard]] double lines_us(double bytes) const;
  [[nodiscard]] std::optional<double> mailboxes_us(const std::string& way, double bytes) const;
};

/// A day as `Measured::on` has it; nothing where it is none.
[[nodiscard]] std::optional<std::chrono::sys_days> parse_day(const std::string& text);
[[nodiscard]] std::string to_string(std::chrono::sys_days day);

/// "dgx2.json", and what is in it.
struct ShippedCluster {
  std::string_view file, text;
};
[[nodiscard]] std::span<const ShippedCluster> shipped_clusters();

/// Throws ConfigError with the JSON pointer of what is wrong.
[[nodiscard]] Cluster parse_cluster(std::string_view json);
/// Reads a cluster that is part of a larger document; throws ProgramError. Measured values may be
/// missing where `is_begun`: the measurement has not ended.
[[nodiscard]] Cluster parse_cluster(const ir::JsonElement& element, bool is_begun = false);
[[nodiscard]] std::string to_json(const Cluster& cluster);
/// Reads a file, or takes the shipped cluster of that name, with `nodes` in place of its own where
/// it ends in "-xN". Throws ConfigError.
[[nodiscard]] Cluster load_cluster(const std::string& name_or_file);

}  // namespace coconet::sched
