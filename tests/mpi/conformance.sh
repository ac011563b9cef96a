#!/bin/bash
# Shipped programs, schedules, dtypes and sizes against the reference, on 1 to 8 processes, in the
# quick suite on 2 to 4.
# Usage: conformance.sh DIRECTORY_OF_THE_TEST_PROGRAMS
set -euo pipefail
bin=$1
tests=$(dirname "$bin")/tests/tests_mpi

# More ranks than cores, and the root user of a container, are fine for a test.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# MPI leaks, in plugins that are unloaded by the time the leaks are reported.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

rank_counts=(2 3 4)
[[ -z ${TESTS_ALL-} ]] || rank_counts=(1 2 3 4 5 8)
for ranks in "${rank_counts[@]}"; do
  echo "== $ranks ranks"
  mpirun -n "$ranks" "$tests" --filenames-as-tags "[#conformance_test]" --use-colour no
done
