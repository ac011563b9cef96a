#!/bin/bash
# With a warm cache, no compiler is started or loaded, and the first step of a job comes soon after
# MPI itself is up: measures interleaved runs of startup_test.cpp and fails when the difference is
# beyond what a noisy machine explains.
# Usage: startup.sh DIRECTORY_OF_THE_TEST_PROGRAMS [RUNS]
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"
runs=${2:-11}
most=20  # ms; a quiet machine needs 1 to 4

export COCONET_DUMP_DIR=

# A compiler that writes down every start. A program, not a script: whom a script stands for has to
# be asked every time.
compiler=$("$bin/coconet" doctor | sed -n 's/^\[ok\] host compiler  *\([^ ,]*\).*/\1/p')
cat >"$work/compiler.cpp" <<PROGRAM
#include <fcntl.h>
#include <unistd.h>
int main(int, char** argv) {
  const int log = open("$work/starts", O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (write(log, "start\n", 6) != 6) return 1;
  char name[] = "$compiler";
  argv[0] = name;  // next to which it looks for its parts
  execv(name, argv);
  return 1;
}
PROGRAM
"$compiler" -o "$work/c++" "$work/compiler.cpp"

# warm NAME: compiles, and then expects that the next start does without a compiler and without
# NVRTC.
loads() { grep -c "calling init.*libnvrtc" "$1" || true; }
warm() {
  rm -f "$work/starts"
  export COCONET_CXX=$work/c++ COCONET_CACHE_DIR=$work/$1
  local run=("$bin/coconet" run lamb --schedule unfused --world self --set n=100 --iters 1)
  LD_DEBUG=files "${run[@]}" --json "$work/cold.json" 2>"$work/cold.files" >/dev/null
  cold="$(cat "$work/starts" 2>/dev/null | wc -l) $(loads "$work/cold.files")"
  rm -f "$work/starts"
  LD_DEBUG=files "${run[@]}" --json "$work/warm.json" 2>"$work/warm.files" >/dev/null
  if [[ -e $work/starts || $(loads "$work/warm.files") != 0 ]] || ! grep -q '"miss": 0' "$work/warm.json"; then
    fail "a warm start ($1) starts a compiler or loads NVRTC"
  fi
  unset COCONET_CXX
}
warm host
[[ ${cold% *} -gt 3 ]] || fail "a cold start does not show (compilers started, NVRTC loaded: $cold)"
echo "a warm start does without a compiler, a cold one starts it ${cold% *} times"
stubs=$bin/../tests/stubs
if [[ -d $stubs/nvrtc ]]; then
  COCONET_BACKEND=cuda COCONET_CUDA_PATH=$stubs:$stubs/nvrtc warm cuda
  [[ ${cold#* } == 1 ]] || fail "a cold start does not show (compilers started, NVRTC loaded: $cold)"
  echo "a warm start on the emulated GPU does without NVRTC, a cold one loads it"
fi
[[ -n ${TESTS_ALL-} ]] || exit 0  # figures are for a run that takes its time
export COCONET_CACHE_DIR=$work/cache

job() { LAUNCHED=$EPOCHREALTIME mpirun -n 2 "$tests" --use-colour no "[.$1]" | grep -x "[0-9.]\+"; }

job step >/dev/null  # compiles
for ((run = 0; run < runs; ++run)); do
  job bare >>"$work/bare"
  job step >>"$work/step"
done

# nth FILE N: the N-th smallest.
nth() { sort -n "$work/$1" | sed -n "$2p"; }
minus() { awk "BEGIN { printf \"%.1f\", $1 - $2 }"; }
middle=$(((runs + 1) / 2))
median=$(minus "$(nth step $middle)" "$(nth bare $middle)")
best=$(minus "$(nth step 1)" "$(nth bare 1)")
echo "medians of $runs: MPI is up $(nth bare $middle) ms after the launch, and the first step done $median ms later;" \
  "of the best runs $best ms later"
# Noise comes on top: where the best run is good, the rest is the machine's.
awk "BEGIN { exit !($median <= $most || $best <= $most) }" || fail "that is more than $most ms"
