#!/usr/bin/env bash
# Checks and measures the library on this machine's NVIDIA GPUs, part by part: tests/gpu/run.sh --help
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# A part, the seconds that it may take, and what it does. Those up to `quick_parts` take ten minutes at most.
parts=(
  "machine 60 what 'coconet doctor' finds, what a copy moves, and one run"
  "probes 30 whether kernels that wait for each other run at once; barriers of 2, 4 and 8 ranks"
  "sample 110 a sample of conformance: shipped programs, exchanges, and cases of the suites of tests/jit"
  "mpi 60 2 and 4 processes on one GPU"
  "times 130 Adam beside a copy and torch's fused one, the launch of a step, matmuls beside cuBLASLt's"
  "counters 70 what ncu's counters say of fused kernels"
  "sanitizer 120 compute-sanitizer's memcheck, racecheck and synccheck"
  "conformance 300 every shipped program, schedule and float type on 1 to 8 ranks of one GPU, and whole suites"
  "gpus 150 the same with a rank a GPU, its library collectives by NCCL, and through the switch"
  "bench 900 all of bench/gpu.sh"
)
quick_parts=7

usage() {
  cat <<TEXT
usage: tests/gpu/run.sh [--bin DIR | --bundle DIR] [--out FILE] [--all] [--parts LIST] [--small]

Checks and measures in parts, each with its own limit of time: one that hangs or crashes loses only itself. The table, in
Markdown, is written anew after each. By default the first $quick_parts parts run, the most telling first, in ten minutes:
$(printf '  %s\n' "${parts[@]}" | sed 's/^  \([a-z]*\) \([0-9]*\) \(.*\)/  \1\t\2 s\t\3/' | expand -t 16,24)
What is not there is 'not measured', with the reason. The exit code is 1 when a check failed or there is no GPU; a missed
target of a time is in the table and does not count. Without --bin and --bundle it builds into build/gpu first, with what
the machine has (no network, MPI, Catch2 or root is needed).

  --bin DIR     the bin folder of an existing build
  --bundle DIR  a folder that tests/gpu/bundle.sh made on another machine
  --out FILE    the table; default gpu-results.md in build/gpu, or in the bundle. What failing checks and the profiler
                printed is kept in FILE.log
  --all         all parts
  --parts LIST  these parts, divided by commas
  --small       a small part of everything, to try this script
TEXT
}

fail() {
  echo "tests/gpu/run.sh: $*" >&2
  exit 1
}
names=$(printf '%s\n' "${parts[@]}" | sed 's/ .*//')

bin='' bundle='' out='' small=0 wanted=$(head -n "$quick_parts" <<<"$names")
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --bin | --bundle | --out | --parts)
      [[ -n ${2-} ]] || fail "$1 takes an argument; see tests/gpu/run.sh --help."
      if [[ $1 == --parts ]]; then
        wanted=${2//,/$'\n'}
      else
        declare "${1#--}=$2"
      fi
      shift 2
      ;;
    --all)
      wanted=$names
      shift
      ;;
    --small)
      small=1
      shift
      ;;
    *) fail "unknown argument '$1'; see tests/gpu/run.sh --help." ;;
  esac
done
for part in $wanted; do
  grep -q -x -F "$part" <<<"$names" || fail "there is no part '$part'; the parts are: ${names//$'\n'/ }."
done

if [[ -n $bundle ]]; then
  bundle=$(cd "$bundle" && pwd) || fail "there is no folder $bundle; tests/gpu/bundle.sh makes one."
  bin=$bundle/bin
  # The bundle's own glibc, where the machine's is older than that of the machine that packed.
  "$bin/coconet" --help >/dev/null 2>&1 || bin=$bundle/own_glibc/bin
  said=$("$bin/coconet" --help 2>&1) || fail "$bin/coconet does not start: $(tail -n 1 <<<"$said")"
  export PATH=$bin:$PATH  # Open MPI's mpirun
  : "${out:=$bundle/gpu-results.md}"
elif [[ -z $bin ]]; then
  "$root/tests/gpu/build.sh"
  bin=$root/build/gpu/bin
fi
[[ -x $bin/coconet ]] || fail "there is no $bin/coconet; leave --bin away to build it."
[[ -x $bin/bench_gpu ]] || fail "there is no $bin/bench_gpu (target gpu); leave --bin away to build it."
bin=$(cd "$bin" && pwd)
: "${out:=$root/build/gpu/gpu-results.md}"
mkdir -p "$(dirname "$out")"
out=$(cd "$(dirname "$out")" && pwd)/$(basename "$out")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$out.log rows=$work/rows times=$work/times failures=$work/failures doctor=$work/doctor outcomes=$work/outcomes
rm -f "$log"
: | tee "$rows" >"$times"
# One GPU, so that ranks share it; some parts take all.
all_gpus=${CUDA_VISIBLE_DEVICES-}
one_gpu=${CUDA_VISIBLE_DEVICES:-0}
one_gpu=${one_gpu%%,*}
export root bin out small work log rows times failures doctor outcomes all_gpus one_gpu
export COCONET_BACKEND=cuda COCONET_CACHE_DIR=$work/cache COCONET_CACHE=rw
unset COCONET_GRAPH COCONET_ARCH COCONET_DUMP_DIR COCONET_LINE_INFO

timeout 60 "$bin/coconet" doctor >"$doctor" 2>&1 || true
gpu=$(sed -n 's/^\[ok\] GPU  *//p' "$doctor" | head -n 1)
[[ -n $gpu ]] ||
  fail "there is no GPU to use: $(sed -n 's/^\[--\] \(CUDA driver\|GPU\)  *//p' "$doctor" | head -n 1); 'coconet doctor' says more."
export CUDA_VISIBLE_DEVICES=$one_gpu

write_table() {
  {
    printf '# Results on %s\n\n' "$gpu"
    ((small == 0)) || printf 'A small part of everything, to try the script.\n\n'
    printf '| step | result |\n|---|---|\n'
    cat "$rows"
    if [[ -s $times ]]; then
      printf '\n| what | size | result | peer | ratio | target |\n|---|---|---|---|---|---|\n'
      cat "$times"
      printf '\nTargets missed: %s of %s.\n' "$(grep -c ': FAIL |$' "$times" || true)" \
        "$(grep -c -E ': (pass|FAIL) \|$' "$times" || true)"
    fi
  } >"$out.new"
  mv "$out.new" "$out"
}
# result WHAT TEXT: a row of this script's own.
result() {
  echo "| $1 | $2 |" | tee -a "$rows"
}
write_table

while read -r part seconds _; do
  grep -q -x -F "$part" <<<"$wanted" || continue
  began=$SECONDS code=0
  # A part plans its own end a little before it is stopped.
  deadline=$(($(date +%s) + seconds - 3)) timeout --kill-after=5 "$seconds" \
    bash "$root/tests/gpu/parts/$part.sh" </dev/null 2>"$work/errors" || code=$?
  if ((code == 124 || code == 137)); then
    : >"$failures"
    result "part $part" "FAILED: stopped after $seconds s; what it had by then is above"
  elif ((code != 0)); then
    : >"$failures"
    result "part $part" "FAILED: ended with code $code: $(tail -n 1 "$work/errors" | tr '|' '/' | cut -c 1-300)"
  else
    result "part $part" "$((SECONDS - began)) s"
  fi
  write_table
done < <(printf '%s\n' "${parts[@]}")
echo "The table is in $out; $([[ -e $failures ]] && echo "a check FAILED" || echo "no check failed")."
[[ ! -e $failures ]]
