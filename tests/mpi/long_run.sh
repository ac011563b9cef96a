#!/usr/bin/env bash
# Long runs of several processes: nothing grows, and nothing is left when they have ended.
# Usage: long_run.sh DIRECTORY_OF_THE_PROGRAMS
set -euo pipefail
tests=$(dirname "$1")/tests/tests_mpi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

segments() { find /dev/shm -maxdepth 1 -name 'coconet*' | wc -l; }
before=$(segments)
TMPDIR=$work mpirun -n 2 "$tests" --filenames-as-tags "[#long_run_test]" --use-colour no -d yes
left=$(find "$work" -name 'coconet*')
[[ -z $left && $(segments) -le $before ]] || {
  echo "long_run.sh: a job that ended has left files: $left; segments: $before before, $(segments) after" >&2
  exit 1
}
