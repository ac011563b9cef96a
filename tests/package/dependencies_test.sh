#!/usr/bin/env bash
# Compares docs/dependencies.md with the truth: dependencies_test.sh SOURCE_DIR HAS_MPI BINARY...
# What BINARYs are linked against, what the sources load, and what the build looks for must be in the list, and the list must
# have no more.
set -euo pipefail
source=$1 has_mpi=$2
shift 2
list=$source/docs/dependencies.md

fail() {
  echo "dependencies_test: $*" >&2
  exit 1
}

# listed SECTION: the names in backquotes in the first column of the section's table.
listed() {
  sed -n "/^## $1/,/^## /p" "$list" | sed -n '/^| what\|^| library/d; s/^| \([^|]*\) |.*/\1/p' | grep -o '`[^`]*`' | tr -d '`' |
    sort -u
}
# compare SECTION WHAT NAMES: one name a line, in the section and nowhere else.
compare() {
  local missing stale
  missing=$(comm -13 <(listed "$1") <(sort -u <<<"$3"))
  stale=$(comm -23 <(listed "$1") <(sort -u <<<"$3"))
  [[ -z $missing ]] || fail "the table '$1' of docs/dependencies.md lacks what $2:" $missing
  [[ -z $stale ]] || fail "the table '$1' of docs/dependencies.md has, but nothing $2:" $stale
}

# libcrypto.so.3 without its version. The loader is libc's, and named by some builds only.
needed=$(for binary in "$@"; do
  readelf -d "$binary"
done | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*\]/\1/p' | grep -vE '^(libcoconet-jit|ld-linux)' | sort -u)
[[ $has_mpi == ON ]] || needed+=$'\nlibmpi'
compare Linked "the binaries need" "$needed"

loaded=$(cd "$source/src" && grep -rhoE --include='*.cpp' --include='*.h' '"lib[A-Za-z]+\.so' . | tr -d '"' | sed 's/\.so$//')
compare "Loaded or started at run time" "the library loads" "$(printf 'COCONET_CXX\n%s\n' "$loaded")"

# find_package and its like, and what find_path, find_program and find_library look for.
sought=$(cat "$source"/cmake/{dependencies,reference}.cmake "$source"/{bench,samples,tests}/CMakeLists.txt |
  sed -nE 's/^ *find_package\((\w+).*/\1/p; s/^ *pkg_check_modules\(\w+ REQUIRED (IMPORTED_TARGET )?(\w+).*/\2/p
    s/^ *find_(path|program|library)\(\w+ ([^ ]+).*/\2/p' | tr -d ')')
compare "Built with" "the build looks for" "$sought"
echo "docs/dependencies.md has what there is"
