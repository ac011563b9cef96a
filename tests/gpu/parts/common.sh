# shellcheck shell=bash
# What the parts of tests/gpu/run.sh share; it exports:
#   root, bin     the sources' folder and the programs'
#   small         1: a small part of everything, to try the scripts
#   slack         how many times as long limits are
#   rows, times   files that rows of the two tables are added to
#   log           what failing checks printed
#   failures      a file that is there once a check failed
#   work          a folder for what goes at the end; outcomes, a file in it
#   doctor        what `coconet doctor` prints, a file
#   one_gpu, all_gpus   CUDA_VISIBLE_DEVICES for one GPU, and as the user has it
#   patience      COCONET_TIMEOUT_S as the user has it
#   holder        the process that keeps a context on the GPU, which says in $work/hold why not
#   deadline      when the part's time is over, in seconds since 1970
#   out           the table's file
# shellcheck disable=SC2154
set -euo pipefail

# row WHAT RESULT: a row of the table, printed at once, too.
row() {
  echo "| $1 | ${2//|//} |" | tee -a "$rows"
}
# failed WHAT RESULT: the same for a failure.
failed() {
  : >"$failures"
  row "$1" "FAILED: $2"
}
# keep TITLE FILE: keeps what a check printed.
keep() {
  { printf '\n==== %s ====\n' "$1" && cat "$2"; } >>"$log"
}
last_line() {
  { grep -v '^ *$' "$1" || true; } | tail -n 1 | cut -c 1-300
}
# found NAME, missing NAME: what the doctor says of it.
found() {
  sed -n "s/^\[ok\] $1  *//p" "$doctor"
}
missing() {
  sed -n "s/^\[--\] $1  *//p" "$doctor" | head -n 1
}
seconds_left() {
  echo $((deadline - $(date +%s)))
}

# limited SECONDS COMMAND...: stops it after so long, also where it takes no notice of that.
limited() {
  timeout --kill-after=2 "$@"
}

# tool NAME: its path, on PATH or in CUDA's folder; empty where there is none.
tool() {
  command -v "$1" || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/$1" || true
}

# ---- many checks, several at a time --------------------------------------------------------------------------

# Processes at a time: no more than cores, and one where the GPU's compute mode allows no more.
processes() {
  local count
  count=$(nproc)
  if command -v nvidia-smi >/dev/null &&
    ! limited 10 nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null | head -n 1 | grep -q Default; then
    count=1
  fi
  echo $((count > 12 ? 12 : count))
}

# check NAME COMMAND...: runs it, and puts a line with the outcome into the file `outcomes`: ok, failed, or cut for what the
# part's time does not suffice for. One that hangs is to say who waited for whom, and so none begins later than that takes.
check() {
  local name=$1 code=0 said=$work/said.$BASHPID left most=$((${most:-60} * slack))
  shift
  left=$(($(seconds_left) - 2))
  if ((left <= $(printf '%.0f' "$COCONET_TIMEOUT_S") + 3)); then
    echo "cut $name" >>"$outcomes"
    return
  fi
  most=$((left < most ? left : most))
  limited "$most" "$@" >"$said" 2>&1 || code=$?
  if ((code == 0)); then
    echo "ok $name" >>"$outcomes"
  elif ((code == 124 || code == 137)) && [[ $name == suite\ * ]]; then
    echo "cut $name" >>"$outcomes" # which has many cases
  else
    keep "$(printf '%q ' "$@") ended with $code" "$said"
    { grep -E '^test cases:|^coconet: ' "$said" || grep -v '^ *$' "$said" || true; } | tail -n 1 | cut -c 1-300 >"$said.last"
    if ((code == 124 || code == 137)); then
      code="$code after $most s"
    fi
    echo "failed $name: exit code $code: $(<"$said.last")" >>"$outcomes"
  fi
  rm -f "$said" "$said.last"
}

# pool FILE: the checks in the lines of a file, each the words for `check`.
pool() {
  local at_once running=0 line
  local -a words
  at_once=$(processes)
  : >"$outcomes"
  while read -r line; do
    read -ra words <<<"$line"
    check_words "${words[@]}" &
    running=$((running + 1))
    if ((running >= at_once)); then
      wait -n || true
      running=$((running - 1))
    fi
  done <"$1"
  wait
}
# check_words KIND WORD...: run PROGRAM SCHEDULE DTYPE RANKS N; exchange ALGORITHM PROTOCOL; graph PROGRAM SCHEDULE RANKS
# SIZE...; or suite NAME [ONE_IN]. f16+copy is f16 in mixed precision, with copies of the master weights.
check_words() {
  local -a kept=()
  case $1 in
    run)
      [[ $4 != *+* ]] || kept=(--master-weights "${4#*+}")
      check "$*" "$bin/coconet" run "$2" --schedule "$3" --dtype "${4%+*}" "${kept[@]}" --world "local:$5" --set "n=$6" --check
      ;;
    exchange)
      check "$*" env "COCONET_ALGORITHM=$2" "COCONET_PROTOCOL=$3" \
        "$bin/coconet" run adam --schedule fused --world local:4 --set n=100003 --check
      ;;
    graph)
      check "$*" env COCONET_GRAPH=on "$bin/coconet" run "$2" --schedule "$3" --world "local:$4" --iters 80 --check \
        "${@:5}"
      ;;
    suite)
      most=600 check "suite $2" env "TESTS_ONE_IN=${3:-1}" "$bin/../tests/tests_jit" --filenames-as-tags --warn NoTests "[#$2_test]"
      ;;
  esac
}
# outcome STEP KIND WHAT: the row of the outcomes of one kind.
outcome() {
  local all ok cut wrong note=''
  all=$(grep -c " $2 " "$outcomes" || true)
  ok=$(grep -c "^ok $2 " "$outcomes" || true)
  cut=$(grep -c "^cut $2 " "$outcomes" || true)
  wrong=$(grep "^failed $2 " "$outcomes" | sort | head -n 1 || true)
  ((cut == 0)) || note="; $cut not run, for time"
  if ((ok + cut < all)); then
    failed "$1" "$((all - ok - cut)) of $all $3$note; the first: ${wrong#failed }; see $log"
  elif ((ok == 0)); then
    failed "$1" "none of $all $3 ended in time"
  else
    row "$1" "$ok of $all $3 pass$note"
  fi
}
# The shipped optimizers' schedules, "adam fused" a line: their one dimension is n.
schedules() {
  "$bin/coconet" programs --schedules | grep -v _block
}

# measure ARGUMENT...: a part of bench_gpu, whose rows go into the table of times.
measure() {
  local code=0 said=$work/said left
  left=$(($(seconds_left) - 2))
  ((small == 0)) || set -- "$@" --small
  limited "$((left > 1 ? left : 1))" "$bin/bench_gpu" "$@" 2>"$said" | tee -a "$times" || code=$?
  ((code == 0)) && return
  keep "bench_gpu $* ended with $code" "$said"
  if ((code == 124 || code == 137)); then
    failed "bench_gpu $1" "stopped when the part's time was over; what it had measured by then is in the table of times"
  else
    failed "bench_gpu $1" "exit code $code: $(last_line "$said")"
  fi
}
