#!/usr/bin/env bash
# Sets up, builds and runs a sample on MPI ranks: samples/run.sh [SAMPLE] [-n RANKS] [ARGUMENT...]
set -euo pipefail
# shellcheck source=cmake/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"

# The samples, one a line.
samples() {
  (cd "$root/samples" && printf '%s\n' [0-9][0-9]_*) | sed 's/\.cpp$//' | sort -u
}

usage() {
  cat <<TEXT
usage: samples/run.sh [SAMPLE] [-n RANKS] [ARGUMENT...]

Installs what is missing (with apt, as root or with sudo), builds into build/release, and runs SAMPLE, by default
03_train_digits, on RANKS ranks, by default 2. ARGUMENTs are handed to the sample.

samples:
$(samples | sed 's/^/  /')
TEXT
}

sample=03_train_digits
ranks=2
arguments=()
if [[ $# -gt 0 && $1 != -* ]]; then
  sample=$1
  shift
fi
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    -n)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "-n takes a number of ranks, 1 or more, and got '${2-}'."
      ranks=$2
      shift 2
      ;;
    *)
      arguments+=("$1")
      shift
      ;;
  esac
done
samples | grep -qx -- "$sample" ||
  fail "there is no sample '$sample'. The samples are: $(samples | paste -sd ' ')."

install_packages
program=$root/build/release/bin/$sample
if [[ -e $root/samples/$sample/CMakeLists.txt ]]; then
  # An application with a build of its own: against an installation, as anywhere else.
  build_preset release coconet-jit coconet-jit-mpi coconet man
  cmake --install "$root/build/release" --prefix "$root/build/installed" >/dev/null
  cmake -G Ninja -S "$root/samples/$sample" -B "$root/build/$sample" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$root/build/installed" >/dev/null
  cmake --build "$root/build/$sample"
  program=$root/build/$sample/${sample#*_}
else
  build_preset release "$sample" coconet
fi
echo
echo "Running $sample on $ranks ranks"
exec mpirun -n "$ranks" --oversubscribe "$program" "${arguments[@]}"
