#!/usr/bin/env bash
# Runs the bundle where there is nothing but libc and the shell's tools, on the emulated GPU:
#   chroot_test.sh BIN_DIR STUBS_DIR
# The emulation's compiler is the only thing that reaches outside; what a real NVRTC has inside, it does by g++.
set -euo pipefail
if [[ ${1-} != --inside ]]; then
  if [[ -z ${TESTS_ALL-} ]]; then
    echo "skipped: it takes a minute; TESTS_ALL=1 runs it"
    exit 77
  fi
  if ((EUID != 0)) || ! command -v unshare chroot >/dev/null || ! unshare -m true 2>/dev/null; then
    echo "skipped: a chroot takes root and the right to mount"
    exit 77
  fi
  exec unshare -m bash "${BASH_SOURCE[0]}" --inside "$@"
fi
bin=$2 stubs=$3
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
cage=$work/cage
trap 'umount -l "$cage"/{outside,proc,dev} 2>/dev/null; rm -rf --one-file-system "$work"' EXIT

fail() {
  echo "chroot_test.sh: $*" >&2
  exit 1
}

"$source_dir/tests/gpu/bundle.sh" --bin "$bin" --out "$work/bundle"

# ---- a machine with nothing: libc, bash, and the tools that scripts have everywhere ---------------------------

mkdir -p "$cage"/{usr/bin,usr/lib,usr/lib64,tmp,proc,dev,outside,etc,root}
ln -s usr/bin "$cage/bin"
ln -s usr/lib "$cage/lib"
ln -s usr/lib64 "$cage/lib64"
tools=(bash basename cat chmod cp cut date dirname env expand grep getconf head mkdir mktemp mv nproc paste readlink
  rm sed sleep sort stat tail tee timeout touch tr true uniq wc chroot)
for tool in "${tools[@]}"; do
  file=$(readlink -f "$(type -P "$tool")")
  cp "$file" "$cage/usr/bin/$tool"
  ldd "$file" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) .*/\1/p'
done | sort -u | while read -r library; do
  mkdir -p "$cage/$(dirname "$library")"
  cp -L "$library" "$cage/$library"
done
libc=$(ldd "$(type -P bash)" | sed -n 's/.* => \(\/[^ ]*libc\.so[^ ]*\) .*/\1/p')
cp -L "${libc%/*}"/lib{m,dl,rt,pthread}.so.[0-9]* "$cage/${libc%/*}/"
[[ -z $(find "$cage" -name 'libstdc++*' -o -name 'libmpi*' -o -name 'libcrypto*') ]] ||
  fail "the cage has libraries that only the bundle should have"

# The emulated driver and NVRTC, with the prelude that they replace and a compiler from outside.
# All but the driver is where pip puts it.
packages=/root/env/lib/python3.12/site-packages/nvidia
mkdir -p "$cage"/{driver,$packages/cu13/lib,$packages/nccl/lib} "$cage$source_dir/src/jit"
cp "$stubs/libcuda.so.1" "$cage/driver/"
cp "$stubs"/{libcublasLt.so.*,nvrtc/libnvrtc.so.*} "$cage$packages/cu13/lib/"
cp "$stubs"/libnccl.so.* "$cage$packages/nccl/lib/"
cp -r "$source_dir"/src/jit/{prelude,abi} "$cage$source_dir/src/jit/"
printf '#!/bin/bash\nexec chroot /outside c++ "$@"\n' >"$cage/driver/c++"
chmod +x "$cage/driver/c++"
mount --rbind / "$cage/outside"
mount --bind "$cage/tmp" "$cage/outside/tmp"
mount -t proc proc "$cage/proc"
mount --rbind /dev "$cage/dev"

inside() {
  chroot "$cage" /bin/env -i PATH=/usr/bin HOME=/root COCONET_CUDA_PATH=/driver VIRTUAL_ENV=/root/env STUB_CXX=/driver/c++ "$@"
}
# checked WHAT: the table has no failure, and its rows.
checked() {
  local line
  grep -q FAILED "$cage/tmp/$1.md" && fail "$1: $(grep -m 1 FAILED "$cage/tmp/$1.md")"
  for line in "${@:2}"; do
    grep -q -F "$line" "$cage/tmp/$1.md" || fail "$1: the table has no line '$line': $(cat "$cage/tmp/$1.md")"
  done
}

# The tar is what travels.
tar -C "$cage/root" -xzf "$work/bundle.tar.gz"
rm -rf "$work/bundle" "$work/bundle.tar.gz"
inside /root/bundle/bin/coconet --help >/dev/null || fail "the programs do not start"
inside /root/bundle/tests/gpu/run.sh --bundle /root/bundle --small --out /tmp/first.md ||
  fail "run.sh failed: $(cat "$cage/tmp/first.md.log" 2>/dev/null)"
checked first "| NVRTC | 13.0, $packages/cu13/lib/libnvrtc.so.13" "| NCCL | 2.28.9, $packages/nccl/lib/libnccl.so.2 |" \
  "programs: /root/bundle/bin |" "mpirun: /root/bundle/bin/mpirun" \
  "| sample: fused adam on 4 ranks, ring with ll | 1 of 1 runs pass |" \
  "| mpirun -n 2 on one GPU: fused adam | 1 of 1 runs pass |" \
  "| barrier of 8 ranks on one GPU |"

# The same where glibc knows no versions after 2.34: the machine's files have another name for these.
find "$cage/usr" -type f -exec sed -i 's/GLIBC_2\.3[56]/GLIBC_9.99/g' {} +
inside /root/bundle/bin/coconet --help >/dev/null 2>&1 && fail "the programs start with a glibc that is too old for them"
inside /root/bundle/tests/gpu/run.sh --bundle /root/bundle --small --parts machine,mpi,conformance --out /tmp/second.md ||
  fail "run.sh failed on an old glibc: $(cat "$cage/tmp/second.md.log" 2>/dev/null)"
checked second "programs: /root/bundle/own_glibc/bin |" "| mpirun -n 2 on one GPU: fused adam | 1 of 1 runs pass |" \
  "| conformance: tests_jit conformance_layout | 1 of 1 suites pass |"
echo "chroot_test.sh: all checks passed"
