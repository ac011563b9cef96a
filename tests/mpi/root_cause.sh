#!/usr/bin/env bash
# Two nodes, one of whose ranks is killed or stopped: the ranks of both nodes name it, and no other, at once where its process
# has ended beside another rank, and none says that a time was over which was not. One that never comes to MPI_Init_thread is not
# taken for one of those that gave up waiting. And one node, one of whose ranks stops inside a kernel with mailboxes, as a
# debugger would stop it: the others say what they waited for.
# Usage: root_cause.sh DIRECTORY_OF_THE_PROGRAMS
set -uo pipefail
[[ -n ${TESTS_ALL-} ]] || {
  echo "skipped: a busy machine may outrun the deadlines of healthy ranks; TESTS_ALL=1 runs it"
  exit 77
}
# shellcheck source=tests/mpi/launch/lose_rank.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/lose_rank.sh" "$1"
number=0
for case in "aabb 2 stop compile 0" "aabb 2 kill compile 0" "aabb 0 stop compile 5000" "aabb 3 kill compile 5000" \
  "abb 0 stop compile 0" "aabb 2 stop run 3000" "aabb 1 kill run 3000" "aab 1 stop collectives 0" "aabb 2 kill collectives 0" "aab 2 exit save 3000" \
  "aaa 1 hang making 0" "aabb 2 hang making 0" \
  "mpi 1 stop kernel 0 direct ll" "mpi 1 stop kernel 0 ring simple" "mpi 1 stop kernel 0 tree ll128"; do
  room_for_job $(($(nproc) + 3))
  read -r kind lost by phase after algorithm protocol <<<"$case"
  algorithm=${algorithm:-direct} protocol=${protocol:-simple} ranks=${#kind}
  ((++number))
  lose_rank "$work/$number" &
done
# shellcheck disable=SC2154
wrong_with() {
  if [[ $by == kill ]] && grep -q "come within" "$folder"/says.*; then
    echo "a time is said to be over which is not"
  elif [[ $phase == kernel ]] && ! grep -Eq "kernel 'kernel' .*, to receive a chunk .* for rank 1, which a signal or a debugger" "$folder"/says.*; then
    echo "nobody says that rank 1 was waited for inside the kernel"
  elif [[ $outcome != named && ($phase != save || $outcome != unhurt) ]]; then  # a save may be over by then
    echo "$outcome"
  fi
}
look_at_jobs root_cause.sh "$number" "$work"
