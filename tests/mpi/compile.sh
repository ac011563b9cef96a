#!/usr/bin/env bash
# Who compiles: one rank of a job for each key, also where every rank has a cache of its own; one of
# many processes that start at once; nobody where all is there. And what becomes of a job whose
# compiling rank is lost.
# Usage: compile.sh DIRECTORY_OF_THE_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"
export COCONET_DUMP_DIR=
ranks=8
kernels=5

fail() {
  echo "compile.sh: $*" >&2
  tail -n 40 "$work"/log "$work"/results/* >&2 || true
  exit 1
}

# The compiler, behind a script that counts: how often it was started for a kernel, and how many ran
# at once.
compiler=$("$bin/coconet" doctor | sed -n 's/^\[ok\] host compiler  *\([^ ,]*\).*/\1/p')
cat >"$work/c++" <<SCRIPT
#!/bin/bash
case " \$* " in *" -o "*) ;; *) exec '$compiler' "\$@" ;; esac
echo start >>'$work/starts'
if [ "\$OMPI_COMM_WORLD_RANK" = "\$LOST_RANK" ] && [ -n "\$LOST_RANK" ]; then
  # The job is above the process that watches over its compilers.
  kill "-\$LOST_BY" "\$(awk '\$1 == "PPid:" { print \$2 }' /proc/\$PPID/status)"
  exit 1
fi
: >"$work/running/\$\$"
running=('$work'/running/*)
echo \${#running[@]} >>'$work/at_once'
'$compiler' "\$@"
code=\$?
rm "$work/running/\$\$"
exit \$code
SCRIPT
chmod +x "$work/c++"
export COCONET_CXX=$work/c++

# fresh: nothing is counted yet.
fresh() {
  rm -rf "$work"/{results,running,starts,at_once,log}
  mkdir "$work/results" "$work/running"
  touch "$work/starts" "$work/at_once"
}
starts() { wc -l <"$work/starts"; }
# job ARGUMENTS...: the case of compile_test.cpp on all ranks.
job() {
  fresh
  run_job 120 -n $ranks "$@" env CACHES="$work/caches" RESULTS="$work/results" "$tests" "[.compile]" >"$work/log" 2>&1
}
# sum NAME: over what the ranks wrote.
sum() { cat "$work"/results/* | sed -n "s/.*\b$1 \([0-9]*\).*/\1/p" | awk '{ total += $1 } END { print total + 0 }'; }
entries() { { grep -lra '^kernel$' "$1" || true; } | wc -l; }
# expect WHAT NUMBER EXPECTED
expect() { (($2 == $3)) || fail "$1: $2, not $3"; }

echo "== $ranks ranks with $ranks empty caches compile each of $kernels kernels once"
job || fail "the job failed"
expect "starts of the compiler" "$(starts)" $kernels
expect "kernels compiled" "$(sum miss)" $kernels
expect "kernels from peers" "$(sum peer)" $((ranks * kernels - kernels))
for ((rank = 0; rank < ranks; ++rank)); do
  expect "entries of rank $rank" "$(entries "$work/caches/$rank")" $kernels
done
compiling=$(cat "$work"/results/* | grep -vc 'miss 0')
expect "ranks that compiled" "$compiling" $kernels

echo "== the next job finds them"
job || fail "the job failed"
expect "starts of the compiler" "$(starts)" 0
expect "kernels from disk" "$(sum disk)" $kernels
expect "kernels from peers" "$(sum peer)" $((ranks * kernels - kernels))

echo "== also where only one rank still has them"
rm -rf "$work"/caches/[0-68-9]
job || fail "the job failed"
expect "starts of the compiler" "$(starts)" 0
expect "kernels compiled" "$(sum miss)" 0
expect "entries of rank 0" "$(entries "$work/caches/0")" $kernels

# One that ended is noticed at once. Of one that is stopped the others say so when COCONET_TIMEOUT_S, and twice
# COCONET_COMPILE_TIMEOUT_S, have passed, which a busy machine must not keep healthy ranks for.
for by in KILL ${TESTS_ALL:+STOP}; do
  export COCONET_TIMEOUT_S=60 COCONET_COMPILE_TIMEOUT_S=60
  [[ $by == KILL ]] || export COCONET_TIMEOUT_S=10 COCONET_COMPILE_TIMEOUT_S=10
  echo "== the rank that compiles is lost in mid-compile, by SIG$by: the others say so in time"
  rm -rf "$work/caches"
  begin=$SECONDS
  export LOST_RANK=2 LOST_BY=$by
  why="whose process has ended" told=0
  [[ $by == KILL ]] || why="which a signal or a debugger has stopped"
  # Without recovery mpirun ends the others as soon as one is killed; with it, it waits for one that
  # is stopped.
  if [[ $by == KILL ]]; then job --enable-recovery || true; else job || true; fi
  unset LOST_RANK LOST_BY
  for ((rank = 0; rank < ranks; ++rank)); do
    ((rank == 2)) && continue
    # One that still compiles when the others end is ended by mpirun.
    [[ $by == KILL || -e $work/results/$rank ]] || continue
    grep -qE "^error rank $rank (waited in barrier for rank 2, $why|was inside MPI_[A-Za-z]+ when the process of rank 2 had ended)" \
      "$work/results/$rank" ||
      fail "rank $rank does not say what happened"
    told=$((told + 1))
  done
  ((told > 0)) || fail "nobody says what happened"
  ((SECONDS - begin < 60)) || [[ -z ${TESTS_ALL-} ]] || fail "that took $((SECONDS - begin)) s"
done
unset COCONET_TIMEOUT_S COCONET_COMPILE_TIMEOUT_S

# processes COUNT FLAGS: as many runs at once that share a directory; a @ in FLAGS is the process's
# number.
processes() {
  fresh
  local pids=() process
  for ((process = 0; process < $1; ++process)); do
    COCONET_CACHE_DIR=$work/shared COCONET_CXXFLAGS=${2//@/$process} "$bin/coconet" run sgd --schedule unfused --set n=100 \
      --world self --check --json "$work/results/$process" >>"$work/log" 2>&1 &
    pids+=($!)
  done
  for process in "${!pids[@]}"; do
    wait "${pids[process]}" ||
      fail "process $process failed with code $?: $(grep -avE '^(kernel|sgd|step|median|check passed)' "$work/log")"
  done
}
counted() { grep -ho "\"$1\": [0-9]*" "$work"/results/* | awk '{ total += $2 } END { print total + 0 }'; }

echo "== 64 processes race on one cold key"
processes 64 "-O1"
expect "starts of the compiler" "$(starts)" 1
expect "kernels compiled" "$(counted miss)" 1
expect "kernels from disk" "$(counted hit_disk)" 63

echo "== 64 processes with 64 keys: 3 compilers at once"
COCONET_JIT_JOBS=3 processes 64 "-O1 -DPROCESS=@"
expect "starts of the compiler" "$(starts)" 64
expect "compilers at once" "$(sort -n "$work/at_once" | tail -n 1)" 3

echo "compile.sh: all checks passed"
