// Clusters from JSON: what is read, what is refused and how.
#include "sched/cost/cluster.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "coconet/error.h"
#include "refusal.h"

using namespace coconet;
using nlohmann::json;

namespace {

json small() {
  return json::parse(R"({"coconet_cluster": 1, "name": "two", "ranks_per_node": 2,
    "memory": [{"bytes": 1024, "gb_per_s": 100}, {"bytes": 1048576, "gb_per_s": 10}],
    "launch_us": 0.1, "barrier_us": 0.2, "pointwise_gop_per_s": 30,
    "matmul_gop_per_s": {"f32": 100}})");
}

std::string refusal_of(const json& cluster) {
  return refusal<ConfigError>([&] { (void)sched::parse_cluster(cluster.dump()); });
}

std::string with(const std::string& pointer, const json& value) {
  json cluster = small();
  cluster[json::json_pointer(pointer)] = value;
  return refusal_of(cluster);
}

}  // namespace

TEST_CASE("every shipped cluster is read, and survives JSON") {
  REQUIRE(sched::shipped_clusters().size() == 5);
  for (const sched::ShippedCluster& shipped : sched::shipped_clusters()) {
    const sched::Cluster cluster = sched::parse_cluster(shipped.text);
    CHECK(cluster.name + ".json" == shipped.file);
    CHECK(sched::to_json(sched::parse_cluster(sched::to_json(cluster))) == sched::to_json(cluster));
    CHECK(sched::load_cluster(cluster.name).ranks() == cluster.ranks());
  }
  sched::Cluster of_cores = sched::load_cluster("host-2rank");
  CHECK(of_cores.cores == 1);
  of_cores.cores = 8;
  CHECK(sched::parse_cluster(sched::to_json(of_cores)).cores == 8);
  CHECK(sched::load_cluster("dgx2-x16").ranks() == 256);
  CHECK(sched::load_cluster("dgx-h100-x1024").ranks() == 8192);
}

TEST_CASE("rates of memory are on the line between two points, and level beyond them") {
  const sched::Cluster cluster = sched::parse_cluster(small().dump());
  CHECK(cluster.memory_gb_per_s(1) == 100);
  CHECK(cluster.memory_gb_per_s(1024) == 100);
  CHECK(cluster.memory_gb_per_s(32768) == Approx(55));
  CHECK(cluster.memory_gb_per_s(1e12) == 10);
  CHECK(cluster.matmul_gop(DType::f16) == 100);
}

TEST_CASE("what comes from other ranks' caches costs nothing where that was not measured") {
  CHECK(sched::parse_cluster(small().dump()).lines_us(1000) == 0);
  json cluster = small();
  cluster["lines"] = json::parse(
      R"([{"bytes": 1000, "us": 2}, {"bytes": 2000, "us": 3}, {"bytes": 4000, "us": 9}])");
  const sched::Cluster measured = sched::parse_cluster(cluster.dump());
  CHECK(measured.lines_us(0) == 0);
  CHECK(measured.lines_us(500) == Approx(1));  // in proportion below the first point
  CHECK(measured.lines_us(3000) == Approx(6));
  CHECK(measured.lines_us(8000) == Approx(21));
  CHECK(sched::to_json(sched::parse_cluster(sched::to_json(measured))) == sched::to_json(measured));
}

TEST_CASE("a bad cluster is refused with the place and the reason") {
  CHECK(
      with("/ranks_per_node", 0) ==
      "cluster JSON at /ranks_per_node: is the number 0; it must be a whole number of at least 1");
  CHECK(with("/launch_us", -1) ==
        "cluster JSON at /launch_us: is the number -1; it must be a number of at least 0");
  CHECK(with("/barrier_us", "fast") ==
        "cluster JSON at /barrier_us: is a string; it must be a number");
  for (const std::string day : {"2026-02-30", "2026-11", "2026-11-28 ", "yesterday", ""}) {
    CHECK(with("/measured", {{"on", day}, {"spread", 1}, {"preempted", 0}}) ==
          "cluster JSON at /measured/on: '" + day + "' is no day, such as 2026-11-28");
  }
  CHECK(with("/memory", json::array()) ==
        "cluster JSON at /memory: there must be a point at least: {\"bytes\": 1e9, \"gb_per_s\": "
        "10}");
  CHECK(with("/memory/1/bytes", 512) ==
        "cluster JSON at /memory/1/bytes: the points must be in the order of their bytes");
  CHECK(with("/memory/0/gb_per_s", 0) ==
        "cluster JSON at /memory/0/gb_per_s: is the number 0; it must be a number above 0");
  CHECK(with("/matmul_gop_per_s/f33", 1) ==
        "cluster JSON at /matmul_gop_per_s/f33: unknown dtype 'f33'; did you mean 'f32'?");
  CHECK(with("/matmul_gop_per_s", json{{"f16", 1}}) ==
        "cluster JSON at /matmul_gop_per_s: the key 'f32' is missing: other dtypes take its rate");
  CHECK(with("/nodes", 2) == "cluster JSON: the key 'nccl' is missing: it says what joins 2 nodes");
  CHECK(with("/coconet_cluster", 2) ==
        "cluster JSON at /coconet_cluster: version 2 is unknown; this library reads version 1");
  CHECK(
      with("/nccl", json{{"generation", "kepler"}, {"node", {{"channels", 1}, {"gb_per_s", 1}}}}) ==
      "cluster JSON at /nccl/generation: unknown generation 'kepler'; known are volta, "
      "ampere, hopper");
  CHECK(with("/speed", 1).starts_with("cluster JSON at /speed: "));
}

TEST_CASE("a directory is no cluster file") {
  CHECK(refusal<ConfigError>([] { (void)sched::load_cluster("/"); }) ==
        "cannot read the cluster file '/': it is a directory");
}

TEST_CASE("a cluster that is not there is named with the nearest one") {
  CHECK(refusal<ConfigError>([] { (void)sched::load_cluster("dgx3"); }) ==
        "there is no cluster file 'dgx3', and none of that name ships; did you mean 'dgx2'?");
  CHECK(refusal<ConfigError>([] { (void)sched::load_cluster("host-2rank-x2"); }) ==
        "cluster JSON: the key 'nccl' is missing: it says what joins 2 nodes");
}

TEST_CASE("what was measured of collectives is on the line between two points") {
  json cluster = small();
  cluster["library"]["all_reduce"] =
      json::parse(R"([{"bytes": 1000, "us": 10}, {"bytes": 3000, "us": 20}])");
  cluster["mailboxes"]["ring, ll"] =
      json::parse(R"([{"bytes": 1000, "us": 5}, {"bytes": 2000, "us": 4}])");
  const sched::Cluster read = sched::parse_cluster(cluster.dump());
  CHECK(sched::to_json(sched::parse_cluster(sched::to_json(read))) == sched::to_json(read));
  CHECK(read.library_us(ir::Op::all_reduce, 10) == Approx(10));
  CHECK(read.library_us(ir::Op::all_reduce, 2000) == Approx(15));
  CHECK(read.library_us(ir::Op::all_reduce, 5000) == Approx(30));
  CHECK_FALSE(read.library_us(ir::Op::all_gather, 10));
  // Noise never makes more bytes quicker.
  CHECK(read.mailboxes_us("ring, ll", 4000) == Approx(5));
  CHECK_FALSE(read.mailboxes_us("ring, simple", 4000));
}

TEST_CASE("what is wrong with measured collectives is named with its place") {
  CHECK_THAT(with("/library", {{"all_redcue", json::array()}}),
             Catch::Contains("/library/all_redcue") && Catch::Contains("'all_reduce'"));
  CHECK_THAT(with("/library", {{"all_reduce", json::parse(R"([{"bytes": 1, "us": 1}])")}}),
             Catch::Contains("/library/all_reduce") && Catch::Contains("two points"));
  CHECK_THAT(with("/mailboxes",
                  {{"ring, ll", json::parse(R"([{"bytes": 2, "us": 1}, {"bytes": 1, "us": 1}])")}}),
             Catch::Contains("/mailboxes/ring, ll/1/bytes") && Catch::Contains("order"));
}
