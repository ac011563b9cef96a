#!/usr/bin/env bash
# Checks the installed package: package_test.sh CMAKE CXX BUILD_DIR SOURCE_DIR CONSUMER_DIR
# Installs BUILD_DIR into two new prefixes, as it is and stripped, looks at what is there, then builds and runs the consumer
# by find_package and by pkg-config.
set -euo pipefail
cmake=$1 cxx=$2 build=$3 source=$4 consumer=$5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "package_test: $1" >&2
  exit 1
}

for install in "$prefix.whole" "$prefix --strip"; do
  read -ra arguments <<<"$install"
  "$cmake" --install "$build" --prefix "${arguments[@]}" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
done

for file in bin/coconet include/coconet/coconet.h include/coconet/pointwise.def share/coconet-jit/schedules/optimizer-fused.json \
  share/coconet-jit/schedule.schema.json share/man/man1/coconet.1 share/doc/coconet-jit/LICENSE; do
  [[ -e $prefix/$file ]] || fail "$file was not installed."
done
# Links in the documents lead to files that were installed beside them.
documents=$prefix/share/doc/coconet-jit
while IFS=: read -r document link; do
  [[ -e $(dirname "$document")/${link%%#*} ]] || fail "${document#"$prefix/"} links to $link, which was not installed."
done < <(grep -rhoH --include='*.md' -E '\]\([^)#: ]+(#[^) ]*)?\)' "$documents" | sed -E 's/\]\((.*)\)$/\1/')
[[ -e $documents/docs/programs.md ]] || fail "docs/programs.md was not installed."
mapfile -t libraries < <(find "$prefix" -name 'libcoconet-jit*.so' | sort)
library=$(find "$prefix" -name libcoconet-jit.so)
[[ -n $library ]] || fail "libcoconet-jit.so was not installed."

# ---- what the binaries say ------------------------------------------------------------------------------------

for file in "${libraries[@]}"; do
  name=$(basename "$file")
  readelf -d "$file" | grep -q "SONAME.*\[${name//./\\.}\.0\.1\]" ||
    fail "the SONAME of $name is not $name.0.1, as docs/abi.md says."
  # Only the public interface may be visible: nothing of other libraries, and of our own nothing whose own name is below
  # coconet::ir, ::sched or ::jit, but what libcoconet-jit-mpi uses, whose version is COCONET_PRIVATE. Type A are the
  # names of versions.
  exported=$(nm -D --defined-only "$file" | awk '$2 != "A" {print $NF}')
  grep -q '^_ZN7coconet' <<<"$exported" || fail "$name exports nothing of coconet."
  foreign=$(grep -vE '^_Z(NK?|T[ISV]N)7coconet' <<<"$exported" || true)
  [[ -z $foreign ]] || fail "$name exports symbols of others: $(c++filt <<<"$foreign" | head -n 5)"
  internal=$(grep -E '^_Z(NK?|T[ISV]N)7coconet(2ir|5sched|3jit)' <<<"$exported" | grep -v '@@COCONET_PRIVATE$' || true)
  [[ -z $internal ]] || fail "$name exports internal symbols: $(c++filt <<<"$internal" | head -n 5)"
done

# Neither path of this build may be in anything that is installed, debugging information included, but for that of debug
# builds.
looked_into=("$prefix")
grep -q '^CMAKE_BUILD_TYPE:.*=Debug$' "$build/CMakeCache.txt" || looked_into+=("$prefix.whole")
for path in "$source" "$build"; do
  named=$(grep -rlF "$path" "${looked_into[@]}" || true)
  [[ -z $named ]] || fail "the path $path is in what is installed: $named"
done
# Nor may a stripped binary name a source file, under whatever path.
(cd "$source" && find src -name '*.cpp') >"$work/sources.txt"
for file in "$prefix/bin/coconet" "${libraries[@]}"; do
  readelf -S "$file" | grep -q '\.debug_info' && fail "$file was not stripped."
  leaks=$(strings -a "$file" | grep -F -f "$work/sources.txt" || true)
  [[ -z $leaks ]] || fail "$file names its sources: $leaks"
  readelf -d "$file" | grep -E 'R(UN)?PATH' && fail "$file has a search path of its own, above."
done

# ---- the command ----------------------------------------------------------------------------------------------

"$prefix/bin/coconet" programs >"$work/programs.txt" || fail "the installed coconet does not run."
grep -q adam "$work/programs.txt" || fail "the installed coconet does not list adam."

# A build tree's cache is its own: what is installed keeps kernels in the user's directory.
unset COCONET_CACHE_DIR
XDG_CACHE_HOME=$work/cache "$prefix/bin/coconet" doctor >"$work/doctor.txt" || true
grep -qF "$work/cache/coconet-jit" "$work/doctor.txt" ||
  fail "the installed coconet does not use the user's cache directory: $(grep cache "$work/doctor.txt")"
if [[ -e $build/bin/coconet-jit.kernel-cache ]]; then
  XDG_CACHE_HOME=$work/cache "$build/bin/coconet" doctor >"$work/doctor.txt" || true
  grep -qF "$(cat "$build/bin/coconet-jit.kernel-cache")" "$work/doctor.txt" ||
    fail "the coconet of the build tree does not use that tree's cache: $(grep cache "$work/doctor.txt")"
fi

# The manual page has every command and every option that the help has, and is good roff.
page=$prefix/share/man/man1/coconet.1
for command in $("$prefix/bin/coconet" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p'); do
  grep -q "^\.SS coconet $command$" "$page" || fail "coconet(1) says nothing about 'coconet $command'."
  section=$(sed -n "/^\.SS coconet $command$/,/^\.S[SH]/p" "$page")
  for option in $("$prefix/bin/coconet" "$command" --help | grep -oE '^  --[a-z-]+' | sort -u); do
    grep -q -- "^\.B ${option//-/\\\\-}" <<<"$section" ||
      fail "coconet(1) does not have the option $option of 'coconet $command'."
  done
done
if command -v groff >/dev/null; then
  warnings=$(groff -ww -man -Tutf8 "$page" 2>&1 >/dev/null)
  [[ -z $warnings ]] || fail "groff warns about coconet(1): $warnings"
fi

# ---- applications ---------------------------------------------------------------------------------------------

"$cmake" -G Ninja -S "$consumer" -B "$work/consumer" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
"$cmake" --build "$work/consumer" >/dev/null
"$work/consumer/consumer" >"$work/by_cmake.txt"
grep -q 'all_reduce' "$work/by_cmake.txt" || fail "the consumer printed: $(cat "$work/by_cmake.txt")"

# Two processes that find each other by a socket run a step, with no MPI in them.
if ldd "$work/consumer/sockets" | grep -E 'libmpi|coconet-jit-mpi'; then fail "a program without MPI links it, above."; fi
port=$((20000 + $$ % 20000))
export COCONET_CACHE_DIR=$work/sockets_cache
"$work/consumer/sockets" 1 "$port" >"$work/rank_1.txt" 2>&1 &
"$work/consumer/sockets" 0 "$port" >"$work/rank_0.txt" 2>&1 || true
wait || true
for rank in 0 1; do
  grep -qx "rank $rank of 2: 0.5" "$work/rank_$rank.txt" || fail "rank $rank of sockets printed: $(cat "$work/rank_$rank.txt")"
done

# The sample that is an application of its own, on its own MPI communicator: the loss falls, at both batch sizes.
if command -v mpirun >/dev/null && [[ -e $(dirname "$library")/libcoconet-jit-mpi.so ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  "$cmake" -G Ninja -S "$source/samples/08_application" -B "$work/application" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  "$cmake" --build "$work/application" >/dev/null
  mpirun -n 2 --oversubscribe "$work/application/application" >"$work/application.txt" 2>&1 ||
    fail "the application of samples/08_application ends with: $(cat "$work/application.txt")"
  awk '$1 == "update" { rows++; first[$4] = first[$4] ? first[$4] : $6; last[$4] = $6 }
    END { exit !(rows == 8 && last[64] < first[64] / 1000 && last[65] < first[65] / 1000) }' "$work/application.txt" ||
    fail "the application of samples/08_application does not learn: $(cat "$work/application.txt")"
fi

if command -v pkg-config >/dev/null; then
  libdir=$(dirname "$library")
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  read -ra flags < <(pkg-config --cflags --libs coconet-jit)
  "$cxx" -std=c++20 "$consumer/consumer.cpp" -o "$work/by_pkg_config" "${flags[@]}" -Wl,-rpath,"$libdir"
  "$work/by_pkg_config" >"$work/by_pkg_config.txt"
  cmp "$work/by_cmake.txt" "$work/by_pkg_config.txt"
  if [[ -e $libdir/libcoconet-jit-mpi.so ]]; then  # with the compiler itself, not MPI's wrapper
    read -ra flags < <(pkg-config --cflags --libs coconet-jit-mpi)
    "$cxx" -std=c++20 -fsyntax-only "$source/samples/08_application/main.cpp" "${flags[@]}" ||
      fail "an application that includes coconet/mpi.h does not compile with: ${flags[*]}"
    echo 'int main() { MPI_Init(nullptr, nullptr); MPI_Finalize(); }' |
      "$cxx" -std=c++20 -include coconet/mpi.h -x c++ - -x none -o "$work/mpi_by_pkg_config" "${flags[@]}" -Wl,-rpath,"$libdir" ||
      fail "an application of MPI does not link with: ${flags[*]}"
  fi
fi

size=$(stat -Lc %s "$library")
((size < 8 << 20)) || fail "the stripped libcoconet-jit.so has $size bytes; 8 MiB were plenty."
echo "the installed package works; libcoconet-jit.so has $size bytes"
