#!/usr/bin/env bash
# Two nodes, one of whose ranks is killed or stopped: the ranks of both nodes name it, and no other, at once where
# its process has ended beside another rank, and none says that a time was over which was not.
# Usage: blame.sh DIRECTORY_OF_THE_PROGRAMS
set -uo pipefail
[[ -n ${TESTS_ALL-} ]] || {
  echo "skipped: a busy machine may outrun the deadlines of healthy ranks; TESTS_ALL=1 runs it"
  exit 77
}
# shellcheck source=tests/mpi/launch/lose_rank.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/lose_rank.sh" "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COCONET_CACHE_DIR=${COCONET_CACHE_DIR:-$work/cache}
algorithm=direct protocol=simple number=0
for case in "aabb 2 stop compile 0" "aabb 2 kill compile 0" "aabb 0 stop compile 5000" "aabb 3 kill compile 5000" \
  "abb 0 stop compile 0" "aabb 2 stop run 3000" "aabb 1 kill run 3000" "aab 1 stop collectives 0" "aabb 2 kill collectives 0"; do
  while (($(jobs -rp | wc -l) >= $(nproc) + 3)); do wait -n; done
  read -r kind lost by phase after <<<"$case"
  # A killed rank is not waited for until then.
  lost_timeout=$([[ $by == kill ]] && echo 120 || echo 4) ranks=${#kind}
  ((++number))
  lost_limit=150 lose_rank "$work/$number" &
done
wait
failed=0
for file in "$work"/*/what; do
  folder=$(dirname "$file")
  IFS=$'\t' read -r _ by _ _ _ _ outcome _ <"$file"
  [[ $by != kill ]] || ! grep -q "come within" "$folder"/says.* || outcome="a time is said to be over which is not"
  [[ $outcome != named ]] || continue
  ((++failed))
  echo "== $outcome"
  cat "$file"
  tail -n +1 "$folder"/says.* | cut -c1-600
done
((failed == 0)) || {
  echo "blame.sh: $failed of $number cases went wrong"
  exit 1
}
echo "blame.sh: all checks passed"
