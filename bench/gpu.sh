#!/usr/bin/env bash
# Measures steps on one GPU and makes a table of them: bench/gpu.sh [--bin DIR] [--out FILE] [--json FILE] [--small]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<TEXT
usage: bench/gpu.sh [--bin DIR] [--out FILE] [--json FILE] [--small]

Measures on one GPU, the first that CUDA_VISIBLE_DEVICES names, but for one part, and prints a table in Markdown:
  fused Adam and LAMB       of one rank, against a copy of as many bytes, and torch.optim.Adam(fused=True) where there is one
  a bias of 64              added to [2^20, 64], against a copy of as many bytes
  fused Adam and LAMB       of 2, 4 and 8 ranks on the GPU, against the unfused and the sliced schedule, and over 64 buffers
  AllReduce                 of 2, 4 and 8 ranks in a kernel, with every algorithm and protocol, against the library's
  blocks of transformers    of 2 and 4 ranks on the GPU, fused and overlapped, against unfused ones
  the same blocks           of a rank a GPU, against unfused ones with NCCL's collectives, where there are several GPUs
  AllReduce                 of a rank a GPU with multimem and direct, against NCCL's, where several GPUs have multicast
  matmuls                   of bf16, f16 and f32, against bare calls of cuBLASLt
  steps of n = 1024         host's time of 1000 launches, against bare launches of an empty kernel
  compile()                 with NVRTC, with the cubin on disk, with the kernel in memory
Every time is the median of 15 batches of many steps, taken in turn with its peer's in one process (torch's in its own).
GPU times are by events before and after each batch; the host's are by its clock, with one synchronize() a batch.
A missed target is marked FAIL; the exit code is 1 only when something could not run.

  --bin DIR    where bench_gpu and coconet are; default build/gpu/bin, which is built when it is missing
  --out FILE   writes the table to FILE, too
  --json FILE  writes the rows to FILE as JSON
  --small      a few small sizes, to try this script: the numbers mean nothing
TEXT
}

fail() {
  echo "bench/gpu.sh: $*" >&2
  exit 1
}

bin='' out='' json='' small=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --bin | --out | --json)
      [[ -n ${2-} ]] || fail "$1 takes an argument; see bench/gpu.sh --help."
      declare "${1#--}=$2"
      shift 2
      ;;
    --small)
      small=(--small)
      shift
      ;;
    *) fail "unknown argument '$1'; see bench/gpu.sh --help." ;;
  esac
done

if [[ -z $bin ]]; then
  bin=$root/build/gpu/bin
  [[ -x $bin/bench_gpu && -x $bin/coconet ]] || "$root/tests/gpu/build.sh"
fi
for program in bench_gpu coconet; do
  [[ -x $bin/$program ]] || fail "there is no $bin/$program; leave --bin away to build it."
done

# One GPU, so that ranks share it; all of them for what measures several.
all_gpus=${CUDA_VISIBLE_DEVICES-}
one_gpu=${all_gpus:-0}
one_gpu=${one_gpu%%,*}
export CUDA_VISIBLE_DEVICES=$one_gpu
export COCONET_BACKEND=cuda
# Kernels say who waited for whom before a part is stopped.
export COCONET_TIMEOUT_S=${COCONET_TIMEOUT_S:-10}
unset COCONET_GRAPH COCONET_ARCH COCONET_DUMP_DIR COCONET_LINE_INFO

doctor=$("$bin/coconet" doctor 2>&1) || true
gpu=$(sed -n 's/^\[ok\] GPU  *//p' <<<"$doctor" | head -n 1)
missing=$(sed -n 's/^\[--\] \(CUDA driver\|GPU\)  *//p' <<<"$doctor" | head -n 1)
[[ -n $gpu ]] || fail "there is no GPU to measure: $missing"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COCONET_CACHE_DIR=$work/cache COCONET_CACHE=rw
rows=$work/rows.md lines=$work/rows.json
: >"$lines"
status=0

# part NAME ARGUMENT...: the rows of one part, or one that says why there are none.
part() {
  local code=0
  timeout 300 "$bin/bench_gpu" "$@" "${small[@]}" --json "$lines" 2>"$work/error" || code=$?
  ((code == 0)) && return
  status=1
  ((code != 124)) || echo "it took more than 300 s" >>"$work/error"
  echo "| $1 | - | FAILED: $(tail -n 1 "$work/error" | tr '|' '/') | - | - | - |"
  echo "bench/gpu.sh: 'bench_gpu $1' ended with $code: $(cat "$work/error")" >&2
}

exponents=(20 22 24 26)
((${#small[@]} == 0)) || exponents=(10 12)
torch=$work/torch torch_code=0
if command -v python3 >/dev/null; then
  timeout 120 "$root/bench/gpu_torch_adam.py" "${exponents[@]}" >"$torch" 2>"$work/error" || torch_code=$?
else
  torch_code=77
  echo "there is no python3" >"$work/error"
fi
torch_error=$(tail -n 1 "$work/error" | tr '|' '/')

{
  part optimizers --torch "$torch"
  if ((torch_code != 0)); then
    why="not measured: $torch_error"
    ((torch_code == 77)) || why="FAILED: gpu_torch_adam.py ended with $torch_code: $torch_error" status=1
    echo "| fused Adam, 1 rank, against torch.optim.Adam(fused=True) | all | $why | - | - | - |"
  fi
  part bias
  part ranks
  part lamb
  part algorithms
  part blocks
  if [[ -n $all_gpus ]]; then export CUDA_VISIBLE_DEVICES=$all_gpus; else unset CUDA_VISIBLE_DEVICES; fi
  part blocks-over-gpus
  part multicast
  export CUDA_VISIBLE_DEVICES=$one_gpu
  part matmul
  for graph in off on; do
    COCONET_GRAPH=$graph part launch
  done
  COCONET_CACHE=off part compile-cold
  if "$bin/bench_gpu" compile-cold >/dev/null 2>"$work/error"; then # fills the cache
    part compile-warm
  else
    echo "| compile-warm | - | FAILED: $(tail -n 1 "$work/error" | tr '|' '/') | - | - | - |"
    status=1
  fi
} >"$rows"

targets=$(grep -c -E ': (pass|FAIL) \|$' "$rows" || true)
missed=$(grep -c ': FAIL |$' "$rows" || true)
table() {
  echo "GPU: $gpu, $(sed -n 's/^\[ok\] CUDA driver  *//p' <<<"$doctor")"
  echo "NVRTC: $(sed -n 's/^\[ok\] NVRTC  *//p' <<<"$doctor")"
  ((${#small[@]} == 0)) || echo "Small sizes, to try the script: these numbers mean nothing."
  echo
  echo "| what | size | result | peer | ratio | target |"
  echo "|---|---|---|---|---|---|"
  cat "$rows"
  echo
  echo "Targets missed: $missed of $targets."
}
table
[[ -z $out ]] || table >"$out"
if [[ -n $json ]]; then
  {
    echo '{"bench": "gpu", "dtype": "f32", "rows": ['
    sed '$!s/$/,/' "$lines"
    echo ']}'
  } >"$json"
fi
exit "$status"
