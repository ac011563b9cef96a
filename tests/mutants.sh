#!/usr/bin/env bash
# How strong the suites are: plants changes in a copy of the sources, one at a time, and counts
# those that no test notices. Outside the suites, because it takes hours. tests/mutants.sh --help
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  echo "tests/mutants.sh: $*" >&2
  exit 1
}

usage() {
  cat <<TEXT
usage: tests/mutants.sh [--count N] [--seed N] [--begin N] [--quick-only] [--keep] [--list]

Clones the last commit into a scratch folder, builds it, and changes it in N places, one after another, drawn from all
folders of src/: an operator, a bound, a constant, a memory order, or a statement that goes away or trades places with
the next one. Each is built and run against the quick suite, the tests of its folder first; what survives runs against
all cases, and where it is in code that kernels run, against the search for races, too.
  --count N     mutants (60)
  --seed N      what they, and the quick suite's cases, are drawn by (1)
  --begin N     the drawn change to begin with (1), as each line says: an earlier run goes on where it ended
  --quick-only  nothing runs against all cases
  --keep        keeps the scratch folder
  --list        draws and prints, and builds nothing
A change that does not compile is drawn again. A line a mutant says where it is, what it is and which test killed it.
TEXT
}

count=60 seed=1 begin=1 quick_only=false keep=false list=false
number() { [[ ${2-} =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1 takes a number, 1 or more, and got '${2-}'."; }
while (($# > 0)); do
  case $1 in
    --count) number "$@" && count=$2 && shift ;;
    --seed) number "$@" && seed=$2 && shift ;;
    --begin) number "$@" && begin=$2 && shift ;;
    --quick-only) quick_only=true ;;
    --keep) keep=true ;;
    --list) list=true ;;
    -h | --help) usage && exit 0 ;;
    *) fail "unknown argument '$1'; see tests/mutants.sh --help." ;;
  esac
  shift
done

work=$(mktemp -d)
finish() {
  if $keep; then echo "The scratch folder is $work."; else rm -rf "$work"; fi
}
trap finish EXIT
clone=$work/clone build=$work/clone/build/release log=$work/log
git clone -q --no-hardlinks "$root" "$clone"
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Every possible change, a line each: folder, file, line number, what was there and what comes,
# between tabs. What replaces more than a part of the line has no old text: a lone "-" drops the
# line, "~" swaps it with the next one.
possible_changes() {
  (cd "$clone" && find src -type f \( -name '*.cpp' -o -name '*.h' \) | sort) | while read -r file; do
    awk -v file="$file" '
      function put(from, to) {
        folder = file
        sub("/[^/]*$", "", folder)
        printf "%s\t%s\t%d\t%s\t%s\n", folder, file, NR, from, to
      }
      # Each place of `text` that has `from`.
      function each(from, to,   at, rest) {
        rest = code
        while ((at = index(rest, from)) > 0) {
          put(from, to)
          rest = substr(rest, at + length(from))
          break  # one place a line and kind
        }
      }
      # Statements that do something: calls, assignments.
      function is_statement(text) {
        return text ~ /^ +[a-zA-Z_][a-zA-Z_0-9:.>()*\[\]-]*(\(.*\)| [-+|&]?= .*);$/ &&
          text !~ /^ +(return|throw|using|break|continue|if|for|while|else|static_assert|case|goto|delete)/
      }
      {
        code = $0
        sub(/\/\/.*$/, "", code)
        if (code ~ /^ *#/ || code ~ /^ *(template|static_assert|using|namespace|class|struct)/) { last = ""; next }
        bare = code
        gsub(/"([^"\\]|\\.)*"/, "", bare)  # changes in texts are for those kernels only whose texts these are
        if (file !~ /prelude|codegen/) code = bare
        each(" < ", " <= "); each(" <= ", " < "); each(" > ", " >= "); each(" >= ", " > ")
        each(" == ", " != "); each(" != ", " == "); each(" && ", " || "); each(" || ", " && ")
        each(" + ", " - "); each(" - ", " + "); each(" * ", " + "); each(" / ", " * "); each(" % ", " / ")
        each("++", "--"); each(" += ", " -= "); each("(!", "(")
        each("true", "false"); each("false", "true")
        each("min(", "max("); each("max(", "min("); each(".begin()", ".end()"); each("first", "last")
        each("__ATOMIC_RELEASE", "__ATOMIC_RELAXED"); each("__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED")
        each("memory_order_release", "memory_order_relaxed"); each("memory_order_acquire", "memory_order_relaxed")
        each(".release.", ".relaxed."); each(".acquire.", ".relaxed.")
        if (match(code, /[ (\[{][0-9]+[;,) \]}]/)) {
          old = substr(code, RSTART, RLENGTH)
          number = substr(old, 2, RLENGTH - 2)
          put(old, substr(old, 1, 1) (number + 1) substr(old, RLENGTH))
        }
        if (is_statement(bare)) put("", "-")
        if (is_statement(bare) && is_statement(last)) {
          match(bare, /^ */); own = RLENGTH
          match(last, /^ */)
          if (own == RLENGTH) { NR -= 1; put("", "~"); NR += 1 }
        }
        last = bare
      }' "$clone/$file"
  done
}

# In an order that the seed gives: folders take turns, each with one of its changes that has not
# been drawn.
drawn_changes() {
  awk -F '\t' -v seed="$seed" 'BEGIN { srand(seed) } { print rand() "\t" $0 }' | LC_ALL=C sort -k 1,1 |
    awk -F '\t' -v seed="$seed" '
      BEGIN { srand(seed + 1) }
      { if (!($2 in turn)) shift_of[$2] = rand(); printf "%.6f\t", turn[$2]++ + shift_of[$2]; sub(/^[^\t]*\t/, ""); print }' |
    LC_ALL=C sort -n -k 1,1 | cut -f 2-
}

# The tests that are about a file.
tests_of() {
  case $1 in
    src/ir/*) echo '^ir/|^sched/' ;;
    src/sched/*) echo '^sched/|^jit/executable' ;;
    src/cli/*) echo '^cli/|^mpi/cli' ;;
    src/jit/cache/*) echo '^cache/|^cli/cache' ;;
    src/jit/config/*) echo '^jit/config|^cli/' ;;
    src/jit/comm/*) echo '^jit/comm|^mpi/(comm|nodes)' ;;
    src/jit/kernels/*) echo '^jit/(election|kernel_store|executable)|^mpi/compile|^cuda/launch' ;;
    src/jit/platform/cuda/*) echo '^cuda/' ;;
    src/jit/platform/*) echo '^jit/(host_compiler|executable)|^cuda/launch' ;;
    src/jit/prelude/cuda/*) echo '^jit/nvrtc' ;;
    src/jit/prelude/* | src/jit/exchange/* | src/jit/abi/*)
      echo '^jit/(prelude|math|host_threads|mailbox|conformance_collective|conformance_overlap)' ;;
    src/jit/codegen/*) echo '^jit/(conformance|table|property)' ;;
    *) echo '^jit/(executable|scattered|tile_counts|bad_input|overlap|conformance)' ;;
  esac
}
# What says nothing about the sources' behaviour.
readonly apart='^(layers/|package|scripts)'

# The test that fails first, if one does, of those that ctest selects with the arguments. Parallel runs begin with what
# took longest, as ctest's own file of times says; here, where the first failure ends a run, with what took least.
killer() {
  local times=$build/Testing/Temporary/CTestCostData.txt
  [[ ! -e $work/times ]] || awk 'NF == 3 { print $1, $2, 1000 / (0.01 + $3) }' "$work/times" >"$times"
  (cd "$clone" && timeout 7200 ctest --test-dir "$build" --parallel "$(($(nproc) + 3))" --stop-on-failure --timeout 300 "$@") \
    >"$log" 2>&1 && return 1
  sed -n '/\*\*\*Skipped/d; s/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Timeout\)\?.*/\1 \2/p' "$log" |
    sed 's/ Timeout$/ (out of time)/; s/ $//' | head -n 1
}
# killed_by FILE: by the tests of the file, or by the others.
killed_by() {
  local of_file
  of_file=$(tests_of "$1")
  killer -R "$of_file" -E "$apart" || killer -E "$apart|$of_file"
}
races() {
  (cd "$clone" && cmake --preset tsan -DCOCONET_WERROR=OFF && cmake --build --preset tsan --target tests_race &&
    ctest --preset tsan --parallel "$(nproc)" -R '^race/') >"$log" 2>&1
}

# Makes the change in $file at line $at.
change() {
  awk -v at="$at" -v from="$from" -v to="$to" '
    NR == at && from == "" && to == "-" { next }
    NR == at && from == "" { held = $0; next }
    NR == at { i = index($0, from); $0 = substr($0, 1, i - 1) to substr($0, i + length(from)) }
    { print }
    held != "" { print held; held = "" }' "$clone/$file" >"$work/changed"
  ! cmp -s "$work/changed" "$clone/$file" || return 1
  cat "$work/changed" >"$clone/$file"
}
described() {
  case $from$to in
    -) echo "without: $1" ;;
    \~) echo "after the next line: $1" ;;
    *) echo "'${from}' -> '${to}': $1" ;;
  esac
}

possible_changes | drawn_changes >"$work/changes"
echo "$(wc -l <"$work/changes") possible changes in $(cut -f 1 "$work/changes" | sort -u | wc -l) folders, drawn by seed $seed"

if ! $list; then
  (cd "$clone" && cmake --preset release -DCOCONET_WERROR=OFF -DCOCONET_BENCH=OFF && cmake --build --preset release) \
    >"$log" 2>&1 || { tail -n 20 "$log" >&2 && fail "the sources do not build as they are."; }
  export TESTS_SEED=$seed
  if first=$(killer -E "$apart"); then
    keep=true
    fail "the test '$first' fails on the sources as they are; see $log."
  fi
  cp -a "$build/test_cache" "$work/test_cache"
  cp "$build/Testing/Temporary/CTestCostData.txt" "$work/times"
fi

mutants=0 quick=0 all=0 uncompiled=0 drawn=0
while ((mutants < count)) && IFS=$'\x1f' read -r _ file at from to <&3; do
  drawn=$((drawn + 1))
  ((drawn >= begin)) || continue
  line=$(sed -n "${at}s/^ *//p" "$clone/$file")
  change || continue
  if $list; then
    mutants=$((mutants + 1))
    echo "$mutants/$count, change $drawn: $file:$at: $(described "$line")"
  elif ! cmake --build "$build" >"$log" 2>&1; then
    uncompiled=$((uncompiled + 1))
  else
    mutants=$((mutants + 1))
    # A mutant may leave anything in the cache.
    rm -rf "$build/test_cache" && cp -a "$work/test_cache" "$build/test_cache"
    if test=$(killed_by "$file"); then
      quick=$((quick + 1)) all=$((all + 1))
      fate="killed by $test"
    elif $quick_only; then
      fate="SURVIVED the quick suite"
    elif test=$(TESTS_ALL=1 killed_by "$file"); then
      all=$((all + 1))
      fate="survived the quick suite, killed by all cases of $test"
    elif [[ $file == src/jit/@(prelude|exchange|codegen|abi)/* ]] && ! races; then
      all=$((all + 1))
      fate="survived the quick suite, killed by a race"
    else
      fate="SURVIVED"
    fi
    echo "$mutants/$count, change $drawn: $file:$at: $(described "$line"): $fate"
  fi
  git -C "$clone" checkout -q -- "$file"
done 3< <(tr '\t' '\037' <"$work/changes")
$list && exit 0
((mutants == count)) || echo "There are no more than $mutants."

echo "seed $seed: $mutants mutants ($uncompiled more did not compile); the quick suite kills $quick"
if ! $quick_only; then
  missed=$((all - quick))
  echo "all cases kill $all, of which the quick suite misses $missed" \
    "($(awk "BEGIN { printf \"%.1f\", $all > 0 ? 100 * $missed / $all : 0 }") %); $((mutants - all)) survive both"
fi
