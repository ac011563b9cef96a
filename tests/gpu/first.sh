#!/usr/bin/env bash
# The first minutes on a machine with a GPU, in two calls: tests/gpu/first.sh A|B [--out DIR]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  cat <<TEXT
usage: tests/gpu/first.sh A|B [--out DIR] [--bin DIR] [--small] [--slack N]

Runs the parts of one call of tests/gpu/run.sh, whose --help lists them: A, in at most 7 minutes, what the machine is,
whether results are right, and the times that say most; B, in at most 5, what NVIDIA's tools and several processes say.
It needs no network. In a bundle of tests/gpu/bundle.sh it takes the programs of that.

  --out DIR   where call-A.md or call-B.md, the table, and what failing checks printed go; default gpu-first in the
              bundle, or build/gpu/first
  --bin DIR   the bin folder of an existing build; without it and a bundle, one is made in build/gpu, which takes longer
  --small     a small part of everything, to try this script
  --slack N   limits of time N times as long, as for an emulated GPU
TEXT
}

fail() {
  echo "tests/gpu/first.sh: $*" >&2
  exit 1
}

call='' out='' programs=() others=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    A | B)
      call=$1
      shift
      ;;
    --out | --bin | --slack)
      [[ -n ${2-} ]] || fail "$1 takes an argument; see tests/gpu/first.sh --help."
      case $1 in
        --out) out=$2 ;;
        --bin) programs=(--bin "$2") ;;
        *) others+=("$1" "$2") ;;
      esac
      shift 2
      ;;
    --small)
      others+=(--small)
      shift
      ;;
    *) fail "unknown argument '$1'; see tests/gpu/first.sh --help." ;;
  esac
done
[[ -n $call ]] || fail "which call, A or B? See tests/gpu/first.sh --help."
if ((${#programs[@]} == 0)) && [[ -x $root/bin/coconet && -d $root/own_glibc ]]; then
  programs=(--bundle "$root")
  : "${out:=$root/gpu-first}"
fi
: "${out:=$root/build/gpu/first}"
mkdir -p "$out"
exec "$root/tests/gpu/run.sh" --call "$call" --out "$out/call-$call.md" "${programs[@]}" "${others[@]}"
