// The tuner: what it measures, in which order, and that what it finds is a schedule of the program.
#include "jit/tune/tuner.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

#include "cli/check.h"
#include "coconet/programs.h"
#include "coconet/schedule.h"
#include "ir/access.h"
#include "jit/tune/calibrate.h"
#include "jit/tune/timing.h"
#include "sample.h"
#include "sched/tune/canonical.h"

using namespace coconet;
using jit::Tuned;
using jit::TuneOptions;

namespace {

/// A host of two ranks on which copying costs and nothing else does.
sched::Cluster simple_cluster() {
  sched::Cluster cluster;
  cluster.name = "simple";
  cluster.ranks_per_node = 2;
  cluster.memory = {{1, 10}};
  cluster.pointwise_gop_per_s = 1e6;
  cluster.matmul_gop_per_s = {{DType::f32, 1e6}};
  cluster.overlaps = false;
  return cluster;
}

/// Tunes `sgd` on two ranks; what rank 0 found, after checking that rank 1 found the same.
Tuned tune_sgd(const std::vector<Sizes>& sizes, TuneOptions options) {
  Tuned found[2];
  options.cluster = simple_cluster();
  World::local(2, [&](World& world) {
    found[world.rank()] = jit::tune(programs::sgd(Mesh::over(world)), world, sizes, options);
  });
  REQUIRE(found[0].sizes.size() == found[1].sizes.size());
  for (std::size_t i = 0; i < found[0].sizes.size(); ++i)
    CHECK(found[0].sizes[i].best == found[1].sizes[i].best);
  return std::move(found[0]);
}

}  // namespace

TEST_CASE(
    "every size gets a schedule that was measured, and the program without one is measured first") {
  const Tuned tuned = tune_sgd({{{"n", 64}}, {{"n", 5000}}}, {.knobs = false, .pairs = 3});
  CHECK(tuned.whole);
  CHECK(tuned.impossible.empty());
  CHECK(tuned.kernels > 3);
  REQUIRE(tuned.sizes.size() == 2);
  for (const jit::TunedSize& size : tuned.sizes) {
    REQUIRE(size.trials.size() > 3);
    CHECK(size.trials.front().variant == jit::Variant{});
    std::set<std::size_t> different;
    bool has_best = false;
    for (const jit::Trial& trial : size.trials) {
      different.insert(trial.variant.candidate);
      CHECK(trial.ms > 0);
      has_best = has_best || trial.variant == size.best;
    }
    CHECK(has_best);
    CHECK(different.size() == size.trials.size());
    CHECK(size.best_ms > 0);
    // In the order of the predictions, behind the first.
    for (std::size_t i = 2; i < size.trials.size(); ++i)
      CHECK(size.trials[i - 1].predicted_us <= size.trials[i].predicted_us);
  }
}

TEST_CASE(
    "what is predicted to be slow is not measured, unless it ships or everything is asked for") {
  const std::vector<Sizes> sizes = {{{"n", 64}}};
  const Tuned all = tune_sgd(sizes, {.hopeless = 0, .knobs = false, .pairs = 1});
  const Tuned some = tune_sgd(sizes, {.hopeless = 1.2, .knobs = false, .pairs = 1});
  CHECK(some.sizes[0].trials.size() < all.sizes[0].trials.size());
  CHECK(some.sizes[0].trials.size() + some.left_out.total() == some.space.candidates.size());
  double least = all.sizes[0].trials[0].predicted_us;
  for (const jit::Trial& trial : all.sizes[0].trials) least = std::min(least, trial.predicted_us);
  sched::Canonical canonical;
  std::set<std::string> shipped;
  for (const std::string name : {"unfused", "sliced", "fused"}) {
    const Program scheduled =
        Schedule::load("sgd-" + name + ".json").apply(programs::sgd(Mesh({{"world", 2}}))).back();
    shipped.insert(canonical.key(sched::lower(*ir::graph_of(scheduled))));
  }
  for (const jit::Trial& trial : some.sizes[0].trials) {
    const sched::Candidate& candidate = some.space.candidates[trial.variant.candidate];
    const bool ships = shipped.erase(canonical.key(candidate.plan)) > 0;
    CHECK((trial.variant.candidate == 0 || ships || trial.predicted_us <= 1.2 * least));
  }
  CHECK(shipped.empty());
}

TEST_CASE("an exhaustive search measures what the others leave out, and how near the choice is") {
  const Tuned tuned = tune_sgd(
      {{{"n", 64}}}, {.hopeless = 1.01, .most = 2, .exhaustive = true, .knobs = false, .pairs = 1});
  const jit::TunedSize& size = tuned.sizes.at(0);
  CHECK(size.trials.size() <= 3);
  CHECK(tuned.left_out.total() > 0);
  REQUIRE(size.all.has_value());
  // Those that overlap steps run as others do where there is no room for that.
  const auto overlapped = std::count_if(
      tuned.space.candidates.begin(), tuned.space.candidates.end(),
      [](const sched::Candidate& candidate) { return !candidate.plan.overlaps.empty(); });
  const std::size_t measured = size.all->trials.size() + 1;
  CHECK(measured <= tuned.space.candidates.size());
  CHECK(measured + static_cast<std::size_t>(overlapped) >= tuned.space.candidates.size());
  CHECK(size.all->choice_over_best >= 1);
  CHECK(size.all->choice_over_best < 20);
  CHECK(std::abs(size.all->repeatability) <= 1);
  CHECK_FALSE(size.all->choice_over_mpi.has_value());  // ranks are threads
}

TEST_CASE("the schedule that is found survives JSON and computes what the program does") {
  const Tuned tuned = tune_sgd({{{"n", 3000}}}, {.knobs = false, .pairs = 1});
  const Schedule schedule = jit::schedule_of(tuned.space, tuned.sizes[0].best, "sgd-tuned");
  CHECK(Schedule::parse(schedule.json()).json() == schedule.json());
  World::local(2, [&](World& world) {
    const cli::CheckResult result =
        cli::run_check(programs::sgd(Mesh::over(world)), schedule, world, {{"n", 3000}});
    if (!result.passed) throw InternalError(result.failure);
  });
}

TEST_CASE("a search that is interrupted keeps the best so far") {
  std::atomic<int> asked = 0;
  TuneOptions options{.knobs = false, .pairs = 1};
  options.interrupted = [&] { return ++asked > 8; };  // on two ranks: some measurements later
  const Tuned tuned = tune_sgd({{{"n", 64}}, {{"n", 128}}}, options);
  CHECK_FALSE(tuned.whole);
  REQUIRE(tuned.sizes.size() == 1);
  CHECK(tuned.sizes[0].trials.size() < 6);
  CHECK(tuned.sizes[0].best_ms > 0);
}

TEST_CASE("progress goes up to what there is, and every size is told") {
  std::size_t last = 0, all = 0, told = 0;
  TuneOptions options{.knobs = false, .pairs = 1};
  options.progress = [&](const TuneOptions::Progress& progress) {
    CHECK(progress.done >= last);
    last = progress.done;
    all = progress.all;
  };
  options.finished_size = [&](const Tuned& tuned) { CHECK(tuned.sizes.size() == ++told); };
  const Tuned tuned = tune_sgd({{{"n", 64}}, {{"n", 128}}}, options);
  CHECK(told == 2);
  CHECK(all == tuned.sizes[0].trials.size() + tuned.sizes[1].trials.size());
  CHECK(last + 1 == all);
}

TEST_CASE("a comparison ends when its pairs say which is quicker") {
  World::local(2, [](World& world) {
    using Verdict = jit::PairedRatios::Verdict;
    const Program program = programs::sgd(Mesh::over(world));
    jit::Contestant small(world, program, Schedule(), {{"n", 64}});
    jit::Contestant large(world, program, Schedule(), {{"n", 1 << 20}});
    // Whatever a clock says, all takes longer than next to nothing, and less than for ever.
    if (jit::compare(small, large, {.quicker = 1e-12}).verdict != Verdict::slower ||
        jit::compare(small, large, {.quicker = 1e-12, .hopeless = 1e-12}).verdict !=
            Verdict::slower ||
        jit::compare(large, small, {.quicker = 1e12}).verdict != Verdict::quicker ||
        jit::compare(large, small, {.most = 2, .quicker = 1e12}).verdict != Verdict::quicker ||
        jit::compare_all(small, large, 2).verdict != Verdict::open)
      throw InternalError("a comparison does not say what it should");
    if (!test::runs_all()) return;  // a busy machine may take any time
    const jit::Comparison up = jit::compare(small, large, {.hopeless = 2});
    const jit::Comparison down = jit::compare(large, small, {});
    if (up.verdict != Verdict::slower || up.ratio < 2 || down.verdict != Verdict::quicker)
      throw InternalError("the larger one is not slower");
  });
}

TEST_CASE("what ran on its processor all the time was not preempted") {
  CHECK(jit::Occupancy{}.preempted() == 0);
  CHECK(jit::Occupancy{10, 10}.preempted() == 0);
  CHECK(jit::Occupancy{10, 10.01}.preempted() == 0);
  jit::Occupancy all{10, 10};
  all.add({30, 10});
  CHECK(all.preempted() == Approx(0.5));
}

TEST_CASE("a cost that falls as sizes grow has the one before it measured again") {
  std::vector<double> costs = {1, 9, 3, 2.9, 5};
  std::vector<std::size_t> asked;
  jit::measure_what_falls_again(costs, [&](std::size_t place) {
    asked.push_back(place);
    return 2.0;
  });
  CHECK(asked == std::vector<std::size_t>{1});
  CHECK(costs == std::vector<double>{1, 2, 3, 2.9, 5});
  // What stays as it was is asked for three times, and keeps its least.
  asked.clear();
  costs = {8, 2};
  jit::measure_what_falls_again(costs, [&](std::size_t place) {
    asked.push_back(place);
    return 10.0 - static_cast<double>(asked.size());
  });
  CHECK(asked == std::vector<std::size_t>{0, 0, 0});
  CHECK(costs == std::vector<double>{7, 2});
}

TEST_CASE("rank correlation is 1 in the same order, -1 in the opposite one, and takes ties") {
  const auto trials = [](std::vector<std::pair<double, double>> times) {
    std::vector<jit::Trial> found;
    for (const auto& [predicted, ms] : times)
      found.push_back({{}, predicted, 1, ms, jit::PairedRatios::Verdict::open});
    return found;
  };
  CHECK(jit::rank_correlation(trials({{1, 10}, {2, 30}, {3, 1000}})) == Approx(1));
  CHECK(jit::rank_correlation(trials({{1, 9}, {2, 5}, {3, 2}})) == Approx(-1));
  // Ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3.
  CHECK(jit::rank_correlation(trials({{1, 1}, {2, 2}, {2, 3}, {4, 4}})) == Approx(0.9486832981));
  CHECK(jit::rank_correlation(trials({{1, 1}})) == 0);
}
