#!/bin/bash
# Shipped programs, schedules, dtypes and sizes against the reference, on 1 to 8 processes, in the
# quick suite on 2 to 4.
# Usage: conformance.sh DIRECTORY_OF_THE_TEST_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"

rank_counts=(2 3 4)
[[ -z ${TESTS_ALL-} ]] || rank_counts=(1 2 3 4 5 8)
for ranks in "${rank_counts[@]}"; do
  echo "== $ranks ranks"
  mpirun -n "$ranks" "$tests" --filenames-as-tags "[#conformance_test]" --use-colour no
done
