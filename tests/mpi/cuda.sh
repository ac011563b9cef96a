#!/usr/bin/env bash
# Processes that map each other's memory of an emulated GPU: bash cuda.sh DIRECTORY-OF-PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"
stubs=$(dirname "$bin")/tests/stubs log=$work/log
export COCONET_BACKEND=cuda COCONET_CUDA_PATH=$stubs:$stubs/nvrtc COCONET_TIMEOUT_S=10
adam=("$bin/coconet" run adam --schedule fused) sgd=("$bin/coconet" run sgd --schedule fused)

# passes WHAT COMMAND...: the check of the step that it runs passes.
passes() {
  "${@:2}" >"$log" 2>&1 || fail "$1 failed"
  grep -q "check passed" "$log" || fail "there was no check: $1"
}

# refused WHAT TEXT COMMAND...: it fails, and says TEXT.
refused() {
  if "${@:3}" >"$log" 2>&1; then fail "no refusal: $1"; fi
  grep -q "$2" "$log" || fail "the refusal is unclear: $1"
}

# A fused kernel in each of several processes, which all use one GPU.
for ranks in 2 3; do
  passes "the fused step on $ranks processes" run_job 60 -n "$ranks" "${adam[@]}" --set n=1001 --iters 20 --check
  ! grep -q "without MPS" "$log" || fail "$ranks processes under MPS were told that they have the GPU in turns"
done

# Kernels that would each fill the GPU: blocks of all processes must be on it at once.
for ranks in 2 3; do
  STUB_CUDA_ROOM=1 STUB_CUDA_SHARED=$work/room$ranks STUB_CUDA_SEED=1 passes "kernels of $ranks processes on one GPU" \
    run_job 60 -n "$ranks" "${adam[@]}" --set n=99999 --check
done
COCONET_CHANNELS=17 refused "17 blocks of each of two processes on a GPU for 32" \
  "are more than the 16 that Stub 0, GPU 0 runs at once for each of 2 processes" run_job 60 -n 2 "${adam[@]}" --set n=10
# Of 3 that a multiprocessor holds each process has one, so that kernels of any size fit beside each other.
STUB_CUDA_REGISTERS=80 COCONET_CHANNELS=5 refused "more than a block on each multiprocessor that holds 3" \
  "are more than the 4 that Stub 0, GPU 0 runs at once for each of 2 processes" run_job 60 -n 2 "${adam[@]}" --set n=10

# Without MPS they have it in turns, which the user is told once.
STUB_CUDA_MPS=0 passes "two processes without MPS" run_job 60 -n 2 "${sgd[@]}" --set n=10 --check
(($(grep -c "ranks 0, 1 share Stub 0, GPU 0 in several processes without MPS" "$log") == 1)) ||
  fail "there is not one warning of time slices"

# Two of four GPUs for two processes, each of which makes a context on its own and on no other.
STUB_CUDA_DEVICES=4 STUB_CUDA_CONTEXTS=$work/contexts passes "the fused step on two GPUs" \
  run_job 60 -n 2 "${sgd[@]}" --set n=4099 --check
only_own() {
  [[ $(cut -d ' ' -f 2 "$work/contexts" | sort | paste -sd ' ') == "0 1" ]] ||
    fail "two processes on GPUs 0 and 1 made these contexts ('process GPU'): $(paste -sd ',' "$work/contexts")"
  rm "$work/contexts"
}
only_own

# A process on each GPU, where streams begin late and what is ready in any order.
STUB_CUDA_DEVICES=2 STUB_CUDA_ROOM=1 STUB_CUDA_COOPERATIVE=1 STUB_CUDA_LAZY_MS=20 STUB_CUDA_SEED=2 \
  passes "overlapped steps on GPUs at their worst" run_job 60 -n 2 "$bin/coconet" run mlp_block \
  --schedule overlapped --set B=3 --set S=100 --set H=33 --set F=20 --iters 12 --check

# Lines of ll128 go between GPUs that NVLink connects, and a process that cannot see the other's GPU
# cannot know.
export COCONET_PROTOCOL=ll128 COCONET_ALGORITHM=ring
STUB_CUDA_DEVICES=2 STUB_CUDA_CONTEXTS=$work/contexts passes "ll128 on two GPUs" \
  run_job 60 -n 2 "${sgd[@]}" --set n=4099 --check
only_own
refused "ll128 on a GPU that rank 0 does not see" \
  "rank 1's (hidden from this process, as by CUDA_VISIBLE_DEVICES) may not have it; use the protocol ll or simple" \
  run_job 60 -n 1 env STUB_CUDA_DEVICES=1 "${sgd[@]}" --set n=10 : \
  -n 1 env STUB_CUDA_DEVICES=2 "${sgd[@]}" --set n=10
unset COCONET_PROTOCOL COCONET_ALGORITHM

# A multicast pointer to the memory of two processes; none where they share a GPU.
multimem=(env COCONET_ALGORITHM=multimem STUB_CUDA_MULTICAST=1)
STUB_CUDA_DEVICES=2 passes "the fused step with a multicast pointer" \
  run_job 60 -n 2 "${multimem[@]}" "${adam[@]}" --set n=4099 --check
refused "a multicast pointer of two processes that share a GPU" \
  "ranks 0 and 1 share Stub 0, GPU 0, and each needs a GPU of its own" \
  run_job 60 -n 2 "${multimem[@]}" "${adam[@]}" --set n=10

# Two nodes of two processes each, with a kernel inside each node. What crosses between nodes is
# NCCL's, whose emulation works between threads only.
cat >"$work/program.json" <<'JSON'
{
  "coconet_program": 1,
  "name": "each_node",
  "mesh": [{"name": "node", "size": 2}, {"name": "gpu", "size": 2}],
  "dims": [{"name": "n", "default": 1000}],
  "values": [
    {"name": "g", "op": "input", "dtype": "f32", "shape": ["n"], "layout": "local"},
    {"name": "w", "op": "state", "dtype": "f32", "shape": ["n"], "layout": {"node": "local"}},
    {"name": "avg", "op": "all_reduce", "operands": ["g"], "reduction": "mean", "axis": "gpu"},
    {"name": "next", "op": "subtract", "operands": ["w", "avg"]},
    {"name": "w.new", "op": "update", "operands": ["w", "next"]}
  ]
}
JSON
cat >"$work/schedule.json" <<'JSON'
{
  "coconet_schedule": 1,
  "name": "inside",
  "steps": [
    {"split": {"op": "avg"}},
    {"reorder": {"all_gather": "avg.all_gather", "before": ["w.new"]}},
    {"fuse": {"kernel": "inside", "kind": "all_reduce", "ops": ["avg.reduce_scatter", "w.all_gather", "w.new"]}}
  ]
}
JSON
passes "a kernel inside each of two nodes" \
  on aabb "$bin/coconet" run "$work/program.json" --schedule "$work/schedule.json" --check

# NCCL wants a GPU for each rank.
refused "a communicator of NCCL of two processes that share a GPU" \
  "needs a GPU for each rank, and ranks 0 and 1 share Stub 0, GPU 0" \
  run_job 60 -n 2 "$bin/coconet" run adam --schedule unfused --set n=10

# One rank fails while the memory is handed over: all ranks are told, none waits.
start=$SECONDS
for function in cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemMap; do
  refused "a failure of $function" "the driver reports CUDA_ERROR_LAUNCH_FAILED" \
    run_job 60 -n 1 env STUB_CUDA_FAIL=$function:0:719 "${adam[@]}" --set n=10 : -n 1 "${adam[@]}" --set n=10
done
((SECONDS - start < 20)) || [[ -z ${TESTS_ALL-} ]] || fail "the ranks waited for the one that failed"

echo "cuda.sh: all checks passed"
