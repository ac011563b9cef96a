// An optimizer's step whose names are the input, divided at zeros: of the program, its mesh, its
// values and its kernels. Names that an application gives may be any bytes.
#include <algorithm>
#include <string>

#include "coconet/program.h"
#include "coconet/schedule.h"
#include "fuzz/generated_text.h"
#include "fuzz/targets.h"
#include "ir/access.h"

namespace coconet::fuzz {
namespace {

/// The next name; a plain one where there are no more.
class Names {
 public:
  explicit Names(std::string_view text) : text_(text) {}
  std::string next() {
    const std::string_view name = text_.substr(0, text_.find('\0'));
    text_.remove_prefix(std::min(name.size() + 1, text_.size()));
    ++count_;
    return name.empty() ? "name" + std::to_string(count_) : std::string(name);
  }

 private:
  std::string_view text_;
  int count_ = 0;
};

}  // namespace

void fuzz_names(Bytes bytes) {
  Names names(text_of(bytes));
  Program p(names.next(), Mesh({{names.next(), 2}}));
  const Dim n = p.dim(names.next(), 64);
  const Value g = p.input(names.next(), f16, {n}, local);
  const Value w = p.state(names.next(), f32, {n}, replicated);
  const Value m = p.state(names.next(), f32, {n, n}, replicated);
  const Value lr = p.scalar(names.next());
  const Value t = p.scalar(names.next());
  const Value avg = all_reduce(cast(g, f32), sum).named(names.next());
  const Value rate = (lr / (1 - pow(0.9, t))).named(names.next());
  const Value bigger = (rate * rate + lr);
  const Value step = dropout(avg * bigger * max(abs(w)), 0.25, 7, t).named(names.next());
  const Value row = mean(m * step, {0}).named(names.next());
  update(w, w - step * lr + row).named(names.next());
  p.output(names.next(), (cast(step, f16) * t).named(names.next()));
  check_kernels_of(p);

  Schedule schedule;
  schedule.split(avg.name());
  const std::string gathered = avg.name() + ".all_gather";
  schedule.reorder(gathered, {step.name()});
  const Program split = schedule.apply(p).back();
  check_kernels_of(split);
  const std::string json = p.json();
  require(Program::parse(json).json() == json, "a program survives its JSON");
  schedule.fuse(names.next(), "computation", {step.name()});
  check_kernels_of(schedule.apply(p).back());
}

}  // namespace coconet::fuzz
