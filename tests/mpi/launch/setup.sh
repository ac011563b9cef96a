# source setup.sh DIRECTORY_OF_THE_PROGRAMS: what the scripts of jobs begin with. Their files lie in $work, which is gone in
# the end.
# shellcheck disable=SC2034
bin=$1 tests=$(dirname "$1")/tests/tests_mpi
# shellcheck source=tests/mpi/launch/on_nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/on_nodes.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# More ranks than cores, and the root user of a container, are fine for a test.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# MPI leaks, in plugins that are unloaded by the time the leaks are reported: their stacks name no library that a suppression
# could match.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# fail WHAT: ends the script, with the log of the last job.
fail() {
  echo "$(basename "$0"): $*" >&2
  [[ ! -e $work/log ]] || cat "$work/log" >&2
  exit 1
}

# begin COMMAND...: runs COMMAND beside what comes next: a job whose time is spent waiting.
begun=()
begin() {
  "$@" >"$work/begun.${#begun[@]}" 2>&1 &
  begun+=($!)
}
# await_begun: prints what they have printed, and fails where one has failed.
await_begun() {
  local number
  for number in "${!begun[@]}"; do
    wait "${begun[number]}" || {
      cp "$work/begun.$number" "$work/log"
      fail "what ran beside the others has failed"
    }
    cat "$work/begun.$number"
  done
}
