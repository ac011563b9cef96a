#!/usr/bin/env bash
# Draws jobs of which one rank is lost, by signals and ends, in phases, worlds and protocols, and looks at what the others say:
# they have to end in time, with all results right or with a sentence that names the rank that was lost, and no other.
# Usage: kills.sh DIRECTORY_OF_THE_PROGRAMS [CASES [SEED]]; KILLS_ONLY=N runs case N of those again, with what ranks say.
# CASES are 3000 if they are not given; KILLS_BESIDE is how many jobs run beside each other.
set -uo pipefail
# shellcheck source=tests/mpi/launch/lose_rank.sh
source "$(dirname "${BASH_SOURCE[0]}")/mpi/launch/lose_rank.sh" "$1"
programs=$1
cases=${2:-3000} seed=${3:-${TESTS_SEED:-1}}
beside=${KILLS_BESIDE:-$(($(nproc) + 2))}

# draws VARIABLE OF...: sets it to one of them. Not in a subshell, which would have a seed of its own.
draws() {
  local -n drawn=$1
  shift $((1 + RANDOM % ($# - 1)))
  drawn=$1
}

# draw NUMBER: what happens in that case, as variables.
draw() {
  RANDOM=$(((seed * 7919 + $1) % 32768))
  local call
  draws kind mpi mpi aabb aab from from
  draws by kill stop term exit abort
  draws algorithm direct ring tree
  draws protocol simple ll ll128
  after=$((RANDOM % 3 == 0 ? 0 : RANDOM % 20000 + 1))
  case $kind in
    mpi | from) ranks=$((3 + RANDOM % 2)) ;;
    *) ranks=${#kind} ;;
  esac
  lost=$((RANDOM % ranks))
  draws call MPI_Init_thread MPI_Ibarrier MPI_Iallgather MPI_Iallgatherv MPI_Comm_split MPI_Test MPI_Iprobe MPI_Isend \
    MPI_Allreduce MPI_Finalize
  call+=:$((RANDOM % 2 ? RANDOM % 40 : 0))
  case $kind in
    mpi) draws phase making making compile tune run run collectives save load shrink finalize "$call" "$call" ;;
    from) draws phase making making compile tune run run collectives save load shrink finalize ;;
    *) draws phase making making compile tune run collectives save load finalize "$call" "$call" ;;
  esac
}

run_case() {
  draw "$1"
  lose_rank "$work/$1"
}

if [[ -n ${KILLS_ONLY-} ]]; then
  run_case "$KILLS_ONLY"
  cat "$work/$KILLS_ONLY/what"
  tail -n +1 "$work/$KILLS_ONLY"/says.* "$work/$KILLS_ONLY/log"
  exit
fi

# All kernels are in the cache then, but where it is off: jobs that nobody is lost of.
by=none phase=none lost=0 after=0
for kind in from aabb; do
  for algorithm in direct ring tree; do
    for protocol in simple ll ll128; do
      ranks=4 lose_rank "$work/warm" >/dev/null
      rm -rf "$work/warm"
    done
  done
done

echo "kills.sh: $cases cases of seed $seed, $beside at a time"
for ((number = 0; number < cases; ++number)); do
  room_for_job "$beside"
  run_case "$number" &
done
wait

# What came out, by what happened and when.
cat "$work"/*/what | awk -F'\t' '
  { phase = $3 ~ /^MPI_/ ? "in front of " substr($3, 1, index($3, ":") - 1) : $3
    row = $1 "\t" phase; ++all[row]; ++came[row, $7]; ++total[$7]; ++of_all
    if ($8 > longest[row]) longest[row] = $8 }
  END {
    printf "%-6s %-28s %6s %6s %6s %6s %9s\n", "world", "phase", "cases", "named", "unhurt", "wrong", "longest"
    for (row in all) {
      split(row, part, "\t")
      printf "%-6s %-28s %6d %6d %6d %6d %7.1f s\n", part[1], part[2], all[row], came[row, "named"], came[row, "unhurt"],
        all[row] - came[row, "named"] - came[row, "unhurt"], longest[row] | "sort"
    }
    close("sort")
    printf "%d cases: %d named the rank, in %d nobody was hurt\n", of_all, total["named"], total["unhurt"]
  }'
wrong_with() {
  [[ $outcome == named || $outcome == unhurt ]] ||
    echo "$outcome; KILLS_ONLY=$(basename "$folder") tests/kills.sh $programs $cases $seed runs it again"
}
look_at_jobs kills.sh "$cases" "$work"
