#!/bin/bash
# With a warm cache, the first step of a job comes soon after MPI itself is up: prints the medians of interleaved runs
# of startup_mpi, and fails when the difference is beyond what a noisy machine explains.
# Usage: startup.sh DIRECTORY_OF_THE_TEST_PROGRAMS [RUNS]
set -euo pipefail
bin=$1
runs=${2:-11}
most=60  # ms; a quiet machine needs less than 20

export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export COCONET_DUMP_DIR=
COCONET_CACHE_DIR=$(mktemp -d)
export COCONET_CACHE_DIR
trap 'rm -rf "$COCONET_CACHE_DIR"' EXIT

job() { LAUNCHED=$EPOCHREALTIME mpirun -n 2 "$bin/startup_mpi" "$1"; }
median() { sort -n | sed -n "$(((runs + 1) / 2))p"; }

job step >/dev/null  # compiles
for ((run = 0; run < runs; ++run)); do
  job bare >>"$COCONET_CACHE_DIR/bare"
  job step >>"$COCONET_CACHE_DIR/step"
done
bare=$(median <"$COCONET_CACHE_DIR/bare")
step=$(median <"$COCONET_CACHE_DIR/step")
late=$(awk "BEGIN { printf \"%.1f\", $step - $bare }")
echo "from the launch to MPI being up: $bare ms; to the first step done: $step ms; $late ms later"
awk "BEGIN { exit !($late <= $most) }" || {
  echo "FAILED: that is more than $most ms"
  exit 1
}
