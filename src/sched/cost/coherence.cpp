// Following the lines of every buffer through the steps.
#include "sched/cost/coherence.h"

#include <algorithm>

namespace coconet::sched {
namespace {

/// Of a rank's own buffer; all ranks are alike.
struct Lines {
  double written_by_others = 0;  ///< bytes that others wrote and this rank has not touched since
  double shared = 0;             ///< bytes that others read since this rank wrote them
  bool is_new = false;           ///< this rank wrote it, and others have not read it since
  bool is_used = true;           ///< this rank touched it since others wrote to it
};

class Caches {
 public:
  Caches(const Plan& plan, const BytesOf& bytes_of,
         const std::function<double(ir::ValueId)>& moved_for)
      : plan_(plan),
        bytes_of_(bytes_of),
        moved_for_(moved_for),
        lines_(std::vector<Lines>(static_cast<std::size_t>(plan.buffers.count()))) {}

  double run(const KernelStep& step) {
    moved_ = 0;
    for (const KernelStep::Phase& phase : step.phases) {
      for (const KernelStep::Load& load : phase.loads) {
        if (load.combined && step.is_collective) others_read(load.buffer, moved_for_(step.combine));
        if (!load.combined) read(load.buffer);
      }
      for (const KernelStep::Store& store : phase.stores) {
        const bool spread = store.spread && step.is_collective;
        if (!spread || plan_.graph.at(step.spread).op != ir::Op::send) write(store.buffer);
        if (spread) others_write(store.buffer, moved_for_(step.spread));
      }
    }
    return moved_;
  }

  double run(const LibraryStep& step) {
    moved_ = 0;
    others_read(step.in, moved_for_(step.value));
    write(step.out);
    if (plan_.graph.at(step.value).op == ir::Op::all_reduce)
      others_write(step.out, moved_for_(step.value));
    return moved_;
  }

  double run(const MatmulStep& step) {
    moved_ = 0;
    for (const BufferId id : {step.a, step.b, step.bias}) {
      if (id >= 0) read(id);
    }
    write(step.out);
    return moved_;
  }

 private:
  [[nodiscard]] Lines& of(BufferId id) {
    const BufferId same = plan_.buffers[id].same_as;
    return lines_[same >= 0 ? same : id];
  }

  void read(BufferId id) {
    Lines& lines = of(id);
    moved_ += lines.written_by_others;
    lines.written_by_others = 0;
    lines.is_used = true;
  }
  void write(BufferId id) {
    Lines& lines = of(id);
    moved_ += std::min(std::max(lines.shared, lines.written_by_others), bytes_of_(id));
    lines = {.is_new = true};
  }
  /// This rank reads as much of the others' buffers as they of its own.
  void others_read(BufferId id, double bytes) {
    Lines& lines = of(id);
    if (!lines.is_new) return;
    moved_ += bytes;
    lines.shared = bytes;
    lines.is_new = false;
  }
  void others_write(BufferId id, double bytes) {
    Lines& lines = of(id);
    if (lines.is_used) moved_ += bytes;
    lines.written_by_others = bytes;
    lines.is_used = false;
  }

  const Plan& plan_;
  const BytesOf& bytes_of_;
  const std::function<double(ir::ValueId)>& moved_for_;
  Indexed<Lines> lines_;
  double moved_ = 0;  ///< by the step so far
};

}  // namespace

std::vector<double> moved_lines(const Plan& plan, const BytesOf& bytes_of,
                                const std::function<double(ir::ValueId)>& moved_for) {
  Caches caches(plan, bytes_of, moved_for);
  std::vector<double> moved;
  for (int run = 0; run < 2; ++run) {  // the second finds what the first has left
    moved.clear();
    for (const PlanStep& step : plan.steps)
      moved.push_back(std::visit([&](const auto& one) { return caches.run(one); }, step));
  }
  return moved;
}

}  // namespace coconet::sched
