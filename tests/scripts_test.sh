#!/usr/bin/env bash
# Checks what scripts say to wrong arguments, which they do before they install or build
# anything: scripts_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1

# says CODE TEXT COMMAND...: COMMAND must end with CODE and print TEXT.
says() {
  local code=$1 text=$2 output status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  if [[ $status != "$code" || $output != *"$text"* ]]; then
    echo "scripts_test: '$*' ended with $status and said:" >&2
    echo "$output" >&2
    echo "and should have ended with $code and said: $text" >&2
    exit 1
  fi
}

run=$source_dir/samples/run.sh
says 0 "usage: samples/run.sh [SAMPLE] [-n RANKS]" "$run" --help
says 0 "  03_train_digits" "$run" --help
says 1 "samples/run.sh: there is no sample '09_none'. The samples are: 01_allreduce_add 02_adam 03_train_digits 04_lamb_bert 05_model_parallel 06_pipeline 07_conjugate_gradients 08_application 09_gpt." \
  "$run" 09_none
says 1 "samples/run.sh: -n takes a number of ranks, 1 or more, and got '0'." "$run" -n 0
says 1 "samples/run.sh: -n takes a number of ranks, 1 or more, and got ''." "$run" 02_adam -n
says 0 "usage: tests/run.sh [--all] [--sanitizers]" "$source_dir/tests/run.sh" --help
says 1 "tests/run.sh: unknown argument '--fast'; see tests/run.sh --help." "$source_dir/tests/run.sh" --fast
says 1 "tests/run.sh: TESTS_SEED is 'x'; it must be a number." env TESTS_SEED=x "$source_dir/tests/run.sh"
says 0 "usage: tests/mutants.sh [--count N] [--seed N] [--begin N] [--quick-only] [--keep] [--list]" "$source_dir/tests/mutants.sh" --help
says 1 "tests/mutants.sh: unknown argument '--fast'; see tests/mutants.sh --help." "$source_dir/tests/mutants.sh" --fast
says 1 "tests/mutants.sh: --count takes a number, 1 or more, and got '0'." "$source_dir/tests/mutants.sh" --count 0
says 0 "usage: tests/gpu/run.sh [--bin DIR | --bundle DIR]" "$source_dir/tests/gpu/run.sh" --help
says 1 "tests/gpu/run.sh: unknown argument '--fast'; see tests/gpu/run.sh --help." "$source_dir/tests/gpu/run.sh" --fast
says 1 "tests/gpu/run.sh: there is no part 'all'; the parts are: machine graphs probes sample times mpi bias overlap counters sanitizer conformance gpus bench." \
  "$source_dir/tests/gpu/run.sh" --parts machine,all
says 1 "tests/gpu/run.sh: --call takes A or B, and got 'C'." "$source_dir/tests/gpu/run.sh" --call C
says 0 "usage: tests/gpu/first.sh A|B [--out DIR]" "$source_dir/tests/gpu/first.sh" --help
says 1 "tests/gpu/first.sh: which call, A or B?" "$source_dir/tests/gpu/first.sh"
says 1 "tests/gpu/first.sh: unknown argument 'C'; see tests/gpu/first.sh --help." "$source_dir/tests/gpu/first.sh" C
# The limits of a call's parts, with what comes before them and what ends them, add up to what first.sh says.
help=$("$source_dir/tests/gpu/run.sh" --help)
read -r before grace < <(sed -n 's/^doctor_seconds=\([0-9]*\) grace=\([0-9]*\)$/\1 \2/p' "$source_dir/tests/gpu/run.sh")
for of_call in "A 7" "B 5"; do
  read -r call minutes <<<"$of_call"
  sum=$before
  for limit in $(sed -n "s/^  [a-z]* *$call *\([0-9]*\) s .*/\1/p" <<<"$help"); do
    sum=$((sum + grace + limit))
  done
  said=$(sed -n "s/.*call $call takes \([0-9]*\) s.*/\1/p" <<<"$help")
  if ((sum != said || sum > 60 * minutes || sum < 60)); then
    echo "scripts_test: the parts of call $call may take $sum s; run.sh says '$said', and first.sh at most $minutes minutes" >&2
    exit 1
  fi
done
# The table to fill has rows of every part of both calls, and of no other.
in_table=$(sed -n 's/^| \([AB]\), \([a-z]*\) |.*/\1 \2/p' "$source_dir/docs/gpu-results.md" | uniq)
in_calls=$(sed -n 's/^  \([a-z]*\)  *\([AB]\)  *[0-9]* s .*/\2 \1/p' <<<"$help")
if [[ $in_table != "$in_calls" ]]; then
  printf 'scripts_test: docs/gpu-results.md has a table of\n%s\nand the calls are\n%s\n' "$in_table" "$in_calls" >&2
  exit 1
fi
says 0 "usage: tests/gpu/bundle.sh [--bin DIR] [--out DIR]" "$source_dir/tests/gpu/bundle.sh" --help
says 1 "tests/gpu/bundle.sh: there is no /nowhere/coconet; leave --bin away to build it." \
  "$source_dir/tests/gpu/bundle.sh" --bin /nowhere
says 0 "usage: bench/run.sh [--quick] [--json FILE] [PART]" "$source_dir/bench/run.sh" --help
says 1 "bench/run.sh: unknown argument 'sgd'; the parts are: adam optimizers collectives scattered algorithms blocks kernels matmul cores. See bench/run.sh --help." \
  "$source_dir/bench/run.sh" sgd
cd "$source_dir"
for script in .ci/run bench/gpu.sh bench/run.sh cmake/setup.sh samples/run.sh tests/gpu/*.sh tests/gpu/parts/*.sh \
  tests/mutants.sh tests/package/*.sh tests/run.sh; do
  bash -n "$source_dir/$script"
done
sh -n "$source_dir/cmake/man.sh"
