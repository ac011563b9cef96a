#!/usr/bin/env bash
# Kills the training of the digits sample on four ranks at random moments, half of them inside a checkpoint, and resumes it:
# on four ranks to the weights of a training that nothing killed, and on two ranks to those of one that was given over to two
# ranks after the same epoch, bit by bit.
# Usage: [RESUME_KILLS=50] resume.sh DIRECTORY_OF_THE_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"
sample=$bin/03_train_digits
epochs=40
kills=2
[[ -z ${TESTS_ALL-} ]] || kills=10
kills=${RESUME_KILLS:-$kills}
RANDOM=${TESTS_SEED:-1}

# train RANKS DIRECTORY EPOCHS OPTION...: trains with checkpoints in DIRECTORY.
train() {
  local ranks=$1 directory=$2 upto=$3
  shift 3
  run_job 120 -n "$ranks" "$sample" --epochs "$upto" --checkpoint "$directory" "$@" >"$work/log" 2>&1 ||
    fail "training on $ranks ranks failed"
}

# same DIRECTORY DIRECTORY: whether both have the same states after the last epoch.
same() {
  local file
  for file in "$1/epoch-$epochs"/*.safetensors; do
    cmp -s "$file" "$2/epoch-$epochs/$(basename "$file")" || return 1
  done
}

unfinished() { compgen -G "$work/killed/.coconet-checkpoint-*" >/dev/null; }

# reached EPOCH: whether there is a checkpoint of that epoch, or of a later one.
reached() {
  local checkpoint
  for checkpoint in "$work"/killed/epoch-*; do
    [[ $checkpoint == *'*' ]] || ((${checkpoint##*-} < $1)) || return 0
  done
  return 1
}

train 4 "$work/whole" $epochs
declare -A inside=([yes]=0 [no]=0)
for ((kill = 1; kill <= kills; ++kill)); do
  rm -rf "$work/killed" "$work/on_four" "$work/on_two"
  # Every second time all ranks, as when a machine goes down.
  run_job 120 -n 4 "$sample" --epochs $epochs --checkpoint "$work/killed" >"$work/log" 2>&1 &
  job=$!
  moment=$((1 + RANDOM % (epochs - 5)))
  for ((look = 0; look < 10000; ++look)); do
    ! reached $moment || break
    read -r -t 0.002 <> <(:) || true
  done
  mapfile -t pids < <(pgrep -f -- "--checkpoint $work/killed" | while read -r pid; do
    [[ $(readlink "/proc/$pid/exe") == "$sample" ]] && echo "$pid" || true
  done)
  if ((kill % 4 < 2)); then
    for ((look = 0; look < 5000; ++look)); do
      ! unfinished || break
    done
  fi
  if ((${#pids[@]} > 0)); then
    if ((kill % 2 == 0)); then
      kill -KILL "${pids[@]}" 2>/dev/null || true
    else
      kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null || true
    fi
  fi
  wait $job || true
  left=no
  ! unfinished || left=yes
  inside[$left]=$((inside[$left] + 1))
  mkdir -p "$work/killed"
  cp -r "$work/killed" "$work/on_four"
  cp -r "$work/killed" "$work/on_two"
  train 4 "$work/on_four" $epochs --resume
  epoch=$(sed -n 's/^going on after epoch //p' "$work/log")
  same "$work/whole" "$work/on_four" || fail "after kill $kill, in epoch ${epoch:-0}, the weights on 4 ranks are others"
  train 2 "$work/on_two" $epochs --resume
  if [[ ! -d $work/given_over.${epoch:-0} ]]; then
    [[ -z $epoch ]] || train 4 "$work/given_over.$epoch" "$epoch"
    train 2 "$work/given_over.${epoch:-0}" $epochs --resume
  fi
  same "$work/given_over.${epoch:-0}" "$work/on_two" ||
    fail "after kill $kill, in epoch ${epoch:-0}, the weights on 2 ranks are others"
  ! compgen -G "$work/on_*/.coconet-checkpoint-*" >/dev/null || fail "an unfinished checkpoint was not removed"
  echo "kill $kill in epoch $moment or later: went on after epoch ${epoch:-0}, unfinished checkpoint left: $left"
done
echo "resume.sh: $kills kills, ${inside[yes]} of them inside a checkpoint; all checks passed"
