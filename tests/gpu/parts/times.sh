#!/usr/bin/env bash
# The times that say most: Adam beside a copy and torch's, the launch of a step, matmuls beside cuBLASLt's.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

exponents=(20 22 24 26)
((small == 0)) || exponents=(10 12)
torch=$work/torch
if ! command -v python3 >/dev/null; then
  row "torch.optim.Adam(fused=True)" "not measured: there is no python3"
else
  # It has been getting ready since the first part.
  echo "${exponents[@]}" >"$work/torch.exponents"
  mv "$work/torch.exponents" "$work/torch.go"
  late=$(($(date +%s) + 20))
  until [[ -e $work/torch.code ]] || (($(date +%s) >= late)); do
    sleep 0.1
  done
  code=$(cat "$work/torch.code" 2>/dev/null || true)
  if [[ -z $code ]]; then
    rm -f "$work/torch.go" # so that it does not begin beside what follows
    row "torch.optim.Adam(fused=True)" "not measured: PyTorch was not done 20 s after it was told to begin"
  elif ((code == 77)); then
    row "torch.optim.Adam(fused=True)" "not measured: $(last_line "$work/torch.said")"
  elif ((code != 0)); then
    keep "gpu_torch_adam.py ended with $code" "$work/torch.said"
    failed "torch.optim.Adam(fused=True)" "exit code $code: $(last_line "$work/torch.said")"
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
