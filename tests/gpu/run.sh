#!/usr/bin/env bash
# Checks and measures the library on this machine's NVIDIA GPUs, part by part: tests/gpu/run.sh --help
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# A part, the call of tests/gpu/first.sh that it belongs to, the seconds that it may take, and what it does.
parts=(
  "machine A 40 what 'coconet doctor' finds, what a copy moves, and one run"
  "graphs A 75 80 steps replayed as graphs: fused and unfused Adam on 4 ranks, and every other kind of plan"
  "probes A 35 whether kernels that wait for each other run at once; barriers of 2, 4 and 8 ranks"
  "sample A 75 a sample of conformance: shipped programs, exchanges, and cases of the suites of tests/jit"
  "times A 120 Adam and LAMB beside a copy and torch's fused Adam, the launch of a step, matmuls beside cuBLASLt's"
  "mpi B 45 2 and 4 processes on one GPU"
  "bias B 20 a row of 64 added to 2^20 rows, beside a copy"
  "overlap B 40 blocks of transformers, overlapped and not"
  "counters B 60 what ncu's counters say of fused kernels"
  "sanitizer B 75 compute-sanitizer's memcheck, racecheck and synccheck"
  "conformance - 300 every shipped program, schedule and float type on 1 to 8 ranks of one GPU, and whole suites"
  "gpus - 150 the same with a rank a GPU, its library collectives by NCCL, and through the switch"
  "bench - 900 all of bench/gpu.sh"
)
# Seconds that 'coconet doctor' may take before the first part, and a part to end when its time is over.
doctor_seconds=40 grace=3

# parts_of CALL...: the parts of the calls.
parts_of() {
  local call
  for call in "$@"; do
    printf '%s\n' "${parts[@]}" | sed -n "s/^\([a-z]*\) $call .*/\1/p"
  done
}
# most_of PART...: the seconds that a run of the parts may take.
most_of() {
  local sum=$doctor_seconds part
  for part in "$@"; do
    sum=$((sum + grace + $(printf '%s\n' "${parts[@]}" | sed -n "s/^$part [AB-] \([0-9]*\) .*/\1/p")))
  done
  echo "$sum"
}

usage() {
  # shellcheck disable=SC2046 # names
  cat <<TEXT
usage: tests/gpu/run.sh [--bin DIR | --bundle DIR] [--out FILE] [--call A|B | --parts LIST | --all] [--small] [--slack N]

Checks and measures in parts, each with its own limit of time: one that hangs or crashes loses only itself, and what it has
started is ended with it. Rows are printed as they come, and the table, in Markdown, is rewritten after each part.
By default the parts of the calls A and B run, which are those of tests/gpu/first.sh, the most telling first.
At most, call A takes $(most_of $(parts_of A)) s and call B takes $(most_of $(parts_of B)) s.
$(printf '  %s\n' "${parts[@]}" | sed 's/^  \([a-z]*\) \([AB-]\) \([0-9]*\) \(.*\)/  \1\t\2\t\3 s\t\4/' | expand -t 16,20,28)
What is not there is 'not measured', with the reason. The exit code is 1 when a check failed or there is no GPU; a missed
target of a time is in the table and does not count. Kernels say who waited for whom after COCONET_TIMEOUT_S, by default 10
here, and 30 under NVIDIA's tools. Without --bin and --bundle it builds into build/gpu first, with what the machine has (no
network, MPI, Catch2 or root is needed).

  --bin DIR     the bin folder of an existing build
  --bundle DIR  a folder that tests/gpu/bundle.sh made on another machine
  --out FILE    the table; default gpu-results.md in build/gpu, or in the bundle. What failing checks and the profiler
                printed is kept in FILE.log
  --call A|B    the parts of one call
  --parts LIST  these parts, divided by commas
  --all         all parts
  --small       a small part of everything, to try this script
  --slack N     limits of time N times as long, as for an emulated GPU
TEXT
}

fail() {
  echo "tests/gpu/run.sh: $*" >&2
  exit 1
}
names=$(printf '%s\n' "${parts[@]}" | sed 's/ .*//')

bin='' bundle='' out='' small=0 slack=1 wanted=$(parts_of A B)
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --bin | --bundle | --out | --parts | --call | --slack)
      [[ -n ${2-} ]] || fail "$1 takes an argument; see tests/gpu/run.sh --help."
      case $1 in
        --parts) wanted=${2//,/$'\n'} ;;
        --call)
          [[ $2 == [AB] ]] || fail "--call takes A or B, and got '$2'."
          wanted=$(parts_of "$2")
          ;;
        --slack)
          [[ $2 =~ ^[1-9][0-9]?$ ]] || fail "--slack takes a number from 1 to 99, and got '$2'."
          slack=$2
          ;;
        *) declare "${1#--}=$2" ;;
      esac
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
# What has been found so far lies beside the table, also when this script is killed.
log=$out.log rows=$out.rows times=$out.times
failures=$work/failures doctor=$work/doctor outcomes=$work/outcomes
rm -f "$log"
# One GPU, so that ranks share it; some parts take all.
all_gpus=${CUDA_VISIBLE_DEVICES-}
one_gpu=${CUDA_VISIBLE_DEVICES:-0}
one_gpu=${one_gpu%%,*}
patience=${COCONET_TIMEOUT_S-}
export root bin out small slack work log rows times failures doctor outcomes all_gpus one_gpu patience
export COCONET_BACKEND=cuda COCONET_CACHE_DIR=$work/cache COCONET_CACHE=rw COCONET_TIMEOUT_S=${patience:-10}
unset COCONET_GRAPH COCONET_ARCH COCONET_DUMP_DIR COCONET_LINE_INFO

# start NAME SECONDS COMMAND...: in the background, with a mark that all it starts inherit.
start() {
  local name=$1 seconds=$2
  shift 2
  GPU_PART="$$ $name" timeout --kill-after=$((grace - 1)) "$seconds" "$@" </dev/null &
}
# end NAME: ends what is left of it. A timeout of a check is a process group of its own, which no signal to the part
# reaches.
end() {
  local file
  { grep -l -z -x -F "GPU_PART=$$ $1" /proc/[0-9]*/environ 2>/dev/null || true; } | while read -r file; do
    kill -KILL "${file//[!0-9]/}" 2>/dev/null || true
  done
}
part=doctor
leave() {
  local name
  for name in hold torch "$part"; do
    end "$name"
  done
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A context keeps the device open: without persistence the driver initialises it anew for every process. PyTorch, whose
# import takes long on a cold disk, gets ready beside the first parts.
# shellcheck disable=SC2086 # names
most=$((slack * $(most_of $wanted)))
start hold "$most" "$bin/bench_gpu" hold >"$work/hold" 2>&1
holder=$!
export holder
disown "$holder"
if grep -q -x times <<<"$wanted"; then
  {
    code=0
    start torch "$most" "$root/bench/gpu_torch_adam.py" --when "$work/torch.go" >"$work/torch" 2>"$work/torch.said"
    wait "$!" || code=$?
    echo "$code" >"$work/torch.new"
    mv "$work/torch.new" "$work/torch.code"
  } 2>/dev/null &
fi

code=0 doctor_seconds=$((doctor_seconds * slack))
start doctor "$doctor_seconds" "$bin/coconet" doctor >"$doctor" 2>&1
wait "$!" || code=$?
gpu=$(sed -n 's/^\[ok\] GPU  *//p' "$doctor" | head -n 1)
if ((code == 124 || code == 137)); then
  : >"$failures"
  gpu="a GPU that 'coconet doctor' did not describe in $doctor_seconds s"
  end doctor
fi
why=$(sed -n 's/^\[--\] \(CUDA driver\|GPU\)  *//p' "$doctor" | head -n 1)
[[ -n $gpu ]] || fail "there is no GPU to use: ${why:-the doctor ended with $code}; 'coconet doctor' says more."
: | tee "$rows" >"$times"
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

while read -r part _ seconds _; do
  grep -q -x -F "$part" <<<"$wanted" || continue
  seconds=$((seconds * slack))
  began=$SECONDS code=0
  # A part plans its own end a little before it is stopped.
  export deadline=$(($(date +%s) + seconds - 3))
  start "$part" "$seconds" bash "$root/tests/gpu/parts/$part.sh" 2>"$work/errors"
  wait "$!" || code=$?
  end "$part"
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
rm -f "$rows" "$times"
echo "The table is in $out; $([[ -e $failures ]] && echo "a check FAILED" || echo "no check failed")."
[[ ! -e $failures ]]
