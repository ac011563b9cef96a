#!/usr/bin/env bash
# Checks the installed package: package_test.sh CMAKE CXX BUILD_DIR CONSUMER_DIR
# Installs BUILD_DIR into a new prefix, then builds and runs the consumer by find_package and by pkg-config.
set -euo pipefail
cmake=$1 cxx=$2 build=$3 consumer=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "package_test: $1" >&2
  exit 1
}

"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }

for file in bin/coconet include/coconet/coconet.h include/coconet/pointwise.def \
  share/coconet-jit/schedules/adam-fused.json; do
  [[ -e $prefix/$file ]] || fail "$file was not installed."
done
library=$(find "$prefix" -name libcoconet-jit.so)
[[ -n $library ]] || fail "libcoconet-jit.so was not installed."
readelf -d "$library" | grep -q 'SONAME.*\[libcoconet-jit\.so\.0\]' || fail "the SONAME is not libcoconet-jit.so.0."

# Only the public interface may be visible: of our own symbols, nothing below coconet::ir, ::sched or ::jit.
hidden=$(nm -D --defined-only "$library" | awk '{print $NF}' |
  grep -E '^_Z(T[ISV]|GV|Z)?NK?7coconet(2ir|5sched|3jit)' || true)
[[ -z $hidden ]] || fail "internal symbols are exported: $(c++filt <<<"$hidden" | head -n 5)"

"$prefix/bin/coconet" programs >"$work/programs.txt" || fail "the installed coconet does not run."
grep -q adam "$work/programs.txt" || fail "the installed coconet does not list adam."

"$cmake" -G Ninja -S "$consumer" -B "$work/consumer" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
"$cmake" --build "$work/consumer" >/dev/null
"$work/consumer/consumer" >"$work/by_cmake.txt"
grep -q 'all_reduce' "$work/by_cmake.txt" || fail "the consumer printed: $(cat "$work/by_cmake.txt")"

if command -v pkg-config >/dev/null; then
  libdir=$(dirname "$library")
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  read -ra flags < <(pkg-config --cflags --libs coconet-jit)
  "$cxx" -std=c++20 "$consumer/consumer.cpp" -o "$work/by_pkg_config" "${flags[@]}" -Wl,-rpath,"$libdir"
  "$work/by_pkg_config" >"$work/by_pkg_config.txt"
  cmp "$work/by_cmake.txt" "$work/by_pkg_config.txt"
fi
echo "the installed package works"
