#!/usr/bin/env bash
# tests/gpu/first.sh with stand-ins for all programs: nothing hangs, or those of one part of each call, which TESTS_SEED
# draws, or with TESTS_ALL=1 those of each part in turn, the doctor and PyTorch: bash first_test.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/gpu/lost_only.sh
source "$root/tests/gpu/lost_only.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "first_test.sh: $*" >&2
  exit 1
}

# What each stand-in begins with: it hangs, and takes no notice of SIGTERM, where $HANG says so. What the script had
# written by then is kept.
mkdir -p "$work/bin" "$work/tools"
cat >"$work/begin" <<'TEXT'
#!/usr/bin/env bash
part=${GPU_PART##* }
if [[ ${part:-none} == "$HANG" ]]; then
  trap '' TERM
  cp "$out" "$LEFT.table" 2>/dev/null
  cp "$rows" "$LEFT.rows" 2>/dev/null
  echo "$BASHPID" >>"$LEFT.processes"
  exec sleep 1000
fi
# Kernels are to say who waited for whom before they are stopped.
case $HANG:$part in
  nothing:counters | nothing:sanitizer) ((COCONET_TIMEOUT_S == 30)) || exit 9 ;;
  nothing:*) ((COCONET_TIMEOUT_S == 10)) || exit 9 ;;
esac
TEXT
# stand_in PATH: a program at PATH, which does what standard input says.
stand_in() {
  cat "$work/begin" - >"$1"
  chmod +x "$1"
}
stand_in "$work/bin/coconet" <<'TEXT'
case $1 in
  doctor) printf '[ok] %s  a stand-in\n' GPU 'CUDA driver' NVRTC MPI cuBLASLt ;;
  programs) printf '%s\n' 'adam unfused' 'adam fused' 'lamb fused' 'mlp_block fused' ;;
  run)
    [[ $part != graphs || $COCONET_GRAPH$* == on*' --iters 80 --check '* ]] || exit 8
    echo 'check passed'
    ;;
esac
TEXT
stand_in "$work/bin/bench_gpu" <<'TEXT'
[[ $1 != hold ]] || exec sleep 1000
echo "| $* | $([[ $2 != --torch ]] || paste -sd ' ' "$3") |"
TEXT
stand_in "$work/tools/python3" <<'TEXT'
until [[ -e $3 ]]; do sleep 0.05; done
for exponent in $(<"$3"); do echo "$exponent 0.5"; done
TEXT
stand_in "$work/tools/mpirun" <<<'echo "check passed"'
stand_in "$work/tools/nvidia-smi" <<<'echo Default'
stand_in "$work/tools/ncu" <<<'echo "\"0\",\"7\",\"dram__bytes_read.sum\",\"Mbyte\",\"1\""'
stand_in "$work/tools/compute-sanitizer" <<<'printf "check passed\nERROR SUMMARY: 0 errors\n"'

# first WHAT CALL: the table of a call where WHAT hangs, which has little time, as $work/WHAT/call-CALL.md.
first() {
  local what=$1 call=$2 tree=$work/$1/tree code=0 patience=1
  [[ $what != nothing ]] || patience=
  mkdir -p "$tree/tests" "$tree/bench"
  cp -r "$root/tests/gpu" "$tree/tests/"
  cp "$root/bench/gpu_torch_adam.py" "$tree/bench/"
  sed -i "s/^  \"$what $call [0-9]*/  \"$what $call 12/" "$tree/tests/gpu/run.sh"
  [[ $what != doctor ]] || sed -i 's/^doctor_seconds=.*/doctor_seconds=1 grace=3/' "$tree/tests/gpu/run.sh"
  [[ $what != torch ]] || sed -i 's/ + 20))/ + 1))/' "$tree/tests/gpu/parts/times.sh"
  HANG=$what LEFT=$work/$what/left PATH=$work/tools:$PATH COCONET_TIMEOUT_S=$patience CUDA_VISIBLE_DEVICES='' \
    "$tree/tests/gpu/first.sh" "$call" --bin "$work/bin" --out "$work/$what" --small >"$work/$what/said" 2>&1 || code=$?
  echo "$code" >"$work/$what/code"
}
a=(machine graphs probes sample times) b=(mpi bias overlap counters sanitizer)
drawn=$((${TESTS_SEED:-1} % 5)) others=()
hung_a=("${a[drawn]}") hung_b=("${b[drawn]}")
[[ -z ${TESTS_ALL-} ]] || hung_a=("${a[@]}") hung_b=("${b[@]}") others=('doctor A' 'torch A')
# As many at once as the machine has cores, so that none takes the time of others.
cores=$(nproc) running=0
for run in 'nothing A' "${hung_a[@]/%/ A}" "${others[@]}" "${hung_b[@]/%/ B}"; do
  ((running++ < cores)) || wait -n
  # shellcheck disable=SC2086 # two words
  first $run &
done
wait
first nothing B

# has WHAT CALL LINE...: lines that a table must have.
has() {
  local line table=$work/$1/call-$2.md
  for line in "${@:3}"; do
    grep -q -F -- "$line" "$table" ||
      fail "where '$1' hangs, the table of call $2 has no line '$line': $(cat "$table" "$work/$1/said" "$table.log" 2>/dev/null)"
  done
}
# lost WHAT CALL PART...: only WHAT is lost, and nothing is left of it; the parts are those of the call.
lost() {
  local what=$1 call=$2 part before='' process tries wrong kept
  shift 2
  (($(<"$work/$what/code") == 1)) || fail "where '$what' hangs, first.sh ends with $(<"$work/$what/code")"
  wrong=$(lost_only "$work/$what/call-$call.md" "${what/doctor/machine}" "$@") # which has what the doctor finds
  [[ -z $wrong ]] || fail "where '$what' hangs: $wrong: $(cat "$work/$what/said")"
  # What came before was written by then.
  for part in "$@"; do
    [[ $part != "$what" ]] || break
    before=$part
  done
  [[ $part != "$what" || -z $before || ! -e $work/$what/left.rows ]] || for kept in "$work/$what"/left.{table,rows}; do
    grep -q "^| part $before | [0-9]* s |$" "$kept" || fail "while '$what' hung, ${kept##*/} lacked part '$before'"
  done
  [[ -e $work/$what/left.processes ]] || return 0 # the machine was so busy that it did not come to hang
  while read -r process; do
    for ((tries = 0; tries < 1200; ++tries)); do
      grep -q -z "^LEFT=$work/$what/left" "/proc/$process/environ" 2>/dev/null || continue 2
      sleep 0.05
    done
    fail "process $process of '$what' is left"
  done <"$work/$what/left.processes"
}
for part in "${hung_a[@]}"; do lost "$part" A "${a[@]}"; done
for part in "${hung_b[@]}"; do lost "$part" B "${b[@]}"; done

for call in A B; do
  ! grep FAILED "$work/nothing/call-$call.md" || fail "something failed though nothing hangs: $(cat "$work/nothing/said")"
done
(($(<"$work/nothing/code") == 0)) || fail "first.sh ends with $(<"$work/nothing/code") though nothing failed"
has nothing A "| the device | is kept open by a process of its own |" "| optimizers --torch" "| 10 0.5 12 0.5 |" \
  "| graphs: fused adam, 80 steps on 4 ranks | 1 of 1 runs pass |" "| launch --small |" "| matmul --small |"
has nothing B "| bias --small |" "| overlap --small |" "| racecheck: fused lamb on 2 ranks | ERROR SUMMARY: 0 errors |"

if [[ -n ${TESTS_ALL-} ]]; then
  lost doctor A "${a[@]}"
  has doctor A "# Results on a GPU that 'coconet doctor' did not describe in 1 s"
  # Without PyTorch's times, all else is there.
  (($(<"$work/torch/code") == 0)) || fail "where PyTorch hangs, first.sh ends with $(<"$work/torch/code")"
  has torch A "| torch.optim.Adam(fused=True) | not measured: PyTorch was not done" "| part times | " "| matmul --small |"
fi
echo "first_test.sh: all checks passed"
