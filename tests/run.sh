#!/usr/bin/env bash
# Sets up, builds and runs the tests: tests/run.sh [--all] [--sanitizers]
set -euo pipefail
# shellcheck source=cmake/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"

all=false sanitizers=false
for argument in "$@"; do
  case $argument in
    --all)
      all=true
      ;;
    --sanitizers)
      sanitizers=true
      ;;
    -h | --help)
      cat <<TEXT
usage: tests/run.sh [--all] [--sanitizers]

Installs what is missing (with apt, as root or with sudo), builds into build/release, and runs the quick suite: every
claim, with some cases of the large products (of ops, dtypes, layouts, schedules, algorithms, ranks, ...).
  --all         runs many more of those cases (tests/CMakeLists.txt says how many), what takes long, and assertions about
                time; looks for races in kernels, with as much of the preset tsan (thread) in build/tsan as that takes, and
                for hostile input, 20 s for each fuzzer of the preset fuzz in build/fuzz where there is clang with libFuzzer;
                fetches CUDA's nvdisasm from PyPI into build/nvdisasm, and Debian's smallest system from apt's mirror, as
                root, to install packages in it
  --sanitizers  first builds and tests all of the presets asan (address and undefined) and tsan
Environment:
  TESTS_SEED    a number, which cases are drawn by; a run prints its own, and a failing test repeats it
TEXT
      exit 0
      ;;
    *)
      fail "unknown argument '$argument'; see tests/run.sh --help."
      ;;
  esac
done

export TESTS_SEED=${TESTS_SEED:-$((RANDOM * 32768 + RANDOM))}
drawn="Cases are drawn with TESTS_SEED=$TESTS_SEED$($all || echo '; --all runs more of them')."
[[ $TESTS_SEED =~ ^[0-9]{1,18}$ ]] || fail "TESTS_SEED is '$TESTS_SEED'; it must be a number."
if $all; then
  export TESTS_ALL=1
fi

# CUDA's disassembler into build/nvdisasm, where jit/nvrtc_shipped looks for it. The digest is that of the wheel for x86-64.
fetch_nvdisasm() {
  local wheel='nvidia-cuda-nvdisasm==13.5.37 --hash=sha256:d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca'
  [[ ! -x $root/build/nvdisasm/nvidia/cu13/bin/nvdisasm ]] || return 0
  mkdir -p "$root/build/nvdisasm"
  (cd "$root/build/nvdisasm" && echo "$wheel" >wheel.txt &&
    python3 -m pip download --quiet --no-deps --require-hashes --only-binary :all: -r wheel.txt &&
    cmake -E tar xf ./*.whl && chmod +x nvidia/cu13/bin/nvdisasm) ||
    echo "PyPI gave no nvdisasm, for the reason above: the machine code of GPU kernels is not looked at."
}

if $all; then
  # For the API reference, the manual page, and Debian's packages in a system of their own; doxygen is 45 MB of downloads.
  packages+=(doxygen groff-base debootstrap dpkg-dev file)
fi
install_packages
if $all; then
  fetch_nvdisasm
fi
echo "$drawn"
status=0
# run PRESET ARGUMENTS...: ctest. Three tests more than there are cores, because many wait: for deadlines, other ranks.
run() {
  local preset=$1
  shift
  (cd "$root" && ctest --preset "$preset" --parallel "$(($(nproc) + 3))" "$@") || status=$?
}
# Whether there is a clang that links fuzzers.
has_fuzzer() {
  local program
  program=$(mktemp) || return
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -x c++ -std=c++20 -fsanitize=fuzzer,address,undefined - -o "$program" >/dev/null 2>&1
  local found=$?
  rm -f "$program"
  return $found
}

if $sanitizers; then
  for preset in asan tsan; do
    build_preset "$preset"
    run "$preset"
  done
elif $all; then
  build_preset tsan tests_race
  run tsan --tests-regex '^race/'
fi
if $all; then
  if has_fuzzer; then
    build_preset fuzz
    run fuzz
  else
    echo "There is no clang++ with libFuzzer (Debian: clang), so that inputs are not fuzzed: fuzz/replay only replays them."
  fi
fi
if $all; then
  unity=OFF
  build_preset release all bench
else
  build_preset release
fi
run release
((status == 0)) || echo "$drawn"
exit "$status"
