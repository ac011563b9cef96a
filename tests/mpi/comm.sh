#!/bin/bash
# Runs the checks of the MPI world on 2 or 3 processes, with TESTS_ALL=1 on 1 and 5, too, and what
# goes wrong.
# Usage: comm.sh DIRECTORY_OF_THE_TEST_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"

# fault RANKS NAME: a case of what goes wrong.
fault() {
  echo "== $2"
  mpirun -n "$1" "$tests" "[$2]" --warn NoTests --use-colour no
}
stopped_in_mpi() {
  local code=0 log=$work/stopped part
  echo "== stopped-in-mpi"
  run_job 60 -n 2 "$tests" "[stopped-in-mpi]" --warn NoTests --use-colour no >"$log" 2>&1 || code=$?
  for part in "rank 0 was inside MPI_Allreduce when COCONET_TIMEOUT_S had passed, 5 s; stopped by a signal or a debugger: rank 1" \
    "rank 0 has printed this before"; do
    if ((code == 0 || code == 124)) || ! grep -qF "$part" "$log"; then
      cat "$log"
      echo "comm.sh: the job ended with $code, and does not say \"$part\"" >&2
      return 1
    fi
  done
}
for case in "3 missing" "2 late" "2 late-collective"; do
  # shellcheck disable=SC2086
  COCONET_TIMEOUT_S=4 begin fault $case
done
COCONET_TIMEOUT_S=5 begin stopped_in_mpi

rank_counts=($((2 + ${TESTS_SEED:-1} % 2)))
[[ -z ${TESTS_ALL-} ]] || rank_counts+=(1 5)
for ranks in "${rank_counts[@]}"; do
  echo "== $ranks ranks"
  mpirun -n "$ranks" "$tests" --filenames-as-tags "[#comm_test],[#by_mpi_test],[#communicator_test],[#states_test]" --use-colour no
done

for name in broken leaves forks finalized application funneled funneled-late; do fault 2 $name; done
fault 3 shrinks
await_begun
