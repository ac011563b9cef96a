#!/usr/bin/env bash
# Processes that map each other's memory of an emulated GPU: bash cuda.sh DIRECTORY-OF-PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"
stubs=$(dirname "$bin")/tests/stubs log=$work/log
export COCONET_BACKEND=cuda COCONET_CUDA_PATH=$stubs:$stubs/nvrtc COCONET_TIMEOUT_S=10

# A fused kernel in each of several processes, which all use one GPU.
for ranks in 2 3; do
  run_job 60 -n "$ranks" "$bin/coconet" run adam --schedule fused --set n=1001 --iters 20 --check >"$log" 2>&1 ||
    fail "the fused step failed on $ranks processes"
  grep -q "check passed" "$log" || fail "there was no check on $ranks processes"
  ! grep -q "without MPS" "$log" || fail "$ranks processes under MPS were told that they have the GPU in turns"
done

# Kernels that would each fill the GPU: blocks of all processes must be on it at once.
for ranks in 2 3; do
  STUB_CUDA_ROOM=1 STUB_CUDA_SHARED=$work/room$ranks STUB_CUDA_SEED=1 run_job 60 -n "$ranks" \
    "$bin/coconet" run adam --schedule fused --set n=99999 --check >"$log" 2>&1 ||
    fail "the kernels of $ranks processes do not fit on their GPU"
done
if COCONET_CHANNELS=17 run_job 60 -n 2 "$bin/coconet" run adam --schedule fused --set n=10 >"$log" 2>&1; then
  fail "17 blocks of each of two processes ran on a GPU for 32"
fi
grep -q "are more than the 16 that Stub 0, GPU 0 runs at once for each of 2 processes" "$log" ||
  fail "the refusal of too many blocks is unclear"
# Of 3 that a multiprocessor holds each process has one, so that kernels of any size fit beside each other.
if STUB_CUDA_REGISTERS=80 COCONET_CHANNELS=5 run_job 60 -n 2 "$bin/coconet" run adam --schedule fused --set n=10 \
  >"$log" 2>&1; then
  fail "two processes got more than a block on each multiprocessor that holds 3"
fi
grep -q "are more than the 4 that Stub 0, GPU 0 runs at once for each of 2 processes" "$log" ||
  fail "the refusal of more than a share is unclear"

# Without MPS they have it in turns, which the user is told once.
STUB_CUDA_MPS=0 run_job 60 -n 2 "$bin/coconet" run sgd --schedule fused --set n=10 --check >"$log" 2>&1 ||
  fail "two processes failed without MPS"
(($(grep -c "ranks 0, 1 share Stub 0, GPU 0 in several processes without MPS" "$log") == 1)) ||
  fail "there is not one warning of time slices"

# Two of four GPUs for two processes, each of which makes a context on its own and on no other.
STUB_CUDA_DEVICES=4 STUB_CUDA_CONTEXTS=$work/contexts run_job 60 -n 2 "$bin/coconet" run sgd --schedule fused \
  --set n=4099 --check >"$log" 2>&1 || fail "the fused step failed on two GPUs"
only_own() {
  [[ $(cut -d ' ' -f 2 "$work/contexts" | sort | paste -sd ' ') == "0 1" ]] ||
    fail "two processes on GPUs 0 and 1 made these contexts ('process GPU'): $(paste -sd ',' "$work/contexts")"
  rm "$work/contexts"
}
only_own

# A process on each GPU, where streams begin late and what is ready in any order.
STUB_CUDA_DEVICES=2 STUB_CUDA_ROOM=1 STUB_CUDA_COOPERATIVE=1 STUB_CUDA_LAZY_MS=20 STUB_CUDA_SEED=2 \
  run_job 60 -n 2 "$bin/coconet" run mlp_block --schedule overlapped --set B=3 --set S=100 --set H=33 --set F=20 \
  --iters 12 --check >"$log" 2>&1 || fail "overlapped steps failed on GPUs at their worst"
grep -q "check passed" "$log" || fail "there was no check of overlapped steps"

# Lines of ll128 go between GPUs that NVLink connects, and a process that cannot see the other's GPU
# cannot know.
export COCONET_PROTOCOL=ll128 COCONET_ALGORITHM=ring
STUB_CUDA_DEVICES=2 STUB_CUDA_CONTEXTS=$work/contexts run_job 60 -n 2 "$bin/coconet" run sgd --schedule fused \
  --set n=4099 --check >"$log" 2>&1 || fail "ll128 failed on two GPUs"
only_own
if run_job 60 -n 1 env STUB_CUDA_DEVICES=1 "$bin/coconet" run sgd --schedule fused --set n=10 : \
  -n 1 env STUB_CUDA_DEVICES=2 "$bin/coconet" run sgd --schedule fused --set n=10 >"$log" 2>&1; then
  fail "ll128 ran on a GPU that rank 0 does not see"
fi
grep -q "rank 1's (hidden from this process, as by CUDA_VISIBLE_DEVICES) may not have it; use the protocol ll or simple" \
  "$log" || fail "the refusal of ll128 is unclear"
unset COCONET_PROTOCOL COCONET_ALGORITHM

# A multicast pointer to the memory of two processes; none where they share a GPU.
multimem=(env COCONET_ALGORITHM=multimem STUB_CUDA_MULTICAST=1)
STUB_CUDA_DEVICES=2 run_job 60 -n 2 "${multimem[@]}" "$bin/coconet" run adam --schedule fused --set n=4099 --check \
  >"$log" 2>&1 || fail "the fused step failed with a multicast pointer"
grep -q "check passed" "$log" || fail "there was no check with a multicast pointer"
if run_job 60 -n 2 "${multimem[@]}" "$bin/coconet" run adam --schedule fused --set n=10 >"$log" 2>&1; then
  fail "two processes that share a GPU got a multicast pointer"
fi
grep -q "ranks 0 and 1 share Stub 0, GPU 0, and each needs a GPU of its own" "$log" || fail "that refusal is unclear"

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
on aabb "$bin/coconet" run "$work/program.json" --schedule "$work/schedule.json" --check >"$log" 2>&1 ||
  fail "a kernel inside each of two nodes failed"
grep -q "check passed" "$log" || fail "there was no check on two nodes"

# NCCL wants a GPU for each rank.
if run_job 60 -n 2 "$bin/coconet" run adam --schedule unfused --set n=10 >"$log" 2>&1; then
  fail "two processes that share a GPU got a communicator of NCCL"
fi
grep -q "needs a GPU for each rank, and ranks 0 and 1 share Stub 0, GPU 0" "$log" || fail "NCCL's refusal is unclear"

# One rank fails while the memory is handed over: all ranks are told, none waits.
start=$SECONDS
for function in cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemMap; do
  if run_job 60 -n 1 env STUB_CUDA_FAIL=$function:0:719 "$bin/coconet" run adam --schedule fused --set n=10 : \
    -n 1 "$bin/coconet" run adam --schedule fused --set n=10 >"$log" 2>&1; then
    fail "the failure of $function went unnoticed"
  fi
  grep -q "the driver reports CUDA_ERROR_LAUNCH_FAILED" "$log" || fail "the failure of $function is not told"
done
((SECONDS - start < 20)) || [[ -z ${TESTS_ALL-} ]] || fail "the ranks waited for the one that failed"

echo "cuda.sh: all checks passed"
