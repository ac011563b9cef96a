#!/usr/bin/env bash
# All of bench/gpu.sh.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ -n $all_gpus ]]; then export CUDA_VISIBLE_DEVICES=$all_gpus; else unset CUDA_VISIBLE_DEVICES; fi
arguments=(--bin "$bin" --out "$work/bench.md" --json "${out%.md}.json")
((small == 0)) || arguments+=(--small)
if "$root/bench/gpu.sh" "${arguments[@]}" >"$work/said" 2>&1; then
  row "bench/gpu.sh" "$(tail -n 1 "$work/bench.md")"
else
  keep "bench/gpu.sh" "$work/said"
  failed "bench/gpu.sh" "$(last_line "$work/said")"
fi
[[ ! -s $work/bench.md ]] || sed -n '/^| /{/^| what /d;p}' "$work/bench.md" >>"$times"
