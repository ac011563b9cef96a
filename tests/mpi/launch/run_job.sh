# run_job SECONDS ARGUMENTS...: mpirun with a limit. Its exit code, or 124 where ranks still run after that long.
#
# A job has ended once its ranks have, with 1 where mpirun is still there 5 seconds later. When a job fails on a busy
# machine, the mpirun of Open MPI 4.1.4 with PMIx 4.2.2 sometimes hangs as it exits: its main thread waits in
# PMIx_server_finalize for PMIx's event thread, which waits for a lock.
run_job() {
  local limit=$1 code=124 started=false quiet=0 tick mpirun
  shift
  mpirun "$@" &
  mpirun=$!
  for ((tick = 0; tick < 10 * limit; ++tick)); do
    kill -0 "$mpirun" 2>/dev/null || break
    if has_ranks "$mpirun"; then
      started=true quiet=0
    elif $started && ((++quiet == 50)); then
      code=1
      break
    fi
    sleep 0.1
  done
  if kill -0 "$mpirun" 2>/dev/null; then
    # shellcheck disable=SC2046
    kill -KILL $(cat /proc/"$mpirun"/task/*/children 2>/dev/null) "$mpirun" 2>/dev/null || true
    wait "$mpirun" 2>/dev/null || true
    return "$code"
  fi
  wait "$mpirun"
}

# has_ranks MPIRUN: whether one of its children runs, or is stopped.
has_ranks() {
  local file children child stat
  for file in /proc/"$1"/task/*/children; do
    read -r -a children <"$file" || true
    for child in "${children[@]}"; do
      read -r stat <"/proc/$child/stat" || continue
      [[ $stat == *") Z "* ]] || return 0
    done
  done 2>/dev/null
  return 1
}
