// NCCL's all_reduce as others measured it, beside the model: the tables of docs/model.md. No
// constant of the model comes from these figures.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "coconet/programs.h"
#include "coconet/schedule.h"
#include "golden.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "sched/cost/estimate.h"

using namespace coconet;

namespace {

constexpr double first_bytes = 65536;  // of the rows, which double

/// Microseconds of nccl-tests' all_reduce_perf, f32, out of place, from 64 KiB on.
struct Published {
  std::string machine;
  std::string cluster;
  int ranks;
  std::string source;
  std::vector<double> us;
  double below_32_mib, from_32_mib;  ///< what the model's time may differ by: at most these factors
};

const std::vector<Published> published = {
    {"8 A100 (SXM4), a process a GPU",
     "dgx-a100",
     8,
     "a README of Azure ML, 2023",
     {28.32, 29.05, 28.98, 30.23, 37.33, 63.11, 84.77, 131.1, 220.5, 353.9, 579.2, 1157.6, 2169.8,
      4204, 8212.6, 16274, 32200, 64200},
     2,
     1.18},
    {"8 H100 (SXM5), a process a GPU",
     "dgx-h100",
     8,
     "NVIDIA/exemplar-performance, microbenchmarks/nccl/README.md",
     {19.54, 19.89, 20.43, 20.66, 27.37, 42.21, 54.19, 83.04, 123.8, 199.3, 324.7, 586.4, 1112.5,
      2151, 4029.4, 7939.1, 15749, 31307},
     2,
     1.35},
    {"8 V100 (SXM2), a process for all",
     "dgx1v",
     8,
     "a notebook on NCCL, 2019",
     {52.78, 56.56, 60.26, 61.48, 89.27, 119.6, 147.4, 203.8, 324.1, 550.8, 992.7, 1818.8},
     3,
     1.15},
    {"12 V100 of a DGX-2, a process for all",
     "dgx2",
     12,
     "wohlbier/nccl-tests, README.md",
     {65.05, 65.86, 68.35, 75.87, 89.15, 143.5, 183.7, 283.5, 482.8, 565.7, 1051.8, 2047.7, 4036.6,
      8021.5, 15986, 31928, 63758, 127453},
     3,
     1.15},
};

std::string size_text(double bytes) {
  const char* const units[] = {"KiB", "MiB", "GiB"};
  int unit = 0;
  for (bytes /= 1024; bytes >= 1024; bytes /= 1024) ++unit;
  return fmt::format("{} {}", bytes, units[unit]);
}

/// Replaces what stands in docs/model.md behind the comment that names `writer`.
void check_tables(const std::string& writer, const std::string& tables) {
  const std::string text = source_text("docs/model.md");
  const std::string begin = "<!-- written by " + writer + " -->\n", end = "\n<!-- end -->";
  const auto from = text.find(begin);
  REQUIRE(from != std::string::npos);
  const auto to = text.find(end, from);
  REQUIRE(to != std::string::npos);
  check_golden("docs/model.md", text.substr(0, from) + begin + tables + text.substr(to));
}

}  // namespace

TEST_CASE("NCCL's all_reduce takes what others measured, within what docs/model.md says") {
  std::string tables;
  for (const Published& one : published) {
    const sched::Cluster cluster = sched::load_cluster(one.cluster);
    tables += fmt::format(
        "\n{}: {}\n\n| bytes | measured, us | model, us | chosen | model over measured |\n"
        "|---|---|---|---|---|\n",
        one.machine, one.source);
    double bytes = first_bytes;
    for (const double measured : one.us) {
      const sched::NcclWay way =
          sched::nccl_way(*cluster.nccl, ir::Op::all_reduce, bytes, one.ranks, 1);
      const double ratio = way.us / measured;
      INFO(one.machine << ", " << bytes << ": " << ratio);
      CHECK(std::max(ratio, 1 / ratio) <=
            (bytes < (32 << 20) ? one.below_32_mib : one.from_32_mib));
      tables += fmt::format("| {} | {:.4g} | {:.4g} | {}, {} | {:.2f} |\n", size_text(bytes),
                            measured, way.us, way.algorithm, way.protocol, ratio);
      bytes *= 2;
    }
  }
  check_tables("sched/published", tables);
}

TEST_CASE("fused Adam wins over AllReduce and FusedAdam where CoCoNet measured that it does") {
  // parasailteam/coconet, examples/pytorch-optimizers-results-128-gpus-all-algos and
  // adam-results-128-gpus-all-algos (commit e3f965c), f32: microseconds from 2^10 elements on.
  const std::vector<double> baseline = {142,  173,  202,  209,   217,   231,   250,
                                        296,  373,  532,  744,   1020,  1580,  2171,
                                        3765, 6812, 9874, 18080, 35950, 71900, 143692};
  const std::vector<double> fused_by_rings = {302,  307,  320,  353,   402,   445,   522,
                                              644,  697,  714,  805,   798,   1020,  1533,
                                              2433, 3876, 7272, 14050, 26398, 52381, 104678};
  sched::Cluster cluster = sched::load_cluster("dgx2-x8");
  cluster.kernels_cross_nodes = true;
  const Program adam = programs::adam(Mesh({{"world", 128}}));
  const auto us_of = [&](const char* schedule, std::int64_t n) {
    const Program scheduled = Schedule::load(schedule).apply(adam).back();
    return sched::estimate(sched::lower(*ir::graph_of(scheduled)),
                           ir::resolve_sizes(*ir::graph_of(adam), {{"n", n}}), cluster)
        .us;
  };
  std::string table =
      "\n| elements | AllReduce + FusedAdam, us | model | fused, us | model | speedup | model |\n"
      "|---|---|---|---|---|---|---|\n";
  int measured_crossover = 0, predicted_crossover = 0;  // sizes at which AllReduce + Adam wins
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    const int power = 10 + static_cast<int>(i);
    const double unfused = us_of("adam-unfused.json", std::int64_t{1} << power);
    const double fused = us_of("adam-fused.json", std::int64_t{1} << power);
    const double measured = baseline[i] / fused_by_rings[i], predicted = unfused / fused;
    table += fmt::format("| 2^{} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.2f} | {:.2f} |\n", power,
                         baseline[i], unfused, fused_by_rings[i], fused, measured, predicted);
    measured_crossover += measured < 1 ? 1 : 0;
    predicted_crossover += predicted < 1 ? 1 : 0;
    INFO("2^" << power);
    if (power <= 19) CHECK(predicted < 1);
    if (power >= 26) {
      CHECK((1.2 <= predicted && predicted <= 1.7));
      CHECK(std::abs(predicted / measured - 1) < 0.12);
    }
    CHECK(std::max(fused / fused_by_rings[i], fused_by_rings[i] / fused) < 2);
  }
  CHECK(std::abs(measured_crossover - predicted_crossover) <= 2);
  check_tables("sched/published, Adam", table);
}
