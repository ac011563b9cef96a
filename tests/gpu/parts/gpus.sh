#!/usr/bin/env bash
# A rank a GPU on all GPUs: fused, library collectives by NCCL, and through the switch.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ -n $all_gpus ]]; then export CUDA_VISIBLE_DEVICES=$all_gpus; else unset CUDA_VISIBLE_DEVICES; fi
gpus=$(found GPU | wc -l)
if ((gpus < 2)); then
  row "several GPUs" "not measured: there is one GPU"
  exit 0
fi
dtypes=(f32 f16 bf16 f64 f16+copy bf16+copy) sizes=(4099 1000003)
((small == 0)) || dtypes=(f32) sizes=(4099)
# on_all_gpus WHAT SCHEDULE...: a row of the runs.
on_all_gpus() {
  local what=$1
  shift
  if [[ $1 != fused && -z $(found NCCL) ]]; then
    row "$gpus GPUs: $what" "not measured: no NCCL: $(missing NCCL)"
    return
  fi
  schedules | while read -r program schedule; do
    [[ " $* " == *" $schedule "* ]] || continue
    for dtype in "${dtypes[@]}"; do
      for size in "${sizes[@]}"; do
        echo "run $program $schedule $dtype $gpus $size"
      done
    done
  done >"$work/list"
  ((small == 0)) || sed -i '1~8!d' "$work/list"
  pool "$work/list"
  outcome "$gpus GPUs: $what" run "runs (a rank a GPU; ${dtypes[*]}; n = ${sizes[*]})"
}
on_all_gpus "fused" fused
on_all_gpus "unfused and sliced, NCCL" unfused sliced
if [[ -n $(found multicast) ]]; then
  COCONET_ALGORITHM=multimem COCONET_PROTOCOL=simple on_all_gpus "fused, through the switch (multimem)" fused
else
  row "$gpus GPUs: fused, through the switch (multimem)" "not measured: $(missing multicast)"
fi
