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

Installs what is missing (with apt, as root or with sudo), builds into build/release, and runs all tests. With
--sanitizers it first does the same with the presets asan (address and undefined) and tsan (thread).
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
exit "$status"
