#!/usr/bin/env bash
# Runs every sample on 2 ranks and checks what it promises to print: samples_test.sh BIN_DIR
set -euo pipefail
bin=$1

fail() {
  echo "samples_test: $1" >&2
  exit 1
}

# run SAMPLE ARGUMENT...: its output, shown and kept in $output.
run() {
  echo "== $*"
  local sample=$1
  shift
  output=$(mpirun --oversubscribe -n 2 "$bin/$sample" "$@") || fail "$sample fails: $output"
  echo "$output"
}

run 01_allreduce_add
[[ $output == "c = 3 13 23 33" ]] || fail "01_allreduce_add adds wrongly."

run 02_adam 100000
for schedule in unfused sliced fused; do
  grep -q "$schedule" <<<"$output" || fail "02_adam does not show the schedule '$schedule'."
done

run 04_lamb_bert
grep -Fqx "embeddings.word_embeddings.weight [30522, 768]" <<<"$output" ||
  fail "04_lamb_bert does not list BERT's word embeddings."
[[ $(tail -n 1 <<<"$output") == "199 tensors, 109482240 parameters" ]] ||
  fail "04_lamb_bert does not list the 199 tensors of BERT-base."

run 03_train_digits
last=$(tail -n 1 <<<"$output")
[[ $last =~ ^'test accuracy '([0-9.]+)', largest difference from one rank '([0-9.e+-]+)$ ]] ||
  fail "the last line of 03_train_digits is '$last'."
awk -v accuracy="${BASH_REMATCH[1]}" -v difference="${BASH_REMATCH[2]}" \
  'BEGIN { exit !(accuracy >= 0.95 && difference <= 1e-5) }' ||
  fail "03_train_digits must reach an accuracy of 0.95 within 1e-5 of one rank."
