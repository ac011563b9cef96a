#!/bin/bash
# With a warm cache, the first step of a job comes soon after MPI itself is up: measures interleaved runs of startup_mpi
# and fails when the difference is beyond what a noisy machine explains.
# Usage: startup.sh DIRECTORY_OF_THE_TEST_PROGRAMS [RUNS]
set -euo pipefail
bin=$1
runs=${2:-11}
most=20  # ms; a quiet machine needs 1 to 4

export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export COCONET_DUMP_DIR=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COCONET_CACHE_DIR=$work/cache

job() { LAUNCHED=$EPOCHREALTIME mpirun -n 2 "$bin/startup_mpi" "$1"; }

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
awk "BEGIN { exit !($median <= $most || $best <= $most) }" || {
  echo "FAILED: that is more than $most ms"
  exit 1
}
