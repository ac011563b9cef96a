# Many jobs of lose_rank.sh beside each other, and what came of them.

# room_for_job COUNT: waits until fewer than COUNT jobs run.
room_for_job() {
  while (($(jobs -rp | wc -l) >= $1)); do wait -n; done
}

# wrong_with: prints what is wrong with a job of $by in $phase, whose files are in $folder and which came to $outcome; nothing
# where it is right. Scripts that know better define their own.
wrong_with() {
  [[ $outcome == named ]] || echo "$outcome"
}

# look_at_jobs SCRIPT JOBS FOLDER: waits for them, prints those that went wrong, the first 20 with what their ranks say, and
# ends the script. Each of the JOBS has a folder in FOLDER.
look_at_jobs() {
  local script=$1 jobs=$2 failed=0 judged=0 what folder by phase outcome wrong
  wait
  for what in "$3"/*/what; do
    folder=$(dirname "$what")
    IFS=$'\t' read -r _ by phase _ _ _ outcome _ <"$what"
    ((++judged))
    wrong=$(wrong_with)
    [[ -n $wrong ]] || continue
    ((++failed > 20)) && continue
    echo "== $wrong"
    cat "$what"
    tail -n +1 "$folder"/says.* "$folder"/log* 2>/dev/null | cut -c1-600
  done
  ((failed == 0 && judged == jobs)) || {
    echo "$script: $failed of $judged cases went wrong, and $((jobs - judged)) were not judged"
    exit 1
  }
  echo "$script: all checks passed"
  exit 0
}
