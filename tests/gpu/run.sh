#!/usr/bin/env bash
# Checks and measures the library on this machine's NVIDIA GPUs: tests/gpu/run.sh [--bin DIR] [--out FILE] [--no-bench]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  cat <<TEXT
usage: tests/gpu/run.sh [--bin DIR] [--out FILE] [--no-bench] [--small]

Builds into build/gpu with what the machine has (no network, MPI, Catch2 or root is needed), and writes a table in
Markdown with a row a step:
  machine      what 'coconet doctor' finds
  conformance  every shipped program, schedule and float type on 1, 2, 4 and 8 ranks of one GPU against the reference,
               and the conformance suites of tests/jit where the build has them
  GPUs         the same with a rank a GPU, its library collectives by NCCL, where there are two or more
  sanitizer    compute-sanitizer's memcheck and racecheck, where there is one
  bench        bench/gpu.sh
What is not there is 'not measured', with the reason. The exit code is 1 when a check failed or there is no GPU; a
missed target of the benchmark is in the table and does not count. It takes less than 8 minutes after the build.

  --bin DIR    the bin folder of an existing build
  --out FILE   the table; default build/gpu/gpu-results.md. What failing checks printed is kept in FILE.logs
  --no-bench   without the last step
  --small      a small part of everything, to try this script
TEXT
}

fail() {
  echo "tests/gpu/run.sh: $*" >&2
  exit 1
}

bin='' out=$root/build/gpu/gpu-results.md bench=1 small=0
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --bin | --out)
      [[ -n ${2-} ]] || fail "$1 takes an argument; see tests/gpu/run.sh --help."
      declare "${1#--}=$2"
      shift 2
      ;;
    --no-bench)
      bench=0
      shift
      ;;
    --small)
      small=1
      shift
      ;;
    *) fail "unknown argument '$1'; see tests/gpu/run.sh --help." ;;
  esac
done

if [[ -z $bin ]]; then
  "$root/tests/gpu/build.sh"
  bin=$root/build/gpu/bin
fi
[[ -x $bin/coconet ]] || fail "there is no $bin/coconet; leave --bin away to build it."
bin=$(cd "$bin" && pwd)
suites=$bin/../tests/tests_jit

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=$out.logs
rm -rf "$logs"
mkdir -p "$(dirname "$out")"
export COCONET_BACKEND=cuda COCONET_CACHE_DIR=$work/cache COCONET_CACHE=rw
unset COCONET_GRAPH COCONET_ARCH COCONET_DUMP_DIR COCONET_LINE_INFO

status=0 began=$SECONDS
rows=$work/rows
# row STEP RESULT: a row of the table, printed at once, too.
row() {
  echo "| $1 | ${2//|//} |" | tee -a "$rows"
}
# failed STEP RESULT: the same for a failure.
failed() {
  status=1
  row "$1" "FAILED: $2"
}
last_line() {
  grep -v '^ *$' "$1" | tail -n 1 | cut -c 1-300
}

# ---- 1: the machine ------------------------------------------------------------------------------------------

doctor=$("$bin/coconet" doctor 2>&1) || true
found() {
  sed -n "s/^\[ok\] $1  *//p" <<<"$doctor"
}
missing() {
  sed -n "s/^\[--\] $1  *//p" <<<"$doctor" | head -n 1
}
gpus=$(found GPU | wc -l)
((gpus > 0)) || fail "there is no GPU to use: $(missing '\(CUDA driver\|GPU\)'); 'coconet doctor' says more."
commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo "no git")
row "date, commit" "$(date -u +%Y-%m-%dT%H:%MZ), $commit"
row "GPU" "$(found GPU | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /' | paste -sd ';')"
if command -v nvidia-smi >/dev/null; then
  driver=$(nvidia-smi --query-gpu=driver_version,compute_mode --format=csv,noheader 2>&1 | head -n 1)
  row "driver" "$driver, $(found 'CUDA driver')"
else
  row "driver" "$(found 'CUDA driver') (no nvidia-smi, which tells more)"
fi
if [[ -n $(found NVRTC) ]]; then
  row "doctor" "NVRTC $(found NVRTC); NCCL $(found NCCL | grep . || missing NCCL)"
else
  failed "doctor" "NVRTC: $(missing NVRTC)"
fi

# ---- 2: conformance ------------------------------------------------------------------------------------------

# One GPU, so that ranks share it; a later step takes all.
all_gpus=${CUDA_VISIBLE_DEVICES-}
one_gpu=${CUDA_VISIBLE_DEVICES:-0}
export CUDA_VISIBLE_DEVICES=${one_gpu%%,*}

# A process each, several at a time; no more start after the deadline. Files, so that children see them.
export work bin suites logs
pool_seconds=200 suite_seconds=230

# shellcheck disable=SC2317 # what the processes of xargs run
# check NAME COMMAND...: runs it, and puts a line with the outcome into a file: ok, cut (no time left) or failed.
check() {
  local name=$1 code=0 log=$work/log.$BASHPID
  shift
  if (($(date +%s) > $(<"$work/deadline"))); then
    echo "cut $name" >>"$work/outcomes"
    return
  fi
  "$@" >"$log" 2>&1 || code=$?
  if ((code == 0)); then
    echo "ok $name" >>"$work/outcomes"
  else
    mkdir -p "$logs"
    { printf '%q ' "$@" && echo "ended with $code" && cat "$log"; } >"$logs/${name// /-}.log"
    { grep -E '^test cases:|^coconet: ' "$log" || grep -v '^ *$' "$log"; } | tail -n 1 | cut -c 1-300 >"$log.last"
    echo "failed $name: exit code $code: $(<"$log.last")" >>"$work/outcomes"
  fi
  rm -f "$log" "$log.last"
}
# job WORD...: what a line of the list of jobs means.
# shellcheck disable=SC2317
job() {
  case $1 in
    suite)
      check "suite $2" timeout "$suite_seconds" "$suites" --filenames-as-tags --warn NoTests "[#$2_test]"
      ;;
    run) # run PROGRAM SCHEDULE DTYPE RANKS N
      check "$*" timeout 60 "$bin/coconet" run "$2" --schedule "$3" --dtype "$4" --world "local:$5" \
        --set "n=$6" --check
      ;;
  esac
}
export suite_seconds
export -f check job

# pool JOBS LIST SECONDS: the outcomes of a list of jobs, in $work/outcomes.
pool() {
  : >"$work/outcomes"
  echo $(($(date +%s) + $3)) >"$work/deadline"
  # shellcheck disable=SC2016
  xargs -P "$1" -L 1 -a "$2" bash -c 'job "$@"' job
}
# outcome STEP KIND WHAT: the row of the outcomes of one kind, all of which begin with that word.
outcome() {
  local all ok cut wrong note=''
  all=$(grep -c " $2 " "$work/outcomes" || true)
  ok=$(grep -c "^ok $2 " "$work/outcomes" || true)
  cut=$(grep -c "^cut $2 " "$work/outcomes" || true)
  wrong=$(grep "^failed $2 " "$work/outcomes" | sort | head -n 1 || true)
  if ((cut > 0)); then
    note="; $cut not run, for time: $(sed -n 's/^cut run .* \([0-9]*\)$/n=\1/p' "$work/outcomes" | sort | uniq -c |
      sed 's/^ *\([0-9]*\) \(.*\)/\1 of \2/' | paste -sd ',' | sed 's/,/, /g')"
  fi
  if ((ok + cut == all)); then
    ((ok > 0)) || status=1
    row "$1" "$ok of $all $3 pass$note"
  else
    failed "$1" "$((all - ok - cut)) of $all $3$note; the first: ${wrong#failed }; see $logs"
  fi
}

dtypes=(f32 f16 bf16 f64) counts=(1 2 4 8) sizes=(4099 1048583 17 1000 1)
suite_names=(property_test conformance_collective_test conformance_reduction_test conformance_pointwise_test
  conformance_layout_test conformance_matmul_test conformance_overlap_test)
if ((small)); then
  dtypes=(f32 bf16) counts=(2) sizes=(1000) suite_names=(conformance_layout_test)
fi
schedules=$("$bin/coconet" programs --schedules | grep -v _block) # the optimizers, whose one dimension is n
((small == 0)) || schedules=$(awk 'NR % 4 == 1' <<<"$schedules")

jobs=$(nproc)
((jobs <= 12)) || jobs=12
note="$jobs processes at a time"
if command -v nvidia-smi >/dev/null &&
  ! nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null | head -n 1 | grep -q Default; then
  jobs=1 note="one process at a time, as the GPU's compute mode allows no more"
fi

list=$work/jobs
{
  if [[ -x $suites ]]; then
    printf 'suite %s\n' "${suite_names[@]%_test}"
  fi
  for size in "${sizes[@]}"; do
    while read -r program schedule; do
      for ranks in "${counts[@]}"; do
        for dtype in "${dtypes[@]}"; do
          [[ $program == *_mixed && $dtype != f16 && $dtype != bf16 ]] && continue
          [[ $size != 1048583 || $dtype == f32 ]] && echo "run $program $schedule $dtype $ranks $size"
        done
      done
    done <<<"$schedules"
  done
} >"$list"

# What a process costs, once the kernel is in the cache.
step=("$bin/coconet" run adam --schedule fused --world local:2 --set n=1000 --check)
if "${step[@]}" >"$work/log" 2>&1; then
  begin=$(date +%s%N)
  "${step[@]}" >"$work/log" 2>&1 || true
  row "one run with its check" "$((($(date +%s%N) - begin) / 1000000)) ms, start to end"
else
  failed "one run with its check" "$(last_line "$work/log")"
fi

begin=$SECONDS
pool "$jobs" "$list" "$pool_seconds"
what="$(wc -l <<<"$schedules") schedules; ${dtypes[*]}; ranks ${counts[*]}; n = ${sizes[*]}, 1048583 in f32 only"
outcome "conformance: shipped programs" run "runs ($what; $note, $((SECONDS - begin)) s)"
for suite in "${suite_names[@]%_test}"; do
  name="conformance: tests_jit $suite"
  if [[ ! -x $suites ]]; then
    row "$name" "not measured: the build has no tests/tests_jit (Catch2 2.13 and rapidcheck are needed)"
  elif grep -q "^ok suite $suite$" "$work/outcomes"; then
    row "$name" "passes"
  elif [[ $suite == property ]] && grep -q "^failed suite $suite: exit code 124" "$work/outcomes"; then
    row "$name" "not measured to its end: stopped after $suite_seconds s, as it compiles hundreds of random programs"
    rm -f "$logs/suite-$suite.log"
  else
    failed "$name" "$(grep " suite $suite" "$work/outcomes" | tail -n 1 | cut -d ' ' -f 3-); see $logs/suite-$suite.log"
  fi
done

# ---- 3: several GPUs -----------------------------------------------------------------------------------------

if [[ -n $all_gpus ]]; then export CUDA_VISIBLE_DEVICES=$all_gpus; else unset CUDA_VISIBLE_DEVICES; fi
list_for_all_gpus() { # SCHEDULE...
  local program schedule dtype size
  while read -r program schedule; do
    [[ " $* " == *" $schedule "* ]] || continue
    for dtype in "${dtypes[@]}"; do
      for size in 4099 1000003; do
        ((small)) && [[ $size != 4099 ]] || echo "run $program $schedule $dtype $gpus $size"
      done
    done
  done <<<"$schedules"
}
# on_all_gpus WHAT SCHEDULE...: a row of the runs with a rank a GPU.
on_all_gpus() {
  local what=$1
  shift
  if ((gpus < 2)); then
    row "several GPUs: $what" "not measured: there is one GPU"
  elif [[ $1 != fused && -z $(found NCCL) ]]; then
    row "$gpus GPUs: $what" "not measured: no NCCL: $(missing NCCL)"
  else
    list_for_all_gpus "$@" >"$list"
    pool 2 "$list" 40
    outcome "$gpus GPUs: $what" run "runs (a rank a GPU; ${dtypes[*]}; n = 4099, 1000003)"
  fi
}
on_all_gpus "fused" fused
on_all_gpus "unfused and sliced, NCCL" unfused sliced
if ((gpus < 2)) || [[ -n $(found multicast) ]]; then
  COCONET_ALGORITHM=multimem COCONET_PROTOCOL=simple on_all_gpus "fused, through the switch (multimem)" fused
else
  row "$gpus GPUs: fused, through the switch (multimem)" "not measured: $(missing multicast)"
fi
export CUDA_VISIBLE_DEVICES=${one_gpu%%,*}

# ---- 4: the sanitizer ----------------------------------------------------------------------------------------

sanitizer=''
for place in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer"; do
  [[ -n $sanitizer ]] || sanitizer=$(command -v "$place" || true)
done
sanitize() { # TOOL WHAT ARGUMENT...
  local tool=$1 what=$2 code=0 log=$work/sanitizer.log
  shift 2
  if [[ -z $sanitizer ]]; then
    row "$tool: $what" "not measured: no compute-sanitizer on PATH or in ${CUDA_HOME:-/usr/local/cuda}/bin"
    return
  fi
  timeout 60 "$sanitizer" --tool "$tool" --error-exitcode 99 "$bin/coconet" run "$@" --check >"$log" 2>&1 || code=$?
  local summary
  summary=$(grep -o '[A-Z]* SUMMARY: .*' "$log" | tail -n 1 || true)
  if ((code == 0)) && [[ $summary =~ 'SUMMARY: 0 ' ]] && grep -q '^check passed' "$log"; then
    row "$tool: $what" "$summary"
  else
    mkdir -p "$logs"
    cp "$log" "$logs/$tool-${what// /-}.log"
    failed "$tool: $what" "exit code $code, ${summary:-$(last_line "$log")}; see $logs"
  fi
}
for tool in memcheck racecheck; do
  sanitize "$tool" "fused adam on 1 rank" adam --schedule fused --world local:1 --set n=4099
  sanitize "$tool" "fused adam on 4 ranks" adam --schedule fused --world local:4 --set n=4099
  sanitize "$tool" "reductions" "$root/tests/gpu/programs/norm.json" --world local:1 --set n=4099
done

# ---- 5: the benchmark ----------------------------------------------------------------------------------------

if ((bench == 0)); then
  row "bench/gpu.sh" "not measured: --no-bench"
elif [[ ! -x $bin/bench_gpu ]]; then
  row "bench/gpu.sh" "not measured: there is no $bin/bench_gpu (target gpu)"
else
  arguments=(--bin "$bin" --out "$work/bench.md" --json "${out%.md}.json")
  ((small == 0)) || arguments+=(--small)
  # The script takes the first GPU for most, and all for what measures several.
  if [[ -n $all_gpus ]]; then export CUDA_VISIBLE_DEVICES=$all_gpus; else unset CUDA_VISIBLE_DEVICES; fi
  if "$root/bench/gpu.sh" "${arguments[@]}" >/dev/null 2>"$work/log"; then
    row "bench/gpu.sh" "$(tail -n 1 "$work/bench.md")"
  else
    failed "bench/gpu.sh" "$(last_line "$work/log")"
  fi
fi
row "time" "$((SECONDS - began)) s after the build"

{
  echo "# Results on $(found GPU | head -n 1)"
  echo
  ((small == 0)) || printf 'A small part of everything, to try the script.\n\n'
  echo "| step | result |"
  echo "|---|---|"
  cat "$rows"
  if [[ -s $work/bench.md ]]; then
    printf '\n## bench/gpu.sh\n\n'
    cat "$work/bench.md"
  fi
} >"$out"
echo "The table is in $out; $( ((status == 0)) && echo "no check failed" || echo "a check FAILED")."
exit "$status"
