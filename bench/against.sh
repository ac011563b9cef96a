#!/usr/bin/env bash
# How long a fused step takes beside the same of an earlier state of the library: bench/against.sh [--pairs N] REVISION
set -euo pipefail
# shellcheck source=cmake/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"

usage() {
  cat <<TEXT
usage: bench/against.sh [--pairs N] REVISION

Builds the command of this tree and that of REVISION, a revision of git, and runs one fused Adam step of f32 parameters on 2
MPI ranks with both, in pairs: one after the other, which of them is first by turns. A row a number of elements:
  this, other  medians of the pairs' medians of many steps, ms
  ratio        the median of the pairs' this / other, and its quartiles: 1.02 is 2 % slower than REVISION

  --pairs N  for the few elements, default 61; for the many a third of that. A step of few takes a microsecond, and differs
             between runs by a tenth and more
TEXT
}

pairs=61 revision=''
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --pairs)
      [[ ${2-} =~ ^[1-9][0-9]{0,3}$ ]] || fail "--pairs takes a number from 1 to 9999."
      pairs=$2
      shift 2
      ;;
    *)
      [[ -z $revision && $1 != -* ]] || fail "unknown argument '$1'; see bench/against.sh --help."
      revision=$1
      shift
      ;;
  esac
done
[[ -n $revision ]] || fail "name a revision of git to compare with, such as HEAD~10; see bench/against.sh --help."
commit=$(git -C "$root" rev-parse --verify --quiet "$revision^{commit}") || fail "git knows no revision '$revision'."

install_packages
build_preset release coconet
other=$root/build/against/${commit:0:12}
if [[ ! -e $other/source/CMakeLists.txt ]]; then
  mkdir -p "$other/source"
  git -C "$root" archive "$commit" | tar -x -C "$other/source"
fi
# With the same preset: its options for the compiler are not CMake's own.
build_other() {
  (cd "$other/source" && cmake --preset release -B "$other" -DCOCONET_SAMPLES=OFF -DCOCONET_BENCH=OFF >/dev/null &&
    cmake --build "$other" --target coconet)
}
build_other || fail "the build of $revision failed."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
oversubscribe=()
(($(nproc) >= 2)) || oversubscribe=(--oversubscribe)
# ms TREE ELEMENTS STEPS: the median time of a step.
ms() {
  COCONET_CACHE_DIR=$work/cache mpirun -n 2 "${oversubscribe[@]}" "$1/bin/coconet" run adam --schedule fused --set "n=$2" \
    --iters "$3" --json "$work/result.json" >/dev/null || fail "$1/bin/coconet failed."
  sed -n 's/.*"ms_median": *\([0-9.e+-]*\).*/\1/p' "$work/result.json" | head -n 1
}
# quartile K FILE: of the numbers in FILE.
quartile() { sort -g "$2" | awk -v k="$1" '{ x[NR] = $1 } END { print x[int(1 + (NR - 1) * k / 4 + 0.5)] }'; }

echo "One fused Adam step on 2 ranks, this tree against ${commit:0:12}:"
printf '%10s %6s %10s %10s   %s\n' elements pairs this other 'ratio (quartiles)'
for size in "2^12 20000 $pairs" "2^24 30 $(((pairs + 2) / 3))"; do
  read -r n steps pairs <<<"$size"
  : >"$work/this" && : >"$work/other" && : >"$work/ratio"
  ms "$root/build/release" "$n" 3 >/dev/null # so that the kernels are compiled
  ms "$other" "$n" 3 >/dev/null
  for ((pair = 0; pair < pairs; ++pair)); do
    if ((pair % 2 == 0)); then
      this=$(ms "$root/build/release" "$n" "$steps")
      that=$(ms "$other" "$n" "$steps")
    else
      that=$(ms "$other" "$n" "$steps")
      this=$(ms "$root/build/release" "$n" "$steps")
    fi
    echo "$this" >>"$work/this"
    echo "$that" >>"$work/other"
    awk -v a="$this" -v b="$that" 'BEGIN { print a / b }' >>"$work/ratio"
  done
  printf '%10s %6s %10.4f %10.4f   %.3f (%.3f to %.3f)\n' "$n" "$pairs" "$(quartile 2 "$work/this")" "$(quartile 2 "$work/other")" \
    "$(quartile 2 "$work/ratio")" "$(quartile 1 "$work/ratio")" "$(quartile 3 "$work/ratio")"
done
