#!/usr/bin/env bash
# Steps that are replayed as graphs: the first nine are launched one by one, so that 80 are run.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

sizes=(--set "n=$((small ? 1003 : 100003))")
for schedule in fused unfused; do
  : >"$outcomes"
  check_words graph adam "$schedule" 4 "${sizes[@]}"
  outcome "graphs: $schedule adam, 80 steps on 4 ranks" graph "runs"
done

# Optimizers that need no norms have the plans of Adam.
sizes=(--set n=4099)
of_blocks=(--set B=3 --set S=100 --set H=33)
{
  for schedule in unfused sliced fused; do
    for program in lamb lars novograd; do
      echo "graph $program $schedule 2 ${sizes[*]}"
    done
    for program in adam lamb; do
      echo "graph $program $schedule 2 ${sizes[*]} --dtype f16 --master-weights copy"
    done
  done
  for schedule in unfused sliced fused overlapped; do
    echo "graph mlp_block $schedule 2 ${of_blocks[*]} --set F=20"
    echo "graph attention_block $schedule 2 ${of_blocks[*]}"
    echo "graph pipeline_block $schedule 4 ${of_blocks[*]}"
  done
} >"$work/list"
((small == 0)) || sed -i '1~9!d' "$work/list"
pool "$work/list"
outcome "graphs: every other kind of plan, 80 steps" graph "runs"
