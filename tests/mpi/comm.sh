#!/bin/bash
# Runs the checks of the MPI world on 2 or 3 processes, with TESTS_ALL=1 on 1 and 5, too, and what
# goes wrong.
# Usage: comm.sh DIRECTORY_OF_THE_TEST_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"

rank_counts=($((2 + ${TESTS_SEED:-1} % 2)))
[[ -z ${TESTS_ALL-} ]] || rank_counts+=(1 5)
for ranks in "${rank_counts[@]}"; do
  echo "== $ranks ranks"
  mpirun -n "$ranks" "$tests" --filenames-as-tags "[#comm_test],[#by_mpi_test],[#communicator_test],[#states_test]" --use-colour no
done

for fault in broken leaves forks finalized application funneled funneled-late; do
  echo "== $fault"
  mpirun -n 2 "$tests" "[$fault]" --warn NoTests --use-colour no
done
echo "== stopped-in-mpi"
code=0
COCONET_TIMEOUT_S=5 run_job 60 -n 2 "$tests" "[stopped-in-mpi]" --warn NoTests --use-colour no >"$work/log" 2>&1 || code=$?
for part in "rank 0 was inside MPI_Allreduce when COCONET_TIMEOUT_S had passed, 5 s; stopped by a signal or a debugger: rank 1" \
  "rank 0 has printed this before"; do
  if ((code == 0 || code == 124)) || ! grep -qF "$part" "$work/log"; then
    fail "the job ended with $code, and does not say \"$part\":"
  fi
done
echo "== shrinks"
mpirun -n 3 "$tests" "[shrinks]" --warn NoTests --use-colour no
echo "== missing"
COCONET_TIMEOUT_S=4 mpirun -n 3 "$tests" "[missing]" --warn NoTests --use-colour no
for fault in late late-collective; do
  echo "== $fault"
  COCONET_TIMEOUT_S=4 mpirun -n 2 "$tests" "[$fault]" --warn NoTests --use-colour no
done
