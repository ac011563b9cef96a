#!/usr/bin/env bash
# Checks that the public headers document every entity: reference_test.sh DOXYGEN DOXYFILE SOURCE_DIR
# Writes the API reference of the headers, and of headers with something missing, which Doxygen has to refuse.
set -euo pipefail
doxygen=$1 doxyfile=$2 source=$3
if [[ ! -x $doxygen ]]; then
  echo "skipped: there is no doxygen; install it, or run tests/run.sh --all, which does"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "reference_test: $1" >&2
  exit 1
}

# write_reference NAME HEADERS: into $work/NAME; what Doxygen says is in $work/NAME.txt.
write_reference() {
  mkdir "$work/$1"
  { cat "$doxyfile"; printf '%s\n' "OUTPUT_DIRECTORY = $work/$1" "INPUT = $2 $source/docs/doxygen/main.md" \
    "STRIP_FROM_PATH = ${2%/*}" "STRIP_FROM_INC_PATH = ${2%/*}"; } >"$work/$1.conf"
  "$doxygen" "$work/$1.conf" >"$work/$1.txt" 2>&1
}

write_reference whole "$source/include/coconet" || fail "an entity lacks its description: $(cat "$work/whole.txt")"
[[ ! -s $work/whole.txt ]] || fail "Doxygen said: $(cat "$work/whole.txt")"
page=$work/whole/html/namespacecoconet.html
for name in Program Executable compile all_reduce dtype_of; do
  grep -q ">$name</a>" "$page" || fail "the reference does not have $name."
done
rows=$(grep -c '^COCONET_POINTWISE(' "$source/include/coconet/pointwise.def")
described=$(sed 's/<[^>]*>//g' "$page" | grep -c '^For each element ')
((described == rows)) || fail "$described of the $rows rows of pointwise.def are described."
for internal in of_graph 'comm()' PeerMemory; do
  grep -rqF "$internal" "$work/whole/html" && fail "the reference has $internal, which is internal."
done

# refused NAME FILE TEXT: with TEXT in front of the line that ends the namespace in FILE, Doxygen names NAME and fails.
refused() {
  rm -rf "$work/include" "$work/planted" "$work/planted.txt"
  mkdir "$work/include"
  cp -r "$source/include/coconet" "$work/include/coconet"
  sed -i "s|^}  // namespace coconet.*|$3\n&|" "$work/include/coconet/$2"
  write_reference planted "$work/include/coconet" && fail "Doxygen takes a $1 without a description."
  grep -q "Member $1.*is not documented" "$work/planted.txt" || fail "Doxygen said of $1: $(cat "$work/planted.txt")"
}
refused planted_function program.h '[[nodiscard]] COCONET_API Value planted_function(const Value\& value);'
refused planted_member config.h '/// Has one.\nstruct Planted { int planted_member = 0; };'
refused planted_macro version.h '#define planted_macro 1'
echo "every public entity is documented"
