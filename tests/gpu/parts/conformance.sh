#!/usr/bin/env bash
# Every shipped optimizer, schedule and float type on 1, 2, 4 and 8 ranks of one GPU against the reference, and the
# conformance suites of tests/jit.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

dtypes=(f32 f16 bf16 f64 f16+copy bf16+copy) counts=(1 2 4 8) sizes=(4099 1048583 17 1000 1)
suites=(property conformance_collective conformance_reduction conformance_pointwise conformance_layout
  conformance_matmul conformance_overlap)
if ((small)); then
  dtypes=(f32 bf16 bf16+copy) counts=(2) sizes=(1000) suites=("conformance_layout 8")
fi
schedules >"$work/schedules"
((small == 0)) || sed -i '1~16!d' "$work/schedules"
{
  if [[ -x $bin/../tests/tests_jit ]]; then
    printf 'suite %s\n' "${suites[@]}"
  fi
  for size in "${sizes[@]}"; do
    while read -r program schedule; do
      for ranks in "${counts[@]}"; do
        for dtype in "${dtypes[@]}"; do
          [[ $size != 1048583 || $dtype == f32 ]] && echo "run $program $schedule $dtype $ranks $size"
        done
      done
    done <"$work/schedules"
  done
} >"$work/list" || true
pool "$work/list"
outcome "conformance: shipped programs" run \
  "runs ($(wc -l <"$work/schedules") schedules; ${dtypes[*]}; ranks ${counts[*]}; n = ${sizes[*]}, 1048583 in f32 only)"
if [[ -x $bin/../tests/tests_jit ]]; then
  for suite in "${suites[@]%% *}"; do
    grep " suite $suite" "$outcomes" >"$work/one" || true
    mv "$work/one" "$outcomes.one"
    outcomes=$outcomes.one outcome "conformance: tests_jit $suite" suite "suites"
  done
else
  row "conformance: suites" "not measured: the build has no tests/tests_jit (Catch2 2.13 and rapidcheck are needed)"
fi
