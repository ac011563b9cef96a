#!/usr/bin/env bash
# `coconet run` under mpirun: results are checked and reported once, and errors are said once. $1:
# bin directory.
set -u
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"
failures=0

# coconet RANKS ARGUMENTS...: runs it; its exit code, output and errors are in $code, $work/out and
# $work/err.
coconet() {
  local ranks=$1
  shift
  run_job 120 --oversubscribe -n "$ranks" "$bin/coconet" "$@" >"$work/out" 2>"$work/err"
  code=$?
}

# expect WHAT COMMAND...: COMMAND must succeed.
expect() {
  local what=$1
  shift
  if "$@"; then
    echo "ok: $what"
  else
    echo "FAILED: $what (exit code $code)"
    sed 's/^/  out: /' "$work/out"
    sed 's/^/  err: /' "$work/err"
    failures=$((failures + 1))
  fi
}

# once FILE TEXT: exactly one line of FILE has TEXT.
once() { [[ $(grep -cF -- "$2" "$1") == 1 ]]; }

for ranks in 2 3; do
  for schedule in unfused sliced fused; do
    coconet "$ranks" run adam --schedule "$schedule" --set n=4099 --check
    expect "adam $schedule on $ranks ranks ends with success" test "$code" = 0
    expect "adam $schedule on $ranks ranks passes its check, said once" \
      once "$work/out" "all ranks bit-identical"
  done
done

COCONET_COLLECTIVES=mpi coconet 2 run adam --schedule sliced --set n=4099 --check
expect "adam passes its check with collectives by MPI" once "$work/out" "all ranks bit-identical"

coconet 1 run adam --schedule fused : --oversubscribe -n 1 env COCONET_HOST_THREADS=32 "$bin/coconet" run adam --schedule fused
expect "ranks with other settings end" test "$code" != 0 -a "$code" != 124
expect "and say which rank has which" grep -qF -- \
  "all ranks of a world must have the same settings, but rank 1 has COCONET_HOST_THREADS=32, and rank 0 has COCONET_HOST_THREADS=1" "$work/err"

coconet 2 run sgd --schedule fused --set n=1000 --iters 5 --json "$work/result.json"
expect "a run without --check succeeds" test "$code" = 0
for key in program schedule ranks world sizes dtype iters ms_median max_rel_error bit_identical cache hit_memory \
  hit_disk hit_peer miss kernels name kind ms bytes roofline_share; do
  expect "the JSON file has \"$key\"" grep -q "\"$key\":" "$work/result.json"
done
expect "no temporary file is left" test "$(ls "$work" | grep -c tmp)" = 0

cat >"$work/program.json" <<'JSON'
{
  "coconet_program": 1,
  "name": "add",
  "mesh": [{"name": "world", "size": 3}],
  "dims": [{"name": "n", "default": 100}],
  "values": [
    {"name": "g", "op": "input", "dtype": "f32", "shape": ["n"], "layout": "local"},
    {"name": "x", "op": "state", "dtype": "f32", "shape": ["n"], "layout": "replicated"},
    {"name": "sum", "op": "all_reduce", "operands": ["g"], "reduction": "sum", "axis": "world"},
    {"name": "next", "op": "add", "operands": ["x", "sum"]},
    {"name": "x.new", "op": "update", "operands": ["x", "next"]}
  ]
}
JSON
coconet 2 run "$work/program.json"
expect "another number of ranks than the mesh has is a wrong command line" test "$code" = 2
expect "the sentence about the mesh is said once" once "$work/err" \
  "is written for the mesh {world: 3}, which is 3 ranks, and this world has 2. Start it with mpirun -n 3"
coconet 3 run "$work/program.json" --check
expect "the file runs on as many ranks as its mesh has" test "$code" = 0

coconet 2 run adam --schedule nonsense
expect "an unknown schedule is a wrong command line" test "$code" = 2
expect "the sentence about the schedule is said once" once "$work/err" "There is no schedule 'nonsense' for adam"
coconet 2 run adam --set n=10 --json /nowhere/result.json
expect "what fails on one rank fails the job" test "$code" = 1
expect "and is said once" once "$work/err" "Cannot write the file '/nowhere/result.json' of --json"

exit $((failures > 0))
