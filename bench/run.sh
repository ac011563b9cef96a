#!/usr/bin/env bash
# Sets up, builds and runs the benchmark on two MPI ranks: bench/run.sh [--quick] [--json FILE]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"

usage() {
  cat <<TEXT
usage: bench/run.sh [--quick] [--json FILE]

Installs what is missing (with apt, as root or with sudo), builds into build/release, and times one Adam step of f32
parameters on 2 ranks for n = 2^10, 2^12, ... 2^24 parameters. A row a schedule of this library and size:
  ms           this library
  peer_ms      MPI_Allreduce, then the update as one vectorized loop
  floor_ms     ReduceScatter, Adam and AllGather as one hand-written loop over shared memory
  ratio_peer   peer_ms / ms: how many times faster than the peer
  ratio_floor  ms / floor_ms: 1 is as fast as by hand
All are medians of 15 interleaved samples after a warm-up, of the slower rank.

  --quick      only n = 2^12, 2^18, 2^24
  --json FILE  writes the rows to FILE, too
TEXT
}

arguments=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --quick)
      arguments+=("$1")
      shift
      ;;
    --json)
      [[ -n ${2-} ]] || fail "--json takes a file."
      arguments+=("$1" "$2")
      shift 2
      ;;
    *) fail "unknown argument '$1'; there are --quick and --json FILE." ;;
  esac
done

install_packages
build_preset release adam

# Where there are fewer than two cores the ranks must take turns, and MPI is to be told.
oversubscribe=()
(($(nproc) >= 2)) || oversubscribe=(--oversubscribe)
exec mpirun -n 2 "${oversubscribe[@]}" "$root/build/release/bin/adam" "${arguments[@]}"
