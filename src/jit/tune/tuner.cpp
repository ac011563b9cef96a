// The search over measured candidates.
#include "jit/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/run/compile.h"
#include "jit/tune/candidates.h"
#include "jit/tune/timing.h"
#include "jit/tune/tuning_file.h"
#include "sched/cost/estimate.h"

namespace coconet::jit {
namespace {

using Verdict = PairedRatios::Verdict;

constexpr double tie = 0.99;       // what counts as quicker than the quickest so far
constexpr double knob_tie = 0.97;  // and for knobs, which nobody should write down for nothing

/// Whether COCONET_COLLECTIVES=mpi could change what the program without a schedule does.
bool has_mpi(const Platform& platform, const Comm& comm) {
  return platform.traits().immediate && comm.size() > 1 && !comm.in_one_process() &&
         comm.config().collectives == "auto";
}

class Tuner {
 public:
  /// `keep` is called on all ranks after each size.
  Tuner(const Program& program, const World& world, const TuneOptions& options,
        const std::function<void(const Tuned&)>& keep)
      : program_(program),
        world_(world),
        options_(options),
        keep_(keep),
        candidates_(program, world, tuned_) {
    tuned_.cluster = *options.cluster;
  }

  Tuned run(const std::vector<Sizes>& sizes) {
    together(comm(), [&] {
      for (const Sizes& one : sizes) plan_size(one);
    });
    compile_all();
    begin_ = std::chrono::steady_clock::now();
    for (const Waiting& one : waiting_) {
      const std::size_t before = tuned_.sizes.size();
      const bool goes_on = tune_size(one);
      together(comm(), [&] {
        if (options_.finished_size && comm().rank() == 0 && tuned_.sizes.size() > before)
          options_.finished_size(tuned_);
      });
      if (tuned_.sizes.size() > before) keep_(tuned_);
      if (!goes_on) break;
    }
    return std::move(tuned_);
  }

 private:
  /// One size, and the candidates to measure there, those first that are predicted to be quick.
  struct Waiting {
    Sizes sizes, extents;                 ///< as given, and of every dimension
    std::vector<std::size_t> candidates;  ///< the first is the program without a schedule
    std::vector<double> predicted_us;     ///< by candidate of the space
    double best_us = 0;                   ///< the least of these
    double common_us = 0;  ///< what all of them spend in matmuls, which no schedule changes
  };

  /// Whether what a schedule can change is predicted to take far longer than in the quickest, where
  /// it may be next to nothing: an overlap hides it.
  [[nodiscard]] bool is_hopeless(const Waiting& size, double predicted_us) const {
    constexpr double least_share = 0.05;
    const double best_us = std::max(size.best_us - size.common_us, least_share * size.best_us);
    return options_.hopeless > 0 && predicted_us - size.common_us > options_.hopeless * best_us;
  }

  [[nodiscard]] Comm& comm() const { return comm_of(world_); }

  void plan_size(const Sizes& sizes) {
    Waiting waiting{
        sizes, ir::resolve_sizes(*ir::graph_of(program_), sizes, options_.lists), {}, {}, 0, 0};
    for (const sched::Candidate& candidate : tuned_.space.candidates) {
      const sched::Estimate found = estimate(candidate.plan, waiting.extents, tuned_.cluster);
      const bool is_first = waiting.predicted_us.empty();
      waiting.predicted_us.push_back(found.us);
      waiting.best_us = is_first ? found.us : std::min(waiting.best_us, found.us);
      waiting.common_us =
          is_first ? found.matmuls_us : std::min(waiting.common_us, found.matmuls_us);
    }
    waiting.candidates.resize(waiting.predicted_us.size());
    std::iota(waiting.candidates.begin(), waiting.candidates.end(), std::size_t{0});
    std::ranges::stable_sort(waiting.candidates.begin() + 1, waiting.candidates.end(), {},
                             [&](std::size_t index) { return waiting.predicted_us[index]; });
    LeftOut& left_out = tuned_.left_out;
    left_out.no_room += std::erase_if(waiting.candidates, [&](std::size_t index) {
      return options_.skips_crowded_overlaps && candidates_.is_another(index);
    });
    const std::size_t most = most_of(waiting.best_us / 1000);
    std::size_t measured = 0;
    std::erase_if(waiting.candidates, [&](std::size_t index) {
      if (index == 0 || candidates_.ships(index)) return false;
      const bool hopeless = is_hopeless(waiting, waiting.predicted_us[index]);
      const bool many = !hopeless && most > 0 && ++measured > most;
      left_out.hopeless += hopeless ? 1 : 0;
      left_out.many += many ? 1 : 0;
      return hopeless || many;
    });
    all_ += waiting.candidates.size();
    waiting_.push_back(std::move(waiting));
  }

  /// Collective: all kernels that will be measured.
  void compile_all() {
    std::set<std::size_t> all;
    for (const Waiting& waiting : waiting_)
      all.insert(waiting.candidates.begin(), waiting.candidates.end());
    for (std::size_t index = 0; options_.exhaustive && index < tuned_.space.candidates.size();
         ++index)
      all.insert(index);
    candidates_.compile(all);
  }

  /// Collective: a variant ready to run; nothing where it cannot, which is noted.
  std::unique_ptr<Contestant> make(const Variant& variant, const Sizes& sizes) {
    if (candidates_.is_given_up(variant)) return nullptr;
    try {
      return std::make_unique<Contestant>(
          world_, program_, schedule_of(tuned_.space, variant, "candidate"), sizes, options_.lists,
          CompileChoices{.collectives_by_mpi = variant.by_mpi},
          platform_of(comm()).traits().immediate ? &tensors_ : nullptr);
    } catch (const CommError&) {
      throw;  // the world is broken
    } catch (const Error& error) {
      candidates_.give_up(variant, error);
      return nullptr;
    }
  }

  /// The search at one size.
  struct Contest {
    TunedSize result;
    std::shared_ptr<Contestant> champion, unfused;  ///< the first may be the second
    double relative = 1;                            ///< of the champion
    Occupancy occupancy = {};                       ///< of this rank, by those that are gone
  };

  /// Collective: measures a variant beside the quickest so far. Whether the search goes on.
  bool challenge(Contest& contest, const Variant& variant, double predicted_us) {
    TunedSize& result = contest.result;
    tell(result);
    if (any_interrupted()) return false;
    ++done_;
    std::unique_ptr<Contestant> challenger = make(variant, contest.result.sizes);
    if (!challenger) return true;
    Trial trial{variant, predicted_us, 0, 1, Verdict::open};
    if (!contest.champion) {
      trial.ms = challenger->sample();
      result.best = variant;
      result.best_ms = trial.ms;
      contest.champion = contest.unfused = std::move(challenger);
    } else {
      const Comparison found = compare(*contest.champion, *challenger,
                                       {.most = pairs_for(result.best_ms),
                                        .quicker = variant.knobs == Knobs{} ? tie : knob_tie,
                                        .hopeless = hopeless_ratio});
      trial = {variant, predicted_us, found.ms, found.ratio * contest.relative, found.verdict};
      contest.occupancy.add(challenger->occupancy());
      if (found.verdict == Verdict::quicker) {
        contest.champion = std::move(challenger);
        result.best = variant;
        result.best_ms = found.ms;
        contest.relative = trial.relative;
      }
    }
    result.trials.push_back(std::move(trial));
    return true;
  }

  /// Whether the search goes on.
  bool tune_size(const Waiting& waiting) {
    tensors_ = {};
    Contest contest{
        {.sizes = waiting.sizes, .extents = waiting.extents, .best = {}, .trials = {}}, {}, {}};
    bool goes_on = true;
    for (const std::size_t index : waiting.candidates)
      goes_on = goes_on && challenge(contest, {index, {}}, waiting.predicted_us[index]);
    if (goes_on && has_mpi(platform_of(comm()), comm()))
      goes_on = challenge(contest, {0, {}, true}, 0);
    if (goes_on && options_.knobs) goes_on = tune_knobs(contest, waiting);
    TunedSize& result = contest.result;
    if (contest.champion != contest.unfused) {
      const Comparison last = compare(*contest.unfused, *contest.champion,
                                      {.most = pairs_for(result.best_ms), .quicker = tie});
      result.unfused_ratio = last.ratio;
      if (last.verdict != Verdict::quicker) {
        contest.champion = contest.unfused;
        contest.relative = 1;
        result.best = {};
        result.best_ms /= last.ratio;
        result.unfused_ratio = 1;
      }
    }
    find_doubt(contest, goes_on);
    if (goes_on && options_.exhaustive) goes_on = measure_all(contest, waiting);
    if (contest.champion) tuned_.sizes.push_back(std::move(result));
    tuned_.whole = tuned_.whole && goes_on;
    return goes_on;
  }

  /// Collective: what speaks against the choice.
  void find_doubt(Contest& contest, bool is_whole) {
    if (contest.unfused) contest.occupancy.add(contest.unfused->occupancy());
    TunedSize& result = contest.result;
    result.preempted = greatest_of_all(comm(), contest.occupancy.preempted());
    if (result.preempted >= is_busy) {
      result.doubt = fmt::format("other processes took {:.0f} % of the ranks' processors meanwhile",
                                 100 * result.preempted);
      return;
    }
    if (!is_whole) {
      result.doubt = "the search ended early";
      return;
    }
    for (const Trial& trial : result.trials) {
      if (trial.verdict != Verdict::open || trial.relative >= knob_tie * contest.relative ||
          trial.variant == result.best)
        continue;
      result.doubt =
          fmt::format("'{}' seemed to take {:.2f} of its time, and could not be told from it",
                      describe(tuned_.space, trial.variant), trial.relative / contest.relative);
    }
  }

  /// Collective: every candidate beside the program without a schedule, twice, and then the few
  /// quickest beside what the search chose.
  bool measure_all(Contest& contest, const Waiting& waiting) {
    constexpr std::size_t finalists = 5;
    constexpr int final_pairs = 15, most_pairs = 5;
    AllMeasured all;
    std::vector<double> first, second;
    for (std::size_t index = 1; index < tuned_.space.candidates.size(); ++index) {
      if (any_interrupted()) return false;
      if (candidates_.is_another(index)) continue;
      const std::unique_ptr<Contestant> one = make({index, {}}, contest.result.sizes);
      if (!one) continue;
      const int pairs = std::min(pairs_for(contest.result.best_ms), most_pairs);
      const Comparison a = compare_all(*contest.unfused, *one, pairs);
      const Comparison b = compare_all(*contest.unfused, *one, pairs);
      first.push_back(a.ratio);
      second.push_back(b.ratio);
      all.trials.push_back({{index, {}},
                            waiting.predicted_us[index],
                            (a.ms + b.ms) / 2,
                            (a.ratio + b.ratio) / 2,
                            Verdict::open});
    }
    all.repeatability = rank_correlation(first, second);
    std::vector<Trial> quickest = all.trials;
    std::ranges::stable_sort(quickest, {}, &Trial::relative);
    quickest.resize(std::min(quickest.size(), finalists));
    const auto over = [&](const Variant& variant) {
      const std::unique_ptr<Contestant> other = make(variant, contest.result.sizes);
      return other ? compare_all(*other, *contest.champion, final_pairs).ratio : 1.0;
    };
    for (const Trial& trial : quickest) {
      if (trial.variant != contest.result.best)
        all.choice_over_best = std::max(all.choice_over_best, over(trial.variant));
    }
    if (has_mpi(platform_of(comm()), comm())) all.choice_over_mpi = over({0, {}, true});
    contest.result.all = std::move(all);
    return true;
  }

  /// Collective: the knobs of the quickest plan, those that go together at once and then the next,
  /// each round around the best of the one before.
  bool tune_knobs(Contest& contest, const Waiting& waiting) {
    // Behind a matmul, what they could gain at most is less than what they must.
    if (waiting.best_us - waiting.common_us < (1 - knob_tie) * waiting.best_us) return true;
    const Traits& traits = platform_of(comm()).traits();
    for (int round = 0; round < knob_rounds; ++round) {
      std::vector<Variant> variants;
      std::vector<sched::Plan> plans;
      std::vector<double> predicted;
      for (const Variant& variant :
           knob_variants(tuned_.space, contest.result.best, traits, round)) {
        if (candidates_.is_given_up(variant)) continue;
        auto plan = candidates_.plan_of(variant);
        if (!plan) continue;
        const double us = estimate(*plan, waiting.extents, tuned_.cluster).us;
        if (is_hopeless(waiting, us)) {
          ++tuned_.left_out.hopeless;
          continue;
        }
        variants.push_back(variant);
        plans.push_back(std::move(*plan));
        predicted.push_back(us);
        if (variants.size() == most_of(contest.result.best_ms)) break;
      }
      std::vector<const sched::Plan*> all;
      for (const sched::Plan& plan : plans) all.push_back(&plan);
      candidates_.compile(all);
      all_ += variants.size();
      for (std::size_t i = 0; i < variants.size(); ++i) {
        if (!challenge(contest, variants[i], predicted[i])) return false;
      }
    }
    return true;
  }

  /// Schedules to measure at a size where the quickest takes `ms`: fewer of long steps, so that it
  /// takes a second or two; at least two.
  [[nodiscard]] std::size_t most_of(double ms) const {
    constexpr double enough_ms = 150;
    constexpr std::size_t least = 2;
    const double most = std::min(enough_ms / ms, static_cast<double>(options_.most));
    return std::min(std::max(static_cast<std::size_t>(most), least), options_.most);
  }

  /// Fewer of long steps, so that a comparison takes some seconds at most.
  [[nodiscard]] int pairs_for(double ms) const {
    constexpr double enough_ms = 1000;
    constexpr int least = 3;
    const int pairs = static_cast<int>(std::min<double>(enough_ms / ms, options_.pairs));
    return std::min(std::max(pairs, least), options_.pairs);
  }

  void tell(const TunedSize& so_far) const {
    if (!options_.progress || comm().rank() != 0) return;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    const double each = done_ == 0 ? 0 : passed.count() / static_cast<double>(done_);
    options_.progress({done_, all_, so_far.best_ms, each * static_cast<double>(all_ - done_)});
  }

  [[nodiscard]] bool any_interrupted() const {
    if (!options_.interrupted) return false;
    return comm().any_failed(options_.interrupted(), 0);
  }

  static constexpr double hopeless_ratio = 1.3;

  const Program& program_;
  const World& world_;
  const TuneOptions& options_;
  const std::function<void(const Tuned&)>& keep_;
  Tuned tuned_;
  Candidates candidates_;
  std::vector<Waiting> waiting_;
  SharedTensors tensors_;  ///< of the size that is being measured, in the host's memory
  std::size_t all_ = 0, done_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

Tuned tune_with(const Program& program, const World& world, TuningFile& file,
                const std::vector<Sizes>& sizes, TuneOptions options,
                const std::function<void(TuningFile&)>& keep) {
  Tuned machine;
  Comm& comm = comm_of(world);
  const int cores = platform_of(comm).cores_of(comm, comm.config()).count;
  if (!options.cluster) {
    const sched::Cluster* const known = file.machine(world.size(), cores);
    if (known == nullptr || is_outdated(comm, *known)) {
      const auto begin = std::chrono::steady_clock::now();
      machine.whole = measure_machine(world, file, {keep, options.interrupted});
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      machine.calibration_s = took.count();
      if (!machine.whole) return machine;
    }
    options.cluster = file.machines[world.size()];
  }
  const std::string digest = digest_of(program, cores);
  const auto keep_last = [&](const Tuned& so_far) {
    if (!keep) return;
    const TunedSize& size = so_far.sizes.back();
    file.set(program.name(), digest,
             {size.extents, best_schedule(program, so_far, size).json(), size.best_ms,
              size.unfused_ratio, size.best.by_mpi, size.preempted, size.doubt});
    keep(file);
  };
  Tuned tuned = Tuner(program, world, options, keep_last).run(sizes);
  tuned.calibration_s = machine.calibration_s;
  return tuned;
}

}  // namespace

Tuned tune(const Program& program, const World& world, const std::vector<Sizes>& sizes,
           const TuneOptions& options) {
  TuningFile file;
  return tune_with(program, world, file, sizes, options, {});
}

Tuned tune_and_keep(const Program& program, const World& world, const std::vector<Sizes>& sizes,
                    const TuneOptions& options) {
  Comm& comm = comm_of(world);
  TuningFile file = read_tuning(comm, platform_of(comm), comm.config());
  require_replaceable(file, comm.config());
  const auto keep = [&](TuningFile& now) { write_tuning(comm, now, comm.config()); };
  return tune_with(program, world, file, sizes, options, keep);
}

}  // namespace coconet::jit
