#!/usr/bin/env bash
# Builds into build/gpu what tests/gpu/run.sh and bench/gpu.sh need, with what the machine has: it installs nothing.
# usage: tests/gpu/build.sh [--for-others]     where the machine has no GPU itself
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/gpu
log=$build/build.log

fail() {
  echo "tests/gpu/build.sh: $*" >&2
  exit 1
}

# A machine without a driver has nothing to run. COCONET_CUDA_PATH may name a driver, too.
[[ ${1-} == --for-others ]] || compgen -G '/dev/nvidia[0-9]*' >/dev/null || [[ -e /dev/dxg || -n ${COCONET_CUDA_PATH-} ]] ||
  command -v nvidia-smi >/dev/null ||
  fail "there is no NVIDIA GPU here: no /dev/nvidia0, no nvidia-smi; in a container, start it with --gpus all."

instead="name the bin folder of an existing build with --bin, or bring a build with --bundle (tests/gpu/bundle.sh)"
command -v cmake >/dev/null || fail "there is no cmake; install 3.25 or newer, or $instead."
version=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
[[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]] ||
  fail "cmake is $version, and 3.25 or newer is needed; pip install cmake has one, or $instead."
generator="Unix Makefiles"
if command -v ninja >/dev/null; then
  generator=Ninja
else
  command -v make >/dev/null || fail "there is neither ninja nor make; install one of them, or $instead."
fi
mkdir -p "$build"

# The tests want Catch2 2.13 and rapidcheck; what follows works without.
probe=$build/probe
mkdir -p "$probe"
cat >"$probe/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(probe LANGUAGES CXX)
find_package(Catch2 2.13 REQUIRED)
find_package(rapidcheck REQUIRED)
TEXT
tests=OFF
if cmake -S "$probe" -B "$probe/build" -G "$generator" >"$probe/log" 2>&1; then
  tests=ON
else
  echo "The test programs are off: $(grep -m 1 'Could not find\|No CMAKE\|not able' "$probe/log" ||
    echo "cmake finds no Catch2 2.13 or no rapidcheck") (see $probe/log)."
fi

: >"$log"
cmake -S "$root" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DCOCONET_TESTS="$tests" \
  -DCOCONET_SAMPLES=OFF -DCOCONET_CUDA=ON >>"$log" 2>&1 || {
  grep -A 4 'CMake Error' "$log" | head -n 12 >&2
  fail "the configuration failed (see $log); docs/building.md lists what a build needs; or $instead."
}
grep -E '^--   (MPI|CUDA|NCCL|tests) ' "$log" || true
targets=(--target coconet --target gpu)
[[ $tests == OFF ]] || targets+=(--target tests_jit)
cmake --build "$build" --parallel "$(nproc)" "${targets[@]}" >>"$log" 2>&1 || {
  grep -m 5 -E 'error|FAILED' "$log" >&2
  fail "the build failed (see $log)."
}
