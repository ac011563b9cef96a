// What kernel text may consist of, whatever names a program has.
#pragma once

#include "coconet/program.h"
#include "jit/codegen/codegen.h"
#include "sched/plan.h"

namespace coconet::fuzz {

/// Throws Refuted when `kernel` has a name that is no identifier, when something else than the
/// dialect's tokens stands outside comments, or when a comment could be read as more than its line.
void check_text(const jit::KernelText& kernel);

/// Lowers `program` and generates its kernels twice, which must give the same text, and checks it.
void check_kernels_of(const Program& program);

}  // namespace coconet::fuzz
