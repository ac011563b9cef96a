// NCCL's all_reduce as others measured it, beside the model: the tables of docs/model.md. No
// constant of the model comes from these figures.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "golden.h"
#include "sched/cost/cluster.h"

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
  const std::string text = source_text("docs/model.md");
  const std::string begin = "<!-- written by sched/published -->\n", end = "\n<!-- end -->";
  const auto from = text.find(begin), to = text.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  check_golden("docs/model.md", text.substr(0, from) + begin + tables + text.substr(to));
}
