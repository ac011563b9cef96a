#!/usr/bin/env bash
# Packs a build for machines with a GPU that cannot build: tests/gpu/bundle.sh [--bin DIR] [--out DIR]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  cat <<TEXT
usage: tests/gpu/bundle.sh [--bin DIR] [--out DIR]

Makes a folder, and DIR.tar.gz of it (at most 20 MB), with all that tests/gpu/run.sh needs on a machine with a GPU that has
neither a network nor what a build needs: the programs, stripped, with the libraries beside them and Open MPI; this
library's scripts for GPUs; and glibc, for machines whose own is older than that of this one. CUDA's driver, NVRTC, NCCL
and cuBLASLt are found there (docs/gpus.md). On that machine:
  tar xf gpu-bundle.tar.gz && gpu-bundle/tests/gpu/first.sh A

  --bin DIR    the bin folder of an existing build; by default one is made in build/gpu
  --out DIR    default build/gpu-bundle
TEXT
}

fail() {
  echo "tests/gpu/bundle.sh: $*" >&2
  exit 1
}

bin='' out=$root/build/gpu-bundle
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --bin | --out)
      [[ -n ${2-} ]] || fail "$1 takes an argument; see tests/gpu/bundle.sh --help."
      declare "${1#--}=$2"
      shift 2
      ;;
    *) fail "unknown argument '$1'; see tests/gpu/bundle.sh --help." ;;
  esac
done
if [[ -z $bin ]]; then
  "$root/tests/gpu/build.sh" --for-others
  bin=$root/build/gpu/bin
fi
for program in coconet bench_gpu; do
  [[ -x $bin/$program ]] || fail "there is no $bin/$program; leave --bin away to build it."
done
for tool in ldd objdump readelf strip tar; do
  command -v "$tool" >/dev/null || fail "there is no $tool; install binutils and libc-bin."
done

rm -rf "$out" "$out.tar.gz"
mkdir -p "$out"/{bin,tests/gpu,bench,lib,libexec,pmix,glibc,own_glibc/bin,own_glibc/tests}
strip -o "$out/bin/coconet" "$bin/coconet"
strip -o "$out/bin/bench_gpu" "$bin/bench_gpu"
programs=(bin/coconet bin/bench_gpu)
if [[ -x $bin/../tests/tests_jit ]]; then
  strip -o "$out/tests/tests_jit" "$bin/../tests/tests_jit"
  programs+=(tests/tests_jit)
fi
cp -r "$root"/tests/gpu/{first.sh,run.sh,parts,programs} "$out/tests/gpu/"
cp "$root"/bench/gpu.sh "$root"/bench/gpu_torch_adam.py "$out/bench/"
git -C "$root" describe --always --dirty >"$out/commit" 2>/dev/null || echo "no git" >"$out/commit"

# What is glibc's own, which a program takes all from one build of it.
of_glibc='/(ld-linux-[^/]*|lib(c|m|dl|rt|pthread|resolv|util|anl|nss_[a-z]*))\.so(\.[0-9]*)?$'

# ---- Open MPI: mpirun and the plugins for ranks on one machine ----------------------------------------------

# prefix_path WHAT: a folder of Open MPI, from its prefix on.
prefix_path() {
  ompi_info --path "$1" --parsable | sed -n "s|^path:$1:$(ompi_info --path prefix --parsable | sed 's/.*://')/||p"
}
libraries=()
if command -v mpirun ompi_info >/dev/null && grep -q libmpi.so <(ldd "$out/bin/coconet"); then
  plugins=$(prefix_path pkglibdir) help=$(prefix_path pkgdatadir)
  prefix=$(ompi_info --path prefix --parsable | sed 's/.*://')
  mkdir -p "$out/$plugins" "$out/$help"
  cp -L "$prefix/$help"/*.txt "$out/$help/"
  strip -o "$out/libexec/mpirun" "$(readlink -f "$(command -v mpirun)")"
  for plugin in "$prefix/$plugins"/mca_*.so; do
    # Networks, other machines, launchers and interfaces than MPI's need libraries, or ssh.
    case ${plugin##*/mca_} in
      plm_rsh* | atomic* | *ucx* | *ofi* | *openib* | *psm* | *slurm* | *flux* | *jsm* | *monitoring* | *romio*) ;;
      *gridengine* | spml* | sshmem* | memheap* | scoll* | crs_* | vprotocol_*) ;;
      *) strip -o "$out/$plugins/${plugin##*/}" "$plugin" && libraries+=("$out/$plugins/${plugin##*/}") ;;
    esac
  done
  libraries+=("$out/libexec/mpirun")
fi

# ---- Shared libraries ----------------------------------------------------------------------------------------

for file in "${programs[@]/#/$out/}" "${libraries[@]}"; do
  ldd "$file" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
done | sort -u >"$out/needed"
grep -v -E "$of_glibc" "$out/needed" | while read -r library; do
  strip --strip-unneeded -o "$out/lib/${library##*/}" "$library"
done
# libpmix's own plugins and texts.
pmix=$(readlink -f "$(grep -m 1 '/libpmix\.so' "$out/needed" || true)" || true)
if [[ -n $pmix && -d ${pmix%/*}/pmix ]]; then
  mkdir -p "$out/pmix/lib/pmix"
  cp -L "${pmix%/*}"/pmix/*.so "$out/pmix/lib/pmix/"
fi
# A library that says itself where its own are does not look where the programs say.
while read -r file; do
  path=$(readelf -d "$file" 2>/dev/null | sed -n 's/.*(\(RUNPATH\|RPATH\)).*\[\(.*\)\]/\2/p')
  [[ -n $path ]] || continue
  folder=$(dirname "${file#"$out"/}")
  # shellcheck disable=SC2001,SC2016 # for the loader
  moved='$ORIGIN/'$(sed 's|[^/]*|..|g' <<<"$folder")/lib
  section=$(readelf -S -W "$file" | sed -n 's/.* \.dynstr *STRTAB *[0-9a-f]* \([0-9a-f]*\) .*/\1/p')
  at=$(readelf -W -p .dynstr "$file" | sed -n "s|^ *\[ *\([0-9a-f]*\)\]  $path\$|\1|p" | head -n 1)
  if [[ -z $section || -z $at ]] || ((${#moved} > ${#path})); then
    fail "the library path '$path' of $file cannot be changed."
  fi
  printf '%s\0' "$moved" | dd of="$file" bs=1 seek=$((16#$section + 16#$at)) conv=notrunc status=none
done < <(find "$out/lib" "$out/libexec" "$out/pmix" -name '*.so*' -o -name mpirun)
loader=$(ldd "$out/bin/coconet" | sed -n 's|^\t\(/[^ ]*/ld-linux[^ ]*\) .*|\1|p')
libc=$(grep '/libc\.so' "$out/needed")
for library in "$loader" "${libc%/*}"/lib{c,m,dl,rt,pthread,resolv,util,nss_files,nss_dns}.so.[0-9]*; do
  cp -L "$library" "$out/glibc/"
done
rm "$out/needed"

# ---- Programs on either glibc ---------------------------------------------------------------------------------

# launcher PATH PROGRAM LOADER...: a script at PATH that runs PROGRAM of the bundle.
launcher() {
  local path=$out/$1 program=$2 up
  shift 2
  up=$(dirname "${path#"$out"/}" | sed 's|[^/]*|..|g')
  cat >"$path" <<TEXT
#!/bin/bash
root=\$(cd "\$(dirname "\${BASH_SOURCE[0]}")/$up" && pwd)
export OPAL_PREFIX=\$root PMIX_INSTALL_PREFIX=\$root/pmix
exec $* "\$root/$program" "\$@"
TEXT
  chmod +x "$path"
}
own="\"\$root/glibc/${loader##*/}\" --library-path \"\$root/glibc:\$root/lib\""
for program in "${programs[@]}"; do
  launcher "own_glibc/$program" "$program" "$own"
done
if [[ -x $out/libexec/mpirun ]]; then
  # shellcheck disable=SC2016 # for the script
  launcher bin/mpirun libexec/mpirun "\"$loader\"" '--library-path "$root/lib"'
  launcher own_glibc/bin/mpirun libexec/mpirun "$own"
fi

# ---- What it asks for ----------------------------------------------------------------------------------------

# glibc_of FILE: the newest version of glibc that a symbol of it needs.
glibc_of() {
  objdump -T "$1" | grep '\*UND\*' | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1
}
find "$out/bin" "$out/tests" "$out/lib" "$out/libexec" -type f | while read -r file; do
  version=$(glibc_of "$file" 2>/dev/null || true)
  [[ -z $version ]] || echo "$version ${file#"$out"/}"
done | sort -Vr >"$out/glibc_versions"
newest=$(sed -n '1s/ .*//p' "$out/glibc_versions")
if [[ $(printf '%s\n' GLIBC_2.34 "$newest" | sort -V | tail -n 1) != GLIBC_2.34 ]]; then
  echo "These files need more than glibc 2.34:"
  sed -n '/^GLIBC_2\.34 /q;s/^/  /p' "$out/glibc_versions"
  echo "Where glibc is older than ${newest#GLIBC_}, run.sh takes that of the bundle."
fi

tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")"
bytes=$(stat -c %s "$out.tar.gz")
echo "$out.tar.gz: $((bytes / 1000000)) MB"
((bytes <= 20000000)) || fail "$out.tar.gz has $bytes bytes, and at most 20 MB are wanted."
