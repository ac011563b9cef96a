// NCCL's model: what its formulas come to by hand, and what NCCL is known to choose.
#include "sched/cost/nccl.h"

#include <catch2/catch.hpp>

using namespace coconet;
using sched::NcclTopology;
using sched::NcclWay;

namespace {

NcclTopology dgx_h100() {
  return {NcclTopology::Generation::hopper, {12, 30}, {8, 48}, {8, 40}};
}

double time_of(const std::vector<NcclWay>& ways, std::string_view algorithm,
               std::string_view protocol) {
  for (const NcclWay& way : ways) {
    if (way.algorithm == algorithm && way.protocol == protocol) return way.us;
  }
  return -1;
}

}  // namespace

TEST_CASE("rings and trees inside a node take NCCL's latency and bandwidth") {
  const double bytes = 1 << 30;
  const auto ways = sched::nccl_ways({NcclTopology::Generation::volta, {6, 20}, {}, {}},
                                     ir::Op::all_reduce, bytes, 8, 1);
  // 8.4 + 14 steps of 3.4 us; 120 GB/s on the bus are 8 / 14 of that of the tensor.
  CHECK(time_of(ways, "ring", "simple") == Approx(8.4 + 14 * 3.4 + bytes / (120e3 * 8 / 14)));
  CHECK(time_of(ways, "ring", "ll") == Approx(6.6 + 14 * 0.6 + bytes / (39e3 * 8 / 14)));
  CHECK(time_of(ways, "ring", "ll128") == Approx(14 + 14 * 1.9 + bytes / (0.92 * 120e3 * 8 / 14)));
  CHECK(time_of(ways, "tree", "simple") == Approx(8.4 + 2 * 7 * 4.0 + bytes / (0.92 * 120e3 / 2)));
  CHECK(time_of(ways, "nvls", "simple") == -1);
}

TEST_CASE("the correction of trees is that of the message's size") {
  const auto us = [](double bytes) {
    return time_of(sched::nccl_ways({NcclTopology::Generation::volta, {6, 20}, {}, {}},
                                    ir::Op::all_reduce, bytes, 8, 1),
                   "tree", "simple");
  };
  const double latency = 8.4 + 2 * 7 * 4.0;
  CHECK(us(1 << 20) == Approx(latency + (1 << 20) / (0.5 * 0.92 * 120e3 / 2)));  // row 14
  CHECK(us(32) == Approx(latency + 32 / (0.92 * 120e3 / 2)));
}

TEST_CASE("8 H100 take rings with ll up to 1 MiB and the switch from 2 MiB on, as users report") {
  for (int log = 10; log <= 33; ++log) {
    const NcclWay way = sched::nccl_way(dgx_h100(), ir::Op::all_reduce, double(1LL << log), 8, 1);
    INFO(log << ": " << way.algorithm << " " << way.protocol);
    CHECK(way.algorithm == (log <= 20 ? "ring" : "nvls"));
    CHECK(way.protocol == (log <= 20 ? "ll" : "simple"));
  }
}

TEST_CASE("half an all_reduce takes half its bandwidth time, and every op has a way") {
  const double bytes = 1 << 28;
  const NcclTopology dgx2{NcclTopology::Generation::volta, {6, 20}, {8, 12}, {}};
  for (const int nodes : {1, 2, 16}) {
    const auto us = [&](ir::Op op) {
      return time_of(sched::nccl_ways(dgx2, op, bytes, 16 * nodes, nodes), "ring", "simple");
    };
    CHECK(us(ir::Op::reduce_scatter) == us(ir::Op::all_gather));
    CHECK(us(ir::Op::reduce_scatter) / us(ir::Op::all_reduce) == Approx(0.5).margin(0.1));
    for (const ir::Op op : {ir::Op::all_reduce, ir::Op::reduce_scatter, ir::Op::all_gather,
                            ir::Op::reduce, ir::Op::broadcast, ir::Op::send, ir::Op::all_to_all})
      CHECK(sched::nccl_way(dgx2, op, bytes, 16 * nodes, nodes).us > 0);
  }
}
