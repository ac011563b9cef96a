// The search over measured candidates.
#include "jit/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "jit/comm/comm.h"
#include "jit/kernels/kernel_store.h"
#include "jit/kernels/plan_kernels.h"
#include "jit/run/overlaps.h"
#include "jit/tune/timing.h"
#include "sched/cost/estimate.h"
#include "sched/knobs.h"
#include "sched/schedule.h"

namespace coconet::jit {
namespace {

constexpr double tie = 0.99;  // what counts as quicker than the quickest so far

class Tuner {
 public:
  Tuner(const Program& program, const World& world, const sched::Cluster& cluster,
        const TuneOptions& options)
      : program_(program), world_(world), cluster_(cluster), options_(options) {}

  Tuned run(const std::vector<Sizes>& sizes) {
    together(comm(),
             [&] { tuned_.space = sched::find_space(*program_.graph(), options_.sliceable); });
    choose_plans();
    together(comm(), [&] {
      for (const Sizes& one : sizes) plan_size(one);
    });
    compile_all();
    begin_ = std::chrono::steady_clock::now();
    for (const Waiting& one : waiting_) {
      const bool goes_on = tune_size(one);
      together(comm(), [&] {
        if (options_.finished_size && comm().rank() == 0) options_.finished_size(tuned_);
      });
      if (!goes_on) break;
    }
    return std::move(tuned_);
  }

 private:
  /// One size, and the candidates to measure there, those first that are predicted to be quick.
  struct Waiting {
    Sizes sizes;
    std::vector<std::size_t> candidates;  ///< the first is the program without a schedule
    std::vector<double> predicted_us;     ///< by candidate of the space
  };

  [[nodiscard]] Comm& comm() const { return *world_.comm(); }

  void plan_size(const Sizes& sizes) {
    const auto extents = ir::resolve_sizes(*program_.graph(), sizes);
    Waiting waiting{sizes, {}, {}};
    double best = 0;
    for (const sched::Candidate& candidate : tuned_.space.candidates) {
      const double us = estimate(candidate.plan, extents, cluster_).us;
      waiting.predicted_us.push_back(us);
      best = best == 0 ? us : std::min(best, us);
    }
    waiting.candidates.resize(waiting.predicted_us.size());
    std::iota(waiting.candidates.begin(), waiting.candidates.end(), std::size_t{0});
    std::stable_sort(waiting.candidates.begin() + 1, waiting.candidates.end(),
                     [&](std::size_t a, std::size_t b) {
                       return waiting.predicted_us[a] < waiting.predicted_us[b];
                     });
    tuned_.predicted_away += std::erase_if(waiting.candidates, [&](std::size_t index) {
      const bool is_slow = waiting.predicted_us[index] > options_.hopeless * best;
      return index != 0 && options_.hopeless > 0 && (is_slow || runs_in_turn(index));
    });
    all_ += waiting.candidates.size();
    waiting_.push_back(std::move(waiting));
  }

  /// Collective: the plans that candidates have on this machine. What has none is noted.
  void choose_plans() {
    const Platform& platform = platform_of(comm());
    for (std::size_t index = 0; index < tuned_.space.candidates.size(); ++index) {
      chosen_.emplace_back();
      try {
        const Program scheduled = sched::with_knobs(
            schedule_of(tuned_.space.candidates[index], "candidate").apply(program_).back(),
            config().knobs);
        chosen_.back() = choose_plan(comm(), platform, *scheduled.graph()).plan;
      } catch (const CommError&) {
        throw;
      } catch (const Error& error) {
        give_up(index, error);
      }
    }
  }

  /// Whether the candidate overlaps steps that there is no room for: it runs as without the
  /// overlap.
  [[nodiscard]] bool runs_in_turn(std::size_t index) const {
    return chosen_[index].overlaps.size() < tuned_.space.candidates[index].plan.overlaps.size();
  }

  void give_up(std::size_t index, const Error& error) {
    given_up_.insert(index);
    tuned_.impossible.push_back(fmt::format(
        "{}: {}", sched::to_string(tuned_.space.candidates[index].steps), error.what()));
  }

  /// Collective: all kernels that will be measured at once, so that all ranks' compilers are busy.
  /// What does not compile is said when its candidate is made.
  void compile_all() {
    std::set<std::size_t> all;
    for (const Waiting& waiting : waiting_)
      all.insert(waiting.candidates.begin(), waiting.candidates.end());
    const Platform& platform = platform_of(comm());
    std::vector<KernelText> texts;
    for (const std::size_t index : all) {
      if (given_up_.contains(index)) continue;
      for (KernelText& text : kernel_texts(
               chosen_[index], {platform.traits().immediate, platform.traits().ranks_per_launch}))
        texts.push_back(std::move(text));
    }
    std::set<std::string_view> different;
    for (const KernelText& text : texts) different.insert(text.source);
    tuned_.kernels = different.size();
    try {
      kernels_ = obtain_kernels(comm(), platform, texts);
    } catch (const CompileError&) {
    }
  }

  /// Collective: a candidate ready to run; nothing where it cannot, which is noted.
  std::unique_ptr<Contestant> make(std::size_t index, const Sizes& sizes) {
    if (given_up_.contains(index)) return nullptr;
    const sched::Candidate& candidate = tuned_.space.candidates[index];
    try {
      return std::make_unique<Contestant>(world_, program_, schedule_of(candidate, "candidate"),
                                          sizes);
    } catch (const CommError&) {
      throw;  // the world is broken
    } catch (const Error& error) {
      give_up(index, error);
      return nullptr;
    }
  }

  /// Whether the search goes on.
  bool tune_size(const Waiting& waiting) {
    TunedSize result{waiting.sizes, waiting.candidates.front(), 0, 1, {}};
    std::unique_ptr<Contestant> champion, unfused;
    bool goes_on = true;
    for (const std::size_t index : waiting.candidates) {
      tell(result);
      goes_on = !any_interrupted();
      if (!goes_on) break;
      ++done_;
      std::unique_ptr<Contestant> challenger = make(index, waiting.sizes);
      if (!challenger) continue;
      Trial trial{index, waiting.predicted_us[index], 0, 1, false};
      if (!champion) {
        trial.ms = challenger->sample();
        result.best = index;
        result.best_ms = trial.ms;
        champion = std::move(challenger);
      } else {
        const Comparison found = compare(*champion, *challenger, options_.pairs, hopeless_ratio);
        trial = {index, trial.predicted_us, found.ms, found.ratio, found.stopped};
        if (found.ratio < tie) {
          if (index != 0 && result.best == 0) unfused = std::move(champion);
          champion = std::move(challenger);
          result.best = index;
          result.best_ms = found.ms;
        }
      }
      result.trials.push_back(trial);
    }
    if (champion && unfused)
      result.unfused_ratio = compare(*unfused, *champion, options_.pairs, 1e9).ratio;
    if (champion) tuned_.sizes.push_back(std::move(result));
    tuned_.whole = tuned_.whole && goes_on;
    return goes_on;
  }

  void tell(const TunedSize& so_far) const {
    if (!options_.progress || comm().rank() != 0) return;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    const double each = done_ == 0 ? 0 : passed.count() / static_cast<double>(done_);
    options_.progress({done_, all_, so_far.best_ms, each * static_cast<double>(all_ - done_)});
  }

  [[nodiscard]] bool any_interrupted() const {
    if (!options_.interrupted) return false;
    return comm().any_failed(options_.interrupted());
  }

  static constexpr double hopeless_ratio = 1.3;

  const Program& program_;
  const World& world_;
  const sched::Cluster& cluster_;
  const TuneOptions& options_;
  Tuned tuned_;
  std::vector<Waiting> waiting_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;  ///< so that they stay loaded
  std::vector<sched::Plan> chosen_;                     ///< by candidate of the space
  std::set<std::size_t> given_up_;
  std::size_t all_ = 0, done_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

Tuned tune(const Program& program, const World& world, const sched::Cluster& cluster,
           const std::vector<Sizes>& sizes, const TuneOptions& options) {
  return Tuner(program, world, cluster, options).run(sizes);
}

double rank_correlation(const std::vector<Trial>& trials) {
  const auto count = static_cast<double>(trials.size());
  if (trials.size() < 2) return 0;
  // Of equal times each has the mean of their ranks.
  const auto rank_of = [&](double Trial::*time, const Trial& trial) {
    double below = 0, equal = 0;
    for (const Trial& other : trials) {
      below += other.*time < trial.*time ? 1 : 0;
      equal += other.*time == trial.*time ? 1 : 0;
    }
    return below + (equal - 1) / 2;
  };
  const double mean = (count - 1) / 2;
  double both = 0, predicted = 0, measured = 0;
  for (const Trial& trial : trials) {
    const double a = rank_of(&Trial::predicted_us, trial) - mean;
    const double b = rank_of(&Trial::ms, trial) - mean;
    both += a * b;
    predicted += a * a;
    measured += b * b;
  }
  return predicted == 0 || measured == 0 ? 0 : both / std::sqrt(predicted * measured);
}

Schedule schedule_of(const sched::Candidate& candidate, const std::string& name) {
  return Schedule::parse(sched::to_json(Schedule::Steps{name, candidate.steps}));
}

}  // namespace coconet::jit
