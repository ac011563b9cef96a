#!/usr/bin/env bash
# What a profiler's counters say of the fused step: bytes of DRAM, sectors of a request, and what warps wait for.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ncu=$(tool ncu)
if [[ -z $ncu ]]; then
  row "counters" "not measured: no ncu on PATH or in ${CUDA_HOME:-/usr/local/cuda}/bin"
  exit 0
fi
export COCONET_TIMEOUT_S=${patience:-30} # a kernel is run several times, once for some counters each
metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
metrics+=,l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio
metrics+=,l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio
metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active
for stall in long_scoreboard lg_throttle membar barrier wait not_selected; do
  metrics+=,smsp__average_warps_issue_stalled_${stall}_per_issue_active.ratio
done
exponent=$((small ? 10 : 24))
for case in "adam 1" "adam 4" "lamb 4"; do
  read -r program ranks <<<"$case"
  name="counters: fused $program, $ranks of a GPU's ranks, n = 2^$exponent"
  code=0 left=$(($(seconds_left) - 2))
  if ((left < 5)); then
    row "$name" "not measured: the part's time was over"
    continue
  fi
  # The third run of the kernel: the first ones fill caches.
  limited "$left" "$ncu" --clock-control none --target-processes all --metrics "$metrics" --csv \
    --kernel-name "regex:${program}_fused" --launch-skip 2 --launch-count 1 \
    "$bin/coconet" run "$program" --schedule fused --world "local:$ranks" --set "n=2^$exponent" --iters 4 \
    >"$work/said" 2>&1 || code=$?
  keep "$name" "$work/said"
  # "ID",...,"Metric Name","Metric Unit","Metric Value"
  values=$(sed -n 's/^"[0-9]*",.*,"\([a-z_0-9.]*__[a-zA-Z_0-9.]*\)","\([^"]*\)","\([^"]*\)"$/\1 \3 \2/p' "$work/said" |
    sed 's/ *$//; s/smsp__average_warps_issue_stalled_\(.*\)_per_issue_active.ratio/stall \1/' | paste -sd ';' | sed 's/;/; /g')
  if ((code == 124 || code == 137)); then
    failed "$name" "stopped after $left s: $(last_line "$work/said")"
  elif [[ -n $values ]]; then
    row "$name" "$values"
  else
    row "$name" "not measured: ncu ended with $code: $(grep -m 1 '==ERROR==' "$work/said" || last_line "$work/said")"
  fi
done
