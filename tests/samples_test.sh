#!/usr/bin/env bash
# Runs every sample on 2 ranks, some on others, and checks what it promises to print: samples_test.sh BIN_DIR
set -euo pipefail
bin=$1

fail() {
  echo "samples_test: $1" >&2
  exit 1
}

# run SAMPLE ARGUMENT...: its output on $ranks ranks, shown and kept in $output.
ranks=2
run() {
  echo "== $*"
  local sample=$1
  shift
  output=$(mpirun --oversubscribe -n "$ranks" "$bin/$sample" "$@") || fail "$sample fails: $output"
  echo "$output"
}
# correct SAMPLE: each schedule has a row in $output, of schedule, ms, speed and an error that is at most 1e-5.
correct() {
  for schedule in unfused sliced fused; do
    awk -v schedule="$schedule" '$1 == schedule && $4 ~ /^[0-9]/ && $4 <= 1e-5 { found = 1 } END { exit !found }' \
      <<<"$output" || fail "$1 is wrong under the schedule '$schedule', or does not show it."
  done
}

run 01_allreduce_add
[[ $output == "c = 3 13 23 33" ]] || fail "01_allreduce_add adds wrongly."

run 02_adam 100000
for schedule in unfused sliced fused; do
  grep -q "$schedule" <<<"$output" || fail "02_adam does not show the schedule '$schedule'."
done

run 04_lamb_bert --list
grep -Fqx "embeddings.word_embeddings.weight [30522, 768]" <<<"$output" ||
  fail "04_lamb_bert does not list BERT's word embeddings."
run 04_lamb_bert
grep -Fqx "199 tensors, 109482240 parameters, 2 ranks" <<<"$output" ||
  fail "04_lamb_bert does not update the 199 tensors of BERT-base."
grep -Eqx "step: [0-9.]+ ms, kernels: 1" <<<"$output" || fail "04_lamb_bert takes more than one kernel."
# Every element of the averaged gradient is 0.0015, of 109,482,240.
grep -Fqx "norm of the gradient: 15.695, clipped to 1" <<<"$output" ||
  fail "04_lamb_bert prints another norm of the gradient than 15.695."
awk '$1 == "tables:" && $4 > 0 && $4 < 1.2 { found = 1 } END { exit !found }' <<<"$output" ||
  fail "the tables of 04_lamb_bert take more than 1.2 % of a gradient in f16."
grep -Fqx "memory of a rank, MiB: g 418 w 418 m 209 v 209" <<<"$output" ||
  fail "the moments of 04_lamb_bert are not half on each of 2 ranks."

run 05_model_parallel 3 17 64
correct 05_model_parallel
ranks=3 run 05_model_parallel 1 1 1
correct 05_model_parallel

ranks=4 run 06_pipeline 3 17 61
correct 06_pipeline
! mpirun --oversubscribe -n 3 "$bin/06_pipeline" 2>/dev/null || fail "06_pipeline divides 3 ranks by 2."

# Sizes that the ranks divide and do not, and fewer rows than ranks.
run_gradients() {
  run 07_conjugate_gradients "$@"
  for n in "$@"; do
    awk -v n="$n" '$1 == n && $2 < 200 && $3 ~ /^[0-9]/ && $3 <= 1e-10 && $4 <= 1e-8 && $5 <= 1e-8 && $6 == 2 {
        found = 1 } END { exit !found }' <<<"$output" ||
      fail "07_conjugate_gradients does not solve the problem of size $n by two kernels, or MPI does not."
  done
}
run_gradients 64 61 2
ranks=3 run_gradients 40 1

# Training that was broken off goes on to the same states, bit by bit.
checkpoints=$(mktemp -d)
trap 'rm -rf "$checkpoints"' EXIT
run 03_train_digits --epochs 4 --checkpoint "$checkpoints/whole"
run 03_train_digits --epochs 2 --checkpoint "$checkpoints/broken"
run 03_train_digits --epochs 4 --checkpoint "$checkpoints/broken" --resume
grep -Fqx "going on after epoch 2" <<<"$output" || fail "03_train_digits does not go on from its checkpoint."
for rank in 0 1; do
  cmp "$checkpoints"/{whole,broken}/epoch-4/rank-0000$rank.safetensors ||
    fail "03_train_digits has other states after it was resumed."
done

# Twenty steps on, the loss has come down from that of a guess, log(12), and all goes on from a checkpoint.
run 09_gpt --steps 20 --checkpoint "$checkpoints/gpt"
awk '$1 == "step" && $2 == 20 && $4 > 0 && $4 < 2.2 { found = 1 } END { exit !found }' <<<"$output" ||
  fail "09_gpt learns nothing in 20 steps."
grep -Eqx "held-out sums right: 0\.[0-9]+" <<<"$output" || fail "09_gpt does not say how many sums are right."
run 09_gpt --steps 21 --checkpoint "$checkpoints/gpt" --resume 1
grep -Fqx "going on after step 20" <<<"$output" || fail "09_gpt does not go on from its checkpoint."

run 03_train_digits --dtype f16
awk '/^test accuracy/ { found = $3 >= 0.95 } END { exit !found }' <<<"$output" ||
  fail "03_train_digits must reach an accuracy of 0.95 in f16, too."

run 03_train_digits
last=$(tail -n 1 <<<"$output")
[[ $last =~ ^'test accuracy '([0-9.]+)', largest difference from one rank '([0-9.e+-]+)$ ]] ||
  fail "the last line of 03_train_digits is '$last'."
awk -v accuracy="${BASH_REMATCH[1]}" -v difference="${BASH_REMATCH[2]}" \
  'BEGIN { exit !(accuracy >= 0.95 && difference <= 1e-5) }' ||
  fail "03_train_digits must reach an accuracy of 0.95 within 1e-5 of one rank."
