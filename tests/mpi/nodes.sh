#!/bin/bash
# Worlds of several nodes, which COCONET_HOST_ID makes of the processes of one machine: what worlds
# do, what goes wrong, and steps that are fused inside the nodes.
# Usage: nodes.sh DIRECTORY_OF_THE_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"

# fault NODES NAME: a case of what goes wrong.
fault() {
  echo "== $2 on $1"
  on "$1" "$tests" "[$2]" --warn NoTests --use-colour no
}
stopped_in_mpi() {
  local code=0 log=$work/stopped
  echo "== stopped-in-mpi on ab"
  on ab "$tests" "[stopped-in-mpi]" --warn NoTests --use-colour no >"$log" 2>&1 || code=$?
  ((code != 0 && code != 124)) && grep -qF "rank 0 was inside MPI_Allreduce when COCONET_TIMEOUT_S had passed, 5 s; without an \
answer, as processes are that are stopped or have ended, on other nodes: rank 1. " "$log" && return
  cat "$log"
  echo "nodes.sh: the job ended with $code, and does not name the rank of another node that is stopped inside MPI" >&2
  return 1
}
for case in "ab late" "ab late-collective" "aabb late-of-four" "aabb late-for-step" "abab late-of-four"; do
  # shellcheck disable=SC2086
  COCONET_TIMEOUT_S=4 begin fault $case
done
COCONET_TIMEOUT_S=5 begin stopped_in_mpi

of_comm=(aab) of_nodes=(aabb)
[[ -z ${TESTS_ALL-} ]] || of_comm=(ab aab) of_nodes=(abb aabb abab)
for nodes in "${of_comm[@]}"; do
  echo "== every world's checks on $nodes"
  on $nodes "$tests" --filenames-as-tags "[#comm_test]" --use-colour no
done
for nodes in "${of_nodes[@]}"; do
  echo "== nodes $nodes"
  NODES=$nodes on $nodes "$tests" --filenames-as-tags "[#nodes_test]" --use-colour no
done

echo "== whether others still run"
"$tests" --filenames-as-tags "[#pulse_test]" --use-colour no

for name in broken leaves application different; do fault ab $name; done
for name in leaves-of-four different; do fault aabb $name; done

programs=(sgd momentum_sgd adam adamw lamb)
program=${programs[${TESTS_SEED:-1} % 5]}
on aabb "$bin/coconet" run "$program" --nodes 2 --schedule hierarchical --set n=1001 --check >"$work/log" 2>&1 ||
  fail "$program failed under its hierarchical schedule"
grep -q "4 ranks (mpi, 2 nodes)" "$work/log" || fail "the run does not say that there are two nodes"
grep -q "check passed" "$work/log" || fail "there was no check of $program"
on abb "$bin/coconet" run adam --schedule sliced --dtype f64 --set n=4099 --check >"$work/log" 2>&1 ||
  fail "adam failed under sliced on nodes of one and two ranks"

if on aabb "$bin/coconet" run adam --schedule fused --set n=10 >"$work/log" 2>&1; then
  fail "a kernel reached into another node"
fi
grep -q "kernel 'adam_fused' exchanges data along the mesh axis 'world', whose ranks are on several nodes (ranks 0 and 1 on \
a; ranks 2 and 3 on b), and only ranks that share memory exchange data inside a kernel; leave the collective to the library" \
  "$work/log" || fail "the refusal of a kernel across nodes is unclear"
on aabb "$bin/coconet" run adam --schedule auto --set n=10 --check >"$work/log" 2>&1 ||
  fail "adam failed without a schedule, whose kernels must stay on their nodes"
grep -q "'adam-fused-without-exchanges': ranks are on several nodes, where 'adam-fused' does not run" "$work/log" ||
  fail "it is unclear why nodes run another schedule"

# Nodes that share no directory: one compilation of each kernel for all, and both keep what was
# compiled.
kernels() { grep -lra '^kernel$' "$work/$1" | wc -l; }
COCONET_LOG=info on aabb env COCONET_CACHE_DIR="$work/@" "$bin/coconet" run adam --nodes 2 --schedule hierarchical --check \
  >"$work/log" 2>&1 || fail "kernels did not come to the other node"
[[ $(grep -c "compiled in [0-9]* ms: " "$work/log") == 2 ]] || fail "two kernels are not compiled twice"
[[ $(kernels a) == 2 && $(kernels b) == 2 ]] || fail "the nodes do not both have two kernels on disk"
# Nodes whose binaries differ: each compiles its own.
on aabb env COCONET_CACHE_DIR="$work/@" COCONET_CXXFLAGS=-DNODE_@ "$bin/coconet" run sgd --nodes 2 --schedule hierarchical \
  --check >"$work/log" 2>&1 || fail "nodes with different compilers did not find their kernels"
[[ $(kernels a) == 4 && $(kernels b) == 4 ]] || fail "a node took kernels that are not for it"
await_begun
echo "nodes.sh: all checks passed"
