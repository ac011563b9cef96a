// Dividing a kernel into phases. A value is computed in the first phase that needs it, which is as
// late as possible.
#include "sched/phases.h"

#include <algorithm>
#include <map>
#include <set>

#include "sched/kernels.h"

namespace coconet::sched {

namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

class Division {
 public:
  Division(Plan& plan, const Indexed<BufferId>& buffer_of, const std::vector<ValueId>& values,
           KernelStep& step)
      : plan_(plan), graph_(plan.graph), buffer_of_(buffer_of), values_(values), step_(step) {}

  void run() {
    for (const ValueId id : values_) level_[id] = level_of(id);
    find_stores();
    int last = 0;
    for (const auto& [id, level] : level_) last = std::max(last, level);
    phases_.resize(static_cast<std::size_t>(last) + 1);
    for (phase_ = 0; phase_ <= last; ++phase_) {
      for (const Stored& stored : stores_) {
        if (stored.level == phase_) need(stored.store.value);
      }
      for (const ValueId id : values_) {
        if (graph_.at(id).op == Op::reduction && level_[id] == phase_ + 1) {
          need(graph_.at(id).operands.front());
          now().reductions.push_back(id);
        }
      }
    }
    for (phase_ = 0; phase_ <= last; ++phase_) assemble();
  }

 private:
  struct Stored {
    KernelStep::Store store;
    ValueId id;  ///< the value or update that has the buffer
    int level;
  };
  struct Sets {
    std::set<ValueId> scalars;
    std::set<ValueId> members;
    std::map<ValueId, KernelStep::Load> loads;
    std::vector<KernelStep::Store> kept;
    std::vector<ValueId> reductions;
  };
  Sets& now() { return phases_[phase_]; }

  [[nodiscard]] bool is_member(ValueId id) const {
    return std::binary_search(values_.begin(), values_.end(), id);
  }
  [[nodiscard]] BufferId buffer_of(ValueId id) const { return buffer_of_[id]; }
  /// Whether `id` is in memory: made elsewhere, or a view of what is.
  [[nodiscard]] bool is_read(ValueId id) const {
    return !is_member(id) || ir::is_view(graph_.at(id).op);
  }
  /// How the kernel loads it where nothing has overwritten it.
  [[nodiscard]] KernelStep::Load load_of(ValueId id) const {
    if (!is_member(id)) return {.value = id, .buffer = buffer_of(id)};
    const ValueId operand = graph_.at(id).operands.front();
    return {.value = id, .buffer = buffer_of(operand), .viewed = true};
  }
  [[nodiscard]] bool is_scalar_here(ValueId id) const {
    return is_per_buffer(graph_, step_.domain, id) ||
           (step_.is_collective && is_scalar(graph_, step_.domain, id));
  }

  /// The first phase in which `id` can be had.
  int level_of(ValueId id) const {
    int level = 0;
    for (const ValueId operand : graph_.at(id).operands) {
      if (const auto found = level_.find(operand); found != level_.end())
        level = std::max(level, found->second);
    }
    return graph_.at(id).op == Op::reduction ? level + 1 : level;
  }

  void find_stores() {
    for (const ValueId id : values_) {
      if (buffer_of(id) < 0) continue;
      const Node& node = graph_.at(id);
      ValueId value = node.op == Op::update ? node.operands[1] : id;
      const bool spread = value == step_.spread;
      // An update in the kernel writes what is spread, into the same memory.
      if (id == step_.spread && std::ranges::any_of(values_, [&](ValueId user) {
            return graph_.at(user).op == Op::update && graph_.at(user).operands[1] == id &&
                   buffer_of(user) == buffer_of(id);
          })) {
        continue;
      }
      if (spread) value = graph_.at(value).operands.front();
      const KernelStep::Store store{value, buffer_of(id), spread};
      if (!spread && is_scalar_here(value)) {
        step_.scalar_stores.push_back(store);
        pending_scalars_.push_back(value);
        continue;
      }
      const auto level = level_.find(resolve(value));
      stores_.push_back({store, id, level == level_.end() ? 0 : level->second});
    }
  }

  /// What an update in the kernel stands for: the value that it writes.
  [[nodiscard]] ValueId resolve(ValueId id) const {
    while (is_member(id) && graph_.at(id).op == Op::update) id = graph_.at(id).operands[1];
    return id;
  }

  /// Sees to it that `unresolved` can be read in this phase.
  void need(ValueId unresolved) {
    const ValueId id = resolve(unresolved);
    const Node& node = graph_.at(id);
    if (node.weak) return;
    if (is_scalar_here(id)) {
      place_scalar(id);
    } else if (is_read(id)) {
      load(id);
    } else if (const auto placed = placed_.find(id);
               placed != placed_.end() && placed->second == phase_) {
      return;
    } else if (placed != placed_.end() && !is_made_again(id)) {
      now().loads[id] = kept(id, placed->second);
    } else {
      placed_[id] = phase_;
      now().members.insert(id);
      if (id == step_.combine) return;  // whose operand is loaded as a special case
      if (ir::is_gather(node.op)) now().loads[id] = load_of(id);
      const std::size_t gathered = ir::is_gather(node.op) ? 1 : 0;
      for (std::size_t i = gathered; i < node.operands.size(); ++i) need(node.operands[i]);
    }
  }

  /// Whether a later phase does as well to compute `id` again as to read what was kept of it:
  /// because the tensors in memory that it is made of take no more bytes and are still there, or
  /// because fewer bytes need be kept to make it again.
  [[nodiscard]] bool is_made_again(ValueId id) const {
    const Node& node = graph_.at(id);
    const std::size_t size = size_of(node.dtype);
    if (is_cheap(node.op) && buffer_of(id) < 0 && bytes_of_source(id, size) < size) return true;
    if (node.op != Op::cast && node.op != Op::join_halves) return false;
    std::size_t bytes = 0;
    for (const ValueId unresolved : node.operands) {
      const ValueId operand = resolve(unresolved);
      if (!is_read(operand) || is_scalar_here(operand) || is_overwritten(load_of(operand)))
        return false;
      bytes += size_of(graph_.at(operand).dtype);
    }
    return bytes <= size;
  }

  [[nodiscard]] static bool is_cheap(Op op) {
    return op == Op::cast || op == Op::multiply || op == Op::minimum || op == Op::maximum;
  }

  /// The bytes an element of the tensors that cheap ops make `unresolved` of, or `enough`.
  [[nodiscard]] std::size_t bytes_of_source(ValueId unresolved, std::size_t enough) const {
    const ValueId id = resolve(unresolved);
    const Node& node = graph_.at(id);
    if (node.weak || is_scalar_here(id)) return 0;
    if (is_read(id) || buffer_of(id) >= 0 || !is_cheap(node.op)) return size_of(node.dtype);
    std::size_t bytes = 0;
    for (const ValueId operand : node.operands) {
      bytes += bytes_of_source(operand, enough);
      if (bytes >= enough) return enough;
    }
    return bytes;
  }

  void place_scalar(ValueId unresolved) {
    const ValueId id = resolve(unresolved);
    if (graph_.at(id).weak || !scalars_.insert(id).second) return;
    if (!is_member(id)) {
      step_.scalar_loads.push_back({id, buffer_of(id), false});
      return;
    }
    if (graph_.at(id).op == Op::reduction) return;  // a result of the phase before
    for (const ValueId operand : graph_.at(id).operands) place_scalar(operand);
    phases_[level_[id]].scalars.insert(id);
  }

  /// Whether an earlier phase has written the memory of `load`.
  [[nodiscard]] bool is_overwritten(const KernelStep::Load& load) const {
    return std::ranges::any_of(stores_, [&](const Stored& stored) {
      return stored.level < phase_ && stored.store.buffer == load.buffer;
    });
  }

  void load(ValueId id) {
    const KernelStep::Load load = load_of(id);
    if (!is_overwritten(load)) {
      now().loads[id] = load;
      return;
    }
    phases_.front().loads[id] = load;
    now().loads[id] = kept(id, 0);
  }

  KernelStep::Load kept(ValueId id, int phase) {
    return {.value = id, .buffer = kept_buffer(id, phase)};
  }

  /// Where later phases find `id`, which is computed or loaded in `phase`.
  BufferId kept_buffer(ValueId id, int phase) {
    for (const Stored& stored : stores_) {
      if (!stored.store.spread && resolve(stored.store.value) == id && is_member(id))
        return stored.store.buffer;
    }
    const auto known = kept_.find(id);
    if (known != kept_.end()) return known->second;
    const Node& node = graph_.at(id);
    const Node& domain = graph_.at(step_.domain);
    plan_.buffers.push_back({node.name + ".kept", PlanBuffer::Role::temporary, node.dtype,
                             domain.shape, domain.layout});
    const auto buffer = static_cast<BufferId>(plan_.buffers.size()) - 1;
    kept_[id] = buffer;
    phases_[phase].kept.push_back({id, buffer, false});
    return buffer;
  }

  /// Puts this phase's sets in order: that of the program, operands in the order in which they are
  /// read.
  void assemble() {
    if (phase_ == 0) {
      for (const ValueId id : pending_scalars_) place_scalar(id);
    }
    Sets& sets = now();
    KernelStep::Phase phase;
    phase.scalars.assign(sets.scalars.begin(), sets.scalars.end());
    phase.members.assign(sets.members.begin(), sets.members.end());
    phase.reductions = sets.reductions;
    const auto add_load = [&](ValueId unresolved) {
      const ValueId id = resolve(unresolved);
      const auto found = sets.loads.find(id);
      const bool known = std::ranges::any_of(
          phase.loads, [&](const auto& load) { return load.value == id && !load.combined; });
      if (found != sets.loads.end() && !known) phase.loads.push_back(found->second);
    };
    for (const ValueId id : values_) {
      if (id == step_.combine && sets.members.contains(id)) {
        const ValueId operand = graph_.at(id).operands.front();
        phase.loads.push_back({operand, buffer_of(operand), true});
      } else if (sets.members.contains(id) ||
                 std::ranges::find(phase.reductions, id) != phase.reductions.end()) {
        for (const ValueId operand : graph_.at(id).operands) add_load(operand);
        if (ir::is_gather(graph_.at(id).op)) add_load(id);
      }
      for (const Stored& stored : stores_) {
        if (stored.id != id || stored.level != phase_) continue;
        add_load(stored.store.value);
        phase.stores.push_back(stored.store);
      }
    }
    for (const KernelStep::Store& store : sets.kept) {
      add_load(store.value);
      phase.stores.push_back(store);
    }
    step_.phases.push_back(std::move(phase));
  }

  Plan& plan_;
  const Graph& graph_;
  const Indexed<BufferId>& buffer_of_;
  const std::vector<ValueId>& values_;
  KernelStep& step_;
  std::map<ValueId, int> level_;
  std::vector<Stored> stores_;
  std::vector<Sets> phases_;
  std::map<ValueId, int> placed_;
  std::set<ValueId> scalars_;
  std::vector<ValueId> pending_scalars_;
  std::map<ValueId, BufferId> kept_;
  int phase_ = 0;
};

}  // namespace

void divide_into_phases(Plan& plan, const Indexed<BufferId>& buffer_of,
                        const std::vector<ValueId>& values, KernelStep& step) {
  Division(plan, buffer_of, values, step).run();
}

}  // namespace coconet::sched
