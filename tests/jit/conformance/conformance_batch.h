// Programs that are required to equal the reference, whose kernels are compiled together before the
// first of them runs.
#pragma once

#include <vector>

#include "jit/conformance/conformance.h"
#include "jit/kernels/compile_ahead.h"

namespace coconet::test {

class ConformanceBatch {
 public:
  /// What `require_conforms` takes, if it is drawn, on the ranks of the program's mesh.
  void add(const Program& program, const Schedule& schedule, std::vector<Checked> cases) {
    if (!draw()) return;
    kernels_.add(program, schedule);
    subjects_.push_back({program, schedule, std::move(cases)});
  }
  void add(const Program& program, const Schedule& schedule, const std::vector<Sizes>& sizes,
           int iterations = 1) {
    add(program, schedule, cases_with(sizes, iterations));
  }

  /// Requires all that was added to conform, in this order.
  void require() const {
    kernels_.compile();
    for (const Subject& subject : subjects_)
      require_all_conform(subject.program, subject.schedule, subject.program.mesh().size(),
                          subject.cases);
  }

 private:
  struct Subject {
    Program program;
    Schedule schedule;
    std::vector<Checked> cases;
  };

  CompileAhead kernels_;
  std::vector<Subject> subjects_;
};

}  // namespace coconet::test
