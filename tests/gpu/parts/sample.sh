#!/usr/bin/env bash
# A sample of conformance: every shipped optimizer fused, all schedules and exchanges of Adam, and cases of the suites.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

{
  # The suites, which take longest, begin first.
  if ((small == 0)) && [[ -x $bin/../tests/tests_jit ]]; then
    for suite in collective layout reduction overlap; do
      echo "suite conformance_$suite 40"
    done
  fi
  for dtype in f32 bf16+copy; do
    schedules | grep ' fused$' | while read -r program schedule; do
      echo "run $program $schedule $dtype 2 4099"
    done
  done
  if ((small == 0)); then
    schedules | grep '^\(adam\|lamb\) ' | while read -r program schedule; do
      for ranks in 1 4 8; do
        echo "run $program $schedule f32 $ranks 1048583"
        echo "run $program $schedule f16 $ranks 4099"
      done
    done
  fi
  for algorithm in direct ring tree; do
    for protocol in simple ll ll128; do
      echo "exchange $algorithm $protocol"
    done
  done
} >"$work/list"
((small == 0)) || sed -i '1~4!d' "$work/list"
pool "$work/list"
outcome "sample: shipped programs" run "runs"
if grep -q '^suite ' "$work/list"; then
  outcome "sample: suites of tests_jit" suite "suites (one case in 40)"
fi
outcome "sample: fused adam on 4 ranks, every exchange in a kernel" exchange "algorithms and protocols"
