#!/usr/bin/env bash
# tests/gpu/run.sh on the emulated GPU, with stand-ins for NVIDIA's tools: bash run_test.sh BIN_DIR
set -euo pipefail
if [[ -z ${TESTS_ALL-} ]]; then
  echo "skipped: it takes the benchmarks, which are built for TESTS_ALL=1 (target bench)"
  exit 77
fi
bin=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "run_test.sh: $*" >&2
  exit 1
}
# has TABLE LINE...
has() {
  local line
  for line in "${@:2}"; do
    grep -q -F -- "$line" "$1" || fail "the table has no line '$line': $(cat "$1")"
  done
}

# They run what follows their options, and say what NVIDIA's say.
mkdir "$work/tools"
cat >"$work/tools/ncu" <<'TEXT'
#!/usr/bin/env bash
while [[ $1 != */coconet ]]; do shift; done
"$@" || exit
echo '==PROF== Disconnected from process 7'
echo '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
head='"0","7","coconet","127.0.0.1","adam_fused_kernel(Launch<Args>, int)","1","7","(256, 1, 1)","(132, 1, 1)","0","9.0","Command line profiler metrics"'
echo "$head,\"dram__bytes_read.sum\",\"Mbyte\",\"1,268.4\""
echo "$head,\"smsp__average_warps_issue_stalled_membar_per_issue_active.ratio\",\"inst\",\"0.25\""
TEXT
cat >"$work/tools/compute-sanitizer" <<'TEXT'
#!/usr/bin/env bash
while [[ $1 != */coconet ]]; do shift; done
"$@" || exit
[[ $* == *lamb* ]] && echo "========= ERROR SUMMARY: 2 errors" && exit 99
echo "========= ERROR SUMMARY: 0 errors"
TEXT
chmod +x "$work"/tools/*
export PATH=$work/tools:$PATH
# The emulated driver may be slow.
export COCONET_TIMEOUT_S=30

code=0
"$root/tests/gpu/run.sh" --small --slack 5 --bin "$bin" --out "$work/first.md" ${TESTS_ALL:+--all} >"$work/said" || code=$?
((code == 1)) || fail "an error of compute-sanitizer ended with $code: $(cat "$work/said")"
# With --small every fourth of the fused optimizers, in f32 and in mixed precision.
fused=$("$bin/coconet" programs --schedules | grep -v _block | grep -c ' fused$')
sampled=$(((2 * fused + 3) / 4))
has "$work/first.md" "# Results on Stub 0, sm_90" "| one run with its check | " "| copy on the GPU" \
  "| two kernels that wait for each other, cooperative, branches of a graph |" "| barrier of 8 ranks on one GPU |" \
  "| sample: shipped programs | $sampled of $sampled runs pass |" "| sample: fused adam on 4 ranks, every exchange in a kernel | 2 of 2 algorithms and protocols pass |" \
  "| graphs: unfused adam, 80 steps on 4 ranks | 1 of 1 runs pass |" "| graphs: every other kind of plan, 80 steps | 3 of 3 runs pass |" \
  "| fused LAMB, 1 rank | 2^12 |" "| [2^20, 64] + [64] in f32, 1 rank |" "| mlp_block, overlapped, bf16, 2 ranks on one GPU |" \
  "| the device | is kept open by a process of its own |" "| fused Adam, 1 rank | 2^12 |" "| step of 1 kernel, COCONET_GRAPH=on, enqueue only |" "| matmul, f32, one rank |" \
  "n = 2^10 | dram__bytes_read.sum 1,268.4 Mbyte; stall membar 0.25 inst |" \
  "| synccheck: fused adam on 4 ranks | ERROR SUMMARY: 0 errors |" \
  "| racecheck: fused lamb on 2 ranks | FAILED: exit code 99, ERROR SUMMARY: 2 errors; see $work/first.md.log |"
grep -q "==== racecheck: fused lamb on 2 ranks ended with 99 ====" "$work/first.md.log" || fail "the log lacks what failed"
(($(grep -c FAILED "$work/first.md") == 3)) || fail "more failed than the sanitizer's: $(grep FAILED "$work/first.md")"

# The probe tells what a GPU does that runs cooperative launches one by one, and no others.
STUB_CUDA_COOPERATIVE=1 "$bin/bench_gpu" handshakes --small >"$work/probe"
for place in "two streams" "branches of a graph"; do
  grep -q "wait for each other, $place | .*at once" "$work/probe" && grep -q "cooperative, $place | .*one after the other" "$work/probe" ||
    fail "the probe of $place is wrong: $(cat "$work/probe")"
done

# A part that hangs or crashes loses only itself, and the table is there in between.
mkdir -p "$work/tree/tests"
cp -r "$root/tests/gpu" "$work/tree/tests/"
cp -r "$root/bench" "$work/tree/"
cd "$work/tree/tests/gpu"
sed -i 's/"probes A [0-9]*/"probes A 1/' run.sh
# shellcheck disable=SC2016
printf 'grep -q "^| part machine |" "$out" || exit 9\necho "| probe | begun |" >>"$rows"\nsleep 60\n' >parts/probes.sh
# shellcheck disable=SC2016
printf 'kill -SEGV $$\n' >parts/sample.sh
./run.sh --small --bin "$bin" --out "$work/second.md" --parts machine,probes,sample,sanitizer >"$work/said" &&
  fail "a part that hangs is no failure"
has "$work/second.md" "| part machine | " "| probe | begun |" \
  "| part probes | FAILED: stopped after 1 s; what it had by then is above |" \
  "| part sample | FAILED: ended with code 139" "| memcheck: fused adam on 4 ranks | ERROR SUMMARY: 0 errors |"
echo "run_test.sh: all checks passed"
