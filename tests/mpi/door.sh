#!/usr/bin/env bash
# No call of MPI that may wait for other ranks goes past the door that watches over them. With TESTS_ALL, since a busy machine may
# outrun the deadlines of healthy ranks, a rank is killed or stopped in front of each function that the library calls, in turn, on
# one node and on two: the others end with its name.
# Usage: door.sh DIRECTORY_OF_THE_PROGRAMS
set -uo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/mpi/launch/lose_rank.sh
source "$here/launch/lose_rank.sh" "$1"

# What MPI answers by itself.
local_calls='MPI_(Comm_(compare|rank|size|get_attr|set_attr|set_errhandler|create_keyval|test_inter)|Error_string|Finalized|Initialized|Get_library_version|Is_thread_main|Op_create|Query_thread)'
# Those two have a guard of their own.
guarded='MPI_(Init_thread|Finalize)'
# The calls of MPI that are neither local nor what a call through the door, which says its name, begins with.
past_the_door() {
  perl -0777 -ne 's{//[^\n]*}{}g;
    s{\b(?:call_mpi\([^;{}"]*|blocking\(\s*)"(MPI_\w+)",\s*\[&\] \{\s*return \K\1\(}{through(}g;
    while (/\b(MPI_[A-Z][a-z]\w*)\s*\(/g) {
      my $call = $1;
      next if $call =~ /^(?:'"$local_calls|$guarded"')$/;
      my $line = 1 + (substr($_, 0, pos) =~ tr/\n//);
      print "$ARGV:$line: $call\n";
    }' "$@"
}
refused=$(past_the_door <(echo 'call_mpi(one, "MPI_Test", [&] { return MPI_Test(a); }); return MPI_Test(a);
    call_mpi(one, "MPI_Test", [&] { return MPI_Wait(a); }); // MPI_Send(a)') | sed 's/.*: //' | xargs)
[[ $refused == "MPI_Test MPI_Wait" ]] || {
  echo "door.sh: the check of calls of MPI takes \"$refused\" for past the door"
  exit 1
}
past_it=$(past_the_door "$here"/../../src/jit/mpi/*.cpp "$here"/../../src/jit/mpi/*.h)
if [[ -n $past_it ]]; then
  echo "door.sh: calls of MPI that may wait for other ranks go through call_mpi, and these do not:"
  echo "$past_it"
  exit 1
fi

[[ -n ${TESTS_ALL-} ]] || {
  echo "door.sh: no call goes past the door; TESTS_ALL=1 loses a rank in front of each"
  exit 0
}
by_all=(MPI_Init_thread:0 MPI_Comm_rank:0 MPI_Comm_size:0 MPI_Comm_get_attr:0 MPI_Comm_test_inter:0 MPI_Ibarrier:0
  MPI_Test:0 MPI_Test:3 MPI_Iprobe:0 MPI_Iallgather:0 MPI_Iallgather:1 MPI_Iallgatherv:0 MPI_Iallgatherv:2 MPI_Comm_split:0
  MPI_Comm_set_errhandler:0 MPI_Comm_set_attr:0 MPI_Comm_free:0 MPI_Comm_free:1 MPI_Allreduce:0 MPI_Reduce_scatter:0
  MPI_Allgatherv:0 MPI_Gatherv:0 MPI_Gatherv:1 MPI_Alltoallv:0 MPI_Bcast:0 MPI_Reduce:0 MPI_Sendrecv:0 MPI_Finalize:0)
across=(MPI_Comm_split:1 MPI_Comm_split:2 MPI_Comm_split:3 MPI_Isend:0 MPI_Isend:5 MPI_Improbe:0 MPI_Improbe:9 MPI_Mrecv:0)
cases=()
for call in "${by_all[@]}"; do cases+=("mpi $call"); done
for call in "${across[@]}"; do cases+=("aabb $call"); done
for call in "${by_all[@]}"; do cases+=("aabb $call"); done
number=0
for case in "${cases[@]}"; do
  for by in kill stop; do
    room_for_job $(($(nproc) + 6))  # most of them wait for a deadline
    read -r kind phase <<<"$case"
    ranks=$([[ $kind == aabb ]] && echo 4 || echo 3) lost=$((number % ranks)) after=0 algorithm=direct protocol=simple
    ((++number))
    lose_rank "$work/$number" &
  done
done
# shellcheck disable=SC2154
wrong_with() {
  if ! grep -q LOST "$folder"/says.*; then
    echo "no rank came to $phase"
  elif [[ $outcome != named && ($outcome != unhurt || $phase != MPI_Finalize:0) ]]; then
    echo "$outcome"  # nobody waits for a rank whose process ends when all others have finished
  fi
}
look_at_jobs door.sh "$number" "$work"
