#!/usr/bin/env bash
# What there is: the GPUs, the driver, the libraries and the tools, and what a copy moves.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

row "date, commit" "$(date -u +%Y-%m-%dT%H:%MZ), $(cat "$root/commit" 2>/dev/null ||
  git -C "$root" describe --always --dirty 2>/dev/null || echo "no git")"
row "GPU" "$(found GPU | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /' | paste -sd ';')"
if command -v nvidia-smi >/dev/null; then
  driver=$(limited 10 nvidia-smi --query-gpu=driver_version,compute_mode,clocks.max.sm,clocks.max.mem --format=csv,noheader 2>&1 |
    head -n 1)
  row "driver" "$driver, $(found 'CUDA driver')"
else
  row "driver" "$(found 'CUDA driver') (no nvidia-smi, which tells more)"
fi
if [[ -n $(found NVRTC) ]]; then
  row "NVRTC" "$(found NVRTC)"
else
  failed "NVRTC" "$(missing NVRTC)"
fi
for library in NCCL cuBLASLt; do
  row "$library" "$(found "$library" | grep . || echo "none: $(missing "$library")")"
done
mpirun=$(command -v mpirun || true)
row "tools" "mpirun: ${mpirun:-none}; ncu: $(tool ncu | grep . || echo none); compute-sanitizer: $(
  tool compute-sanitizer | grep . || echo none); glibc: $(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown); programs: $bin"
measure copy
# What a process costs, once the kernel is in the cache.
step=("$bin/coconet" run adam --schedule fused --world local:2 --set n=1000 --check)
if limited 30 "${step[@]}" >"$work/said" 2>&1; then
  begin=$(date +%s%N)
  limited 30 "${step[@]}" >"$work/said" 2>&1 || true
  row "one run with its check" "$((($(date +%s%N) - begin) / 1000000)) ms, start to end"
else
  keep "${step[*]}" "$work/said"
  failed "one run with its check" "$(last_line "$work/said")"
fi
row "the device" "$(kill -0 "$holder" 2>/dev/null && echo "is kept open by a process of its own" ||
  echo "is not kept open: $(last_line "$work/hold")")"
