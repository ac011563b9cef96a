#!/usr/bin/env bash
# Long runs of several processes: nothing grows, and nothing is left when they have ended.
# Usage: long_run.sh DIRECTORY_OF_THE_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"

segments() { find /dev/shm -maxdepth 1 -name 'coconet*' | wc -l; }
before=$(segments)
TMPDIR=$work mpirun -n 2 "$tests" --filenames-as-tags "[#long_run_test]" --use-colour no -d yes
left=$(find "$work" -name 'coconet*')
[[ -z $left && $(segments) -le $before ]] ||
  fail "a job that ended has left files: $left; segments: $before before, $(segments) after"
