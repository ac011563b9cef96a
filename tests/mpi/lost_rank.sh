#!/usr/bin/env bash
# A process that stops inside a kernel with mailboxes, as one that a debugger holds: the others end
# the job with the reason.
# Usage: lost_rank.sh DIRECTORY_OF_THE_PROGRAMS
set -euo pipefail
bin=$1
# shellcheck source=tests/mpi/launch/run_job.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/run_job.sh"
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 COCONET_TIMEOUT_S=5 COCONET_CACHE=off
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Stands in for the compiler of kernels: rank 1 stops before it looks at its mailboxes.
compiler=$("$bin/coconet" doctor | sed -n 's/^\[ok\] host compiler  *\([^ ,]*\).*/\1/p')
cat >"$work/c++" <<SCRIPT
#!/bin/sh
for source; do :; done
if [ -f "\$source" ]; then
  sed -i -e '/^constexpr int SLOTS/i extern "C" int raise(int signal);' \\
    -e '/^  DEVICE_MEMBER bool run/,/^  }/ s/^    const int rank = int(sync.rank);\$/& if (rank == 1) raise(19);/' "\$source"
fi
exec '$compiler' "\$@"
SCRIPT
chmod +x "$work/c++"
export COCONET_CXX=$work/c++

# stops KNOBS NUMBER: the job of an algorithm and a protocol, and what it says.
stops() {
  local knobs=$1 log=$work/log.$2 code=0
  read -r COCONET_ALGORITHM COCONET_PROTOCOL <<<"$knobs"
  export COCONET_ALGORITHM COCONET_PROTOCOL
  run_job 60 -n 3 "$bin/coconet" run sgd --schedule fused --set n=20000 >"$log" 2>&1 || code=$?
  if ((code == 0 || code == 124)) ||
    ! grep -Eq "rank [02] waited in kernel 'sgd_fused' \(step 1 of 1\), block [01], to receive a chunk .* for rank .*1, which a signal or a debugger has stopped" "$log"; then
    echo "lost_rank.sh: with $knobs the job ended with $code and not with the reason:" >&2
    cat "$log" >&2
    return 1
  fi
}

# Beside each other: a busy machine keeps healthy ranks, too, so that they have seconds.
jobs=()
for knobs in "direct ll" "ring simple" "tree ll128"; do
  stops "$knobs" ${#jobs[@]} &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
echo "lost_rank.sh: all checks passed"
