#!/usr/bin/env bash
# Sets up, builds everything and runs the whole test suite: tests/run.sh [--sanitizers]
set -euo pipefail
# shellcheck source=cmake/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"

presets=(release)
for argument in "$@"; do
  case $argument in
    --sanitizers)
      presets=(asan tsan release)
      ;;
    -h | --help)
      cat <<TEXT
usage: tests/run.sh [--sanitizers]

Installs what is missing (with apt, as root or with sudo), builds into build/release, and runs all tests. Then it
looks for races in kernels, with as much of the preset tsan (thread) in build/tsan as that takes. With --sanitizers it
first builds and tests all of the presets asan (address and undefined) and tsan.
TEXT
      exit 0
      ;;
    *)
      fail "unknown argument '$argument'; see tests/run.sh --help."
      ;;
  esac
done

install_packages
status=0
for preset in "${presets[@]}"; do
  build_preset "$preset"
  (cd "$root" && ctest --preset "$preset" --parallel "$(nproc)") || status=$?
done
if [[ " ${presets[*]} " != *" tsan "* ]]; then
  build_preset tsan tests_race
  (cd "$root" && ctest --preset tsan --parallel "$(nproc)" --tests-regex '^race/') || status=$?
fi
exit "$status"
