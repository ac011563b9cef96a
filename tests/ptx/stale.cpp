// The run is one execution. A litmus test asks about another one, where every wait found what it
// found in the run, and one load sees another store than it saw there. A flag that a wait finds
// even larger than in the run was stored by the same thread later on, after a later release: it
// says no less.
#include "ptx/stale.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace coconet::test::ptx {

namespace {

using Kind = Mutation::Kind;

bool loads(const Op& op) {
  return op.kind == Op::Kind::load || op.kind == Op::Kind::add || op.kind == Op::Kind::exchange;
}
bool stores(const Op& op) {
  return op.kind == Op::Kind::store || op.kind == Op::Kind::add || op.kind == Op::Kind::exchange;
}
bool accesses(const Op& op) {
  return loads(op) || stores(op);
}

class Litmus {
 public:
  Litmus(const Run& run, const Mutation* mutation)
      : run_(run), steps_(run.steps), mutation_(mutation) {
    const bool whole_lines = mutation == nullptr || mutation->kind != Kind::cut_lines;
    find_shared();
    find_dropped();
    model_.emplace(make_threads(), whole_lines);
    for (std::size_t i = 0; i < steps_.size(); ++i) find_events(i);
    find_sources();
  }

  [[nodiscard]] std::vector<std::string> stale(std::size_t most) const {
    std::vector<std::string> found;
    for (std::size_t i = 0; i < steps_.size() && found.size() < most; ++i) {
      if (races(i)) found.push_back(describe(steps_[i]) + " races with what it looks for");
      for (const int source : wrong_sources(i)) {
        Model::Sources sources = sources_;
        sources[read_[i]] = {source};
        see_whole_line(i, source, sources);
        if (!model_->allows(sources, [](const Outcome&) { return true; })) continue;
        found.push_back(sentence(i, source));
        break;
      }
    }
    return found;
  }
  /// A cell is whole, and looked at again until it is there, by strong accesses alone.
  [[nodiscard]] bool races(std::size_t step) const {
    const Step& own = steps_[step];
    if (read_[step] < 0 || own.source < 0 || run_.content(own) != Content::cell) return false;
    const int seen = write_seen(own);
    return seen >= 0 && !model_->morally_strong(seen, read_[step]);
  }
  /// Has the loads of a line, of which step `load` is one, see the store of a line that `source` is
  /// of, where that came later: a tag that is larger than what is waited for ends the wait, too.
  void see_whole_line(std::size_t load, int source, Model::Sources& sources) const {
    const auto stored = std::ranges::find(write_, source);
    const auto store = static_cast<std::size_t>(stored - write_.begin());
    if (stored == write_.end() || store < load || steps_[load].op.line < 0) return;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (read_[i] < 0 || steps_[i].op.line != steps_[load].op.line) continue;
      for (std::size_t j = load; j < steps_.size(); ++j) {
        if (write_[j] >= 0 && steps_[j].op.line == steps_[store].op.line &&
            steps_[j].op.location == steps_[i].op.location)
          sources[read_[i]] = {write_[j]};
      }
    }
  }
  [[nodiscard]] std::size_t checked() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) count += wrong_sources(i).empty() ? 0 : 1;
    return count;
  }

 private:
  [[nodiscard]] int rank_of(int thread) const {
    return thread / (run_.shape.blocks * run_.shape.threads);
  }
  /// Locations that one thread stores to and another one accesses.
  void find_shared() {
    std::map<int, std::set<int>> threads;
    std::set<int> stored;
    for (const Step& step : steps_) {
      if (!accesses(step.op)) continue;
      threads[step.op.location].insert(step.thread);
      if (stores(step.op)) stored.insert(step.op.location);
    }
    for (const int location : stored) {
      if (threads[location].size() > 1) shared_.insert(location);
    }
  }
  /// Barriers that some thread comes to by the mutated instruction.
  void find_dropped() {
    if (mutation_ == nullptr || mutation_->kind != Kind::dropped) return;
    for (const Step& step : steps_) {
      if (step.instruction == mutation_->instruction && step.op.kind == Op::Kind::barrier)
        dropped_.insert(step.op.barrier);
    }
  }

  [[nodiscard]] std::optional<Op> mutated(const Step& step) const {
    Op op = step.op;
    if (op.kind == Op::Kind::barrier && dropped_.contains(op.barrier)) return {};
    if (dropped_.contains(step.together)) op.line = -1;
    if (mutation_ == nullptr || step.instruction == nullptr ||
        step.instruction != mutation_->instruction)
      return op;
    switch (mutation_->kind) {
      case Kind::dropped:
        return {};
      case Kind::to_gpu:
        op.scope = Scope::gpu;
        return op;
      case Kind::to_cta:
        op.scope = Scope::cta;
        return op;
      case Kind::relaxed:
        op.order = Order::relaxed;
        return op;
      case Kind::weak:
        op.order = Order::weak;
        return op;
      case Kind::cut_lines:
        return op;
    }
    return op;
  }

  std::vector<Thread> make_threads() {
    std::vector<Thread> threads(run_.shape.ranks * run_.shape.blocks * run_.shape.threads);
    for (std::size_t t = 0; t < threads.size(); ++t) {
      threads[t].gpu = rank_of(static_cast<int>(t));
      threads[t].cta = static_cast<int>(t) / run_.shape.threads % run_.shape.blocks;
    }
    place_.resize(steps_.size(), {-1, -1});
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (accesses(step.op) && !shared_.contains(step.op.location)) continue;
      const auto op = mutated(step);
      if (!op) continue;
      auto& ops = threads[step.thread].ops;
      place_[i] = {step.thread, static_cast<int>(ops.size())};
      ops.push_back(*op);
    }
    return threads;
  }

  void find_events(std::size_t step) {
    read_.push_back(-1);
    write_.push_back(-1);
    const auto [thread, index] = place_[step];
    if (thread < 0) return;
    const Op& op = model_->threads()[thread].ops[index];
    if (loads(op)) read_[step] = model_->event(op, Event::Kind::read);
    if (stores(op)) write_[step] = model_->event(op, Event::Kind::write);
  }

  /// What was there before all stores, where no thread that is looked at stored it.
  [[nodiscard]] int write_seen(const Step& step) const {
    if (step.source < -1) return -1;
    if (step.source >= 0) return write_[step.source];
    const auto& events = model_->events();
    const auto first = std::ranges::find_if(events, [&](const Event& event) {
      return event.thread < 0 && event.location == step.op.location;
    });
    return static_cast<int>(first - events.begin());
  }

  void find_sources() {
    sources_.resize(model_->events().size());
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (read_[i] < 0) continue;
      const int seen = write_seen(steps_[i]);
      // A store that is not looked at leaves the load without a value to compare with.
      sources_[read_[i]] = {seen < 0 ? write_seen({.op = steps_[i].op}) : seen};
    }
  }

  /// The writes that the load of a step must not see.
  [[nodiscard]] std::vector<int> wrong_sources(std::size_t step) const {
    const Step& own = steps_[step];
    if (read_[step] < 0 || write_seen(own) < 0) return {};
    const Content content = run_.content(own);
    std::size_t first = 0;  // of the steps whose stores are wrong
    std::size_t end = steps_.size();
    if (own.op.kind != Op::Kind::load) {
      end = last_reset(step);  // adds may come in another order, but not before a count's reset
    } else if (content == Content::flag) {
      return {};
    } else if (content == Content::cell) {
      first = step;
    }
    std::vector<int> wrong;
    if (first == 0 && end > 0 && own.source >= 0) wrong.push_back(write_seen({.op = own.op}));
    for (std::size_t i = first; i < end; ++i) {
      const bool is_other = write_[i] >= 0 && static_cast<int>(i) != own.source && i != step;
      if (is_other && steps_[i].op.location == own.op.location) wrong.push_back(write_[i]);
    }
    return wrong;
  }
  /// The last plain store to the location of a step before it, or 0.
  [[nodiscard]] std::size_t last_reset(std::size_t step) const {
    for (std::size_t i = step; i-- > 0;) {
      if (write_[i] >= 0 && steps_[i].op.location == steps_[step].op.location &&
          steps_[i].op.kind == Op::Kind::store)
        return i;
    }
    return 0;
  }

  [[nodiscard]] std::string describe(const Step& step) const {
    const std::string who = "rank " + std::to_string(rank_of(step.thread)) + ", thread " +
                            std::to_string(step.thread % run_.shape.threads) + ": ";
    if (step.instruction == nullptr) return who + "the application's access";
    return who + "PTX line " + std::to_string(step.instruction->line) + ", '" +
           step.instruction->text + "'";
  }
  [[nodiscard]] std::string sentence(std::size_t step, int source) const {
    std::string seen = "what was there at first";
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (write_[i] == source) seen = "the store of " + describe(steps_[i]);
    }
    const int right = steps_[step].source;
    return "the load of " + describe(steps_[step]) + " may see " + seen + " instead of " +
           (right < 0 ? "what was there at first" : "that of " + describe(steps_[right]));
  }

  const Run& run_;
  const std::vector<Step>& steps_;
  const Mutation* mutation_;
  std::set<int> shared_;
  std::set<int> dropped_;
  std::vector<std::pair<int, int>> place_;  ///< by step: thread, and index of its op
  std::vector<int> read_, write_;           ///< by step: events of the model, or -1
  std::optional<Model> model_;
  Model::Sources sources_;
};

/// The ways in which a step may order less than it does.
std::vector<Kind> kinds_of(const Run& run, const Step& step) {
  const Op& op = step.op;
  if (!accesses(op) && op.kind != Op::Kind::fence) return {Kind::dropped};
  std::vector<Kind> kinds;
  const bool is_fence = op.kind == Op::Kind::fence;
  if (!is_fence && (op.order == Order::weak || run.content(step) == Content::data)) return {};
  if (is_fence) kinds.push_back(Kind::dropped);
  if (op.scope == Scope::sys) kinds.push_back(Kind::to_gpu);
  if (op.scope != Scope::cta) kinds.push_back(Kind::to_cta);
  if (!is_fence) kinds.push_back(op.order == Order::relaxed ? Kind::weak : Kind::relaxed);
  return kinds;
}

}  // namespace

std::string Mutation::text() const {
  const std::map<Kind, const char*> words = {{Kind::dropped, " dropped"},
                                             {Kind::to_gpu, " at GPU scope"},
                                             {Kind::to_cta, " at block scope"},
                                             {Kind::relaxed, " relaxed"},
                                             {Kind::weak, " weak"}};
  if (kind == Kind::cut_lines) return "lines that are no single accesses";
  return instruction->mnemonic + words.at(kind);
}

std::string Mutation::where() const {
  if (instruction == nullptr) return "the model";
  return "PTX line " + std::to_string(instruction->line) + ", '" + instruction->text + "'";
}

std::vector<Mutation> mutations_of(const std::vector<Run>& runs) {
  std::vector<Mutation> mutations;
  std::set<std::pair<const Instruction*, Kind>> seen;
  const auto add = [&](const Instruction* instruction, Kind kind) {
    if (seen.emplace(instruction, kind).second)
      mutations.push_back({.kind = kind, .instruction = instruction});
  };
  for (const Run& run : runs) {
    for (const Step& step : run.steps) {
      if (step.op.line >= 0) add(nullptr, Kind::cut_lines);
      if (step.instruction == nullptr) continue;
      for (const Kind kind : kinds_of(run, step)) add(step.instruction, kind);
    }
  }
  return mutations;
}

std::vector<Step> steps_of(const Machine& machine, const MachineShape& shape,
                           const std::vector<int>& looked_at) {
  std::vector<Step> kept;
  std::vector<int> number;
  for (const Step& step : machine.steps()) {
    const int index = step.thread % shape.threads;
    const bool is_kept = !step.forgotten && std::ranges::find(looked_at, index) != looked_at.end();
    number.push_back(is_kept ? static_cast<int>(kept.size()) : -2);
    if (!is_kept) continue;
    kept.push_back(step);
    if (step.source >= 0) kept.back().source = number[step.source];
  }
  return kept;
}

std::vector<std::string> stale_loads(const Run& run, const Mutation* mutation, std::size_t most) {
  return Litmus(run, mutation).stale(most);
}

std::size_t checked_loads(const Run& run) {
  return Litmus(run, nullptr).checked();
}

}  // namespace coconet::test::ptx
