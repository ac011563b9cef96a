#!/usr/bin/env bash
# The times that say most: Adam beside a copy and torch's, the launch of a step, matmuls beside cuBLASLt's.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

exponents=(20 22 24 26)
((small == 0)) || exponents=(10 12)
torch=$work/torch
: >"$torch"
if ! command -v python3 >/dev/null; then
  row "torch.optim.Adam(fused=True)" "not measured: there is no python3"
else
  code=0
  timeout 60 "$root/bench/gpu_torch_adam.py" "${exponents[@]}" >"$torch" 2>"$work/said" || code=$?
  if ((code == 77)); then
    row "torch.optim.Adam(fused=True)" "not measured: $(last_line "$work/said")"
  elif ((code != 0)); then
    keep "gpu_torch_adam.py ended with $code" "$work/said"
    failed "torch.optim.Adam(fused=True)" "exit code $code: $(last_line "$work/said")"
  fi
fi
measure optimizers --torch "$torch"
for graph in off on; do
  COCONET_GRAPH=$graph measure launch
done
if [[ -n $(found cuBLASLt) ]]; then
  measure matmul
else
  row "bench_gpu matmul" "not measured: no cuBLASLt: $(missing cuBLASLt)"
fi
