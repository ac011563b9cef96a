# source lose_rank.sh DIRECTORY_OF_THE_PROGRAMS: jobs of tests/mpi/faulty_job_test.cpp, of which a rank is lost.
# They are run and looked at in $work, which is gone in the end.
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh" "$1"
# shellcheck source=tests/mpi/launch/look_at_jobs.sh
source "$(dirname "${BASH_SOURCE[0]}")/look_at_jobs.sh"
export COCONET_CACHE_DIR=${COCONET_CACHE_DIR:-$work/cache}
# The seconds in which the others have to end, on a busy machine.
lost_limit=150

# The seconds of COCONET_TIMEOUT_S, which a busy machine must not keep healthy ranks for. A rank that is stopped, or that has
# its node for itself, is waited for as long; of others it is noticed at once that they have ended.
timeout_of_job() {
  if [[ $by == stop || $by == hang || ($kind != mpi && $kind != from && ${kind//[^${kind:lost:1}]/} == ?) ]]; then echo 10; else echo 60; fi
}

# A compiler of kernels in which rank $lost stops before it looks at its mailboxes.
compiler_that_plants_stop() {
  local compiler
  compiler=$("$bin/coconet" doctor | sed -n 's/^\[ok\] host compiler  *\([^ ,]*\).*/\1/p')
  cat >"$1" <<SCRIPT
#!/bin/sh
for source; do :; done
if [ -f "\$source" ]; then
  sed -i -e '/^constexpr int SLOTS/i extern "C" int raise(int signal);' \\
    -e '/^  DEVICE_MEMBER bool run/,/^  }/ s/^    const int rank = int(sync.rank);\$/& if (rank == $lost) raise(19);/' "\$source"
fi
exec '$compiler' "\$@"
SCRIPT
  chmod +x "$1"
}

# lose_rank FOLDER: the job of kind $kind (mpi, from, or the nodes of the ranks, as aab) of $ranks ranks, of which $lost is lost
# by $by (kill, stop, term, exit, abort, hang) in $phase, $after us after it has begun, with kernels of $algorithm and $protocol.
# FOLDER gets says.RANK and what: kind, by, phase, rank, after, algorithm/protocol, outcome, and the seconds until the last of
# the others had ended. The outcome is "named", "unhurt" (all results are right), or what is wrong.
lose_rank() {
  local folder=$1 rank launcher pids=()
  mkdir -p "$folder"
  export JOB_FOLDER=$folder LOST_RANK=$lost LOST_BY=$by LOST_IN=$phase LOST_AFTER_US=$after JOB_ALGORITHM=$algorithm \
    JOB_PROTOCOL=$protocol COCONET_TIMEOUT_S=$(timeout_of_job) COCONET_COMPILE_TIMEOUT_S=60 COCONET_CXXFLAGS=-O0 JOB_RANKS=$ranks COCONET_CACHE=rw COCONET_TUNE=off
  [[ $phase != compile && $phase != kernel ]] || export COCONET_CACHE=off
  if [[ $phase == kernel ]]; then
    compiler_that_plants_stop "$folder/c++"
    export COCONET_CXX=$folder/c++
  fi
  [[ $phase != tune ]] || export COCONET_TUNE=on
  local job=("$tests" "[.faulty-job]" --use-colour no)
  if [[ $kind == from ]]; then
    export JOB_WORLD=from
    for ((rank = 0; rank < ranks; ++rank)); do
      JOB_RANK=$rank "${job[@]}" >"$folder/log.$rank" 2>&1 &
      pids+=($!)
    done
  else
    export JOB_WORLD=mpi
    local apps=()
    for ((rank = 0; rank < ranks; ++rank)); do
      if [[ $kind == mpi ]]; then
        apps=(-n "$ranks" "${job[@]}")
      else
        apps+=(${apps[0]:+:} -n 1 env "COCONET_HOST_ID=${kind:rank:1}" "${job[@]}")
      fi
    done
    # Others go on when one ends.
    mpirun --enable-recovery "${apps[@]}" >"$folder/log" 2>&1 &
    launcher=$!
  fi
  wait_for_others "$folder"
  end_job "$folder" "${launcher-}" "${pids[@]}"
}

# runs RANK: whether its process does, be it stopped.
runs() {
  local pid stat
  read -r pid 2>/dev/null <"$folder/pid.$1" || return 1
  { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 1
  [[ $stat != *") Z "* ]]
}

# Until all but the lost rank have ended, and that one too, where it does by itself.
wait_for_others() {
  local begin=${EPOCHREALTIME/./} rank left limit=$((lost_limit * 1000000)) lost_at=
  outcome= seconds=0 hangs=false
  while :; do
    left=()
    for ((rank = 0; rank < ranks; ++rank)); do
      [[ $rank == "$lost" ]] && continue
      if [[ ! -e $folder/pid.$rank ]] || runs "$rank"; then left+=("$rank"); fi
    done
    ((${#left[@]} == 0)) && break
    # The clock of the others begins when the rank has gone.
    if [[ -z $lost_at && -e $folder/pid.$lost ]] && is_gone "$lost"; then lost_at=${EPOCHREALTIME/./}; fi
    if ((${EPOCHREALTIME/./} - ${lost_at:-$((begin + 60000000))} > limit)); then
      outcome="ranks ${left[*]} hang"
      break
    fi
    sleep 0.05
  done
  is_gone "$lost" || hangs=true
  [[ -z $lost_at ]] || seconds=$(((${EPOCHREALTIME/./} - lost_at) / 10000))
  seconds=$(printf '%d.%02d' $((seconds / 100)) $((seconds % 100)))
}

# is_gone RANK: whether it has ended or is stopped.
is_gone() {
  runs "$1" || return 0
  local pid stat
  read -r pid <"$folder/pid.$1"
  { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 0
  [[ $stat == *") T "* ]]
}

end_job() {
  local folder=$1 launcher=$2 rank pid tick
  shift 2
  for ((rank = 0; rank < ranks; ++rank)); do
    { read -r pid <"$folder/pid.$rank" && kill -KILL "$pid"; } 2>/dev/null
  done
  if [[ -n $launcher ]]; then
    for ((tick = 0; tick < 50; ++tick)); do
      kill -0 "$launcher" 2>/dev/null || break
      sleep 0.1
    done
    # See run_job.sh: mpirun sometimes hangs as it exits.
    kill -KILL "$launcher" 2>/dev/null
    wait "$launcher" 2>/dev/null
  fi
  [[ $# == 0 ]] || wait "$@" 2>/dev/null
  [[ -n $outcome ]] || outcome=$(judge)
  printf '%s\t%s\t%s\trank %s of %s\tafter %s us\t%s %s\t%s\t%s\n' "$kind" "$by" "$phase" "$lost" "$ranks" "$after" \
    "$algorithm" "$protocol" "$outcome" "$seconds" >"$folder/what"
}

# What the others say, together.
judge() {
  local rank text who before=-1 named=false
  # In that phase another rank has gone before, and the world that shrinks numbers its ranks anew.
  [[ $phase != shrink ]] || before=$(((lost + 1) % ranks))
  for ((rank = 0; rank < ranks; ++rank)); do
    [[ $rank == "$lost" || $rank == "$before" ]] && continue
    text=$(cat "$folder/says.$rank" 2>/dev/null)
    # MPI_Finalize waits for that one, too.
    [[ $before -lt 0 ]] || text=${text//"inside MPI_Finalize when the process of rank $before had ended"/}
    if [[ $text == *"a wrong result"* ]]; then
      echo "rank $rank has a wrong result"
      return
    fi
    who=$(root_causes "$text")
    # So are the handlers of signals of MPI, now and then, in a process that aborts.
    if $hangs && [[ -z $who && $text == *"one of the others is stuck"* ]]; then
      named=true
      continue
    fi
    if [[ -z $who ]]; then
      [[ $text != *DONE* ]] || continue
      # The launcher ends a job of which a process ends inside MPI_Init_thread, before others can say the same. Open MPI may
      # say that it has lost the launcher.
      text=$(sed -E '/^\[[^]]*:[0-9]+\] (OPAL|PMIX) ERROR: /d' <<<"$text")
      [[ -n $text ]] || ! grep -qs "inside MPI_Init_thread .* this process ends" "$folder"/says.* || continue
      echo "rank $rank names nobody"
      return
    fi
    if [[ $who != "$lost" && ! ($before -ge 0 && $before -lt $lost && $who == $((lost - 1))) ]]; then
      echo "rank $rank names" $who
      return
    fi
    named=true
  done
  if $named; then echo named; else echo unhurt; fi
}

# The ranks that a text names as the root cause, which those that failed because of another are not.
root_causes() {
  local found
  found=$(sed -E ':a; s/ranks ([0-9 ]+)(, | and )([0-9]+)/ranks \1 \3/; ta' <<<"$1" |
    grep -oE "for ranks? [0-9 ]+, (whose|which (a signal|has left|did not|had not|gives))|for rank [0-9]+ and gave up|process of rank [0-9]+ had|(debugger|nodes|meanwhile|a process|has ended): ranks? [0-9 ]+|rank [0-9]+ (is gone|was lost|was late)" |
    grep -oE "[0-9]+" | sort -u)
  [[ -n $found ]] || found=$(grep -oE "rank [0-9]+ failed" <<<"$1" | grep -oE "[0-9]+" | sort -u)
  echo "$found"
}
