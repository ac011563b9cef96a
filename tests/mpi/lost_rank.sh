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
export OMPI_MCA_rmaps_base_oversubscribe=1 COCONET_TIMEOUT_S=1 COCONET_CACHE=off
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

for knobs in "direct ll" "ring simple" "tree ll128"; do
  read -r COCONET_ALGORITHM COCONET_PROTOCOL <<<"$knobs"
  export COCONET_ALGORITHM COCONET_PROTOCOL
  code=0
  run_job 60 -n 3 "$bin/coconet" run sgd --schedule fused --set n=20000 >"$work/log" 2>&1 || code=$?
  if ((code == 0 || code == 124)) ||
    ! grep -Eq "rank [02] waited in kernel 'sgd_fused' \(step 1 of 1\), block [01], to receive a chunk .* for rank .*1, which a signal or a debugger has stopped" "$work/log"; then
    echo "lost_rank.sh: with $knobs the job ended with $code and not with the reason:" >&2
    cat "$work/log" >&2
    exit 1
  fi
done
echo "lost_rank.sh: all checks passed"
