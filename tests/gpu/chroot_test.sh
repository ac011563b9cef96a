#!/usr/bin/env bash
# Runs the bundle where there is nothing but libc and the shell's tools, on the emulated GPU:
#   chroot_test.sh BIN_DIR STUBS_DIR
# The emulation's compiler is the only thing that reaches outside; what a real NVRTC has inside, it does by g++.
set -euo pipefail
if [[ ${1-} != --inside ]]; then
  if [[ -z ${TESTS_ALL-} ]]; then
    echo "skipped: it takes minutes; TESTS_ALL=1 runs it"
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
# shellcheck source=tests/gpu/lost_only.sh
source "$source_dir/tests/gpu/lost_only.sh"
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

# inside [NAME=VALUE...] COMMAND...: in the cage. The emulated driver may be slow.
inside() {
  chroot "$cage" /bin/env -i PATH=/usr/bin HOME=/root COCONET_CUDA_PATH=/driver VIRTUAL_ENV=/root/env STUB_CXX=/driver/c++ \
    COCONET_TIMEOUT_S=30 "$@"
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
# NVIDIA's tools would look at what they run.
for tool in ncu compute-sanitizer; do
  cat >"$cage/usr/bin/$tool" <<'TEXT'
#!/bin/bash
while [[ $1 != */coconet ]]; do shift; done
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
echo '"0","7","coconet","adam_fused_kernel","dram__bytes_read.sum","Mbyte","1,268.4"'
TEXT
  chmod +x "$cage/usr/bin/$tool"
done
for call in A B; do
  began=$SECONDS
  inside /root/bundle/tests/gpu/first.sh "$call" --small --slack 5 --out /tmp ||
    fail "first.sh $call failed: $(cat "$cage/tmp/call-$call.md.log" 2>/dev/null)"
  echo "first.sh $call --small: $((SECONDS - began)) s"
done
checked call-A "| NVRTC | 13.0, $packages/cu13/lib/libnvrtc.so.13" "| NCCL | 2.28.9, $packages/nccl/lib/libnccl.so.2 |" \
  "programs: /root/bundle/bin |" "mpirun: /root/bundle/bin/mpirun" "| the device | is kept open by a process of its own |" \
  "| graphs: fused adam, 80 steps on 4 ranks | 1 of 1 runs pass |" \
  "| sample: fused adam on 4 ranks, every exchange in a kernel | 2 of 2 algorithms and protocols pass |" \
  "| barrier of 8 ranks on one GPU |" "| fused LAMB, 1 rank | 2^12 |" "| part times | "
checked call-B "| mpirun -n 2 on one GPU: fused adam | 1 of 1 runs pass |" "| [2^20, 64] + [64] in f32, 1 rank |" \
  "| mlp_block, overlapped, bf16, 2 ranks on one GPU |" "| counters: fused lamb, 4 of a GPU's ranks, n = 2^10 |" \
  "| racecheck: fused adam on 4 ranks | ERROR SUMMARY: 0 errors |"

# The programs of each part hang in turn, which loses that part and no other.
a=(machine graphs probes sample times) b=(mpi bias overlap counters sanitizer)
# hanging PART CALL: the call from a bundle of its own, in /tmp/PART.
hanging() {
  local part=$1 call=$2 bundle=$cage/root/$1 program
  mkdir -p "$bundle/bin" "$cage/tmp/$part"
  cp -r "$cage"/root/bundle/{tests,bench,commit} "$bundle/"
  ln -s ../bundle/{glibc,lib,libexec,own_glibc,pmix,share} "$bundle/"
  ln -s ../../bundle/bin/mpirun "$bundle/bin/mpirun"
  for program in coconet bench_gpu; do
    # shellcheck disable=SC2016 # for the script
    printf '#!/bin/bash\n[[ ${GPU_PART##* } != %s ]] || exec sleep 1000\nexec /root/bundle/bin/%s "$@"\n' \
      "$part" "$program" >"$bundle/bin/$program"
    chmod +x "$bundle/bin/$program"
  done
  sed -i "s/^  \"$part $call [0-9]*/  \"$part $call 4/" "$bundle/tests/gpu/run.sh"
  ! inside COCONET_TIMEOUT_S=10 "/root/$part/tests/gpu/first.sh" "$call" --small --slack 5 --out "/tmp/$part" \
    >"$cage/tmp/$part/said" 2>&1
}
# hung PART CALL PARTS...
hung() {
  local wrong table=$cage/tmp/$1/call-$2.md
  wrong=$(lost_only "$table" "$1" "${@:3}")
  [[ -z $wrong ]] || fail "where part '$1' hung: $wrong: $(cat "$cage/tmp/$1/said" "$table.log" 2>/dev/null)"
  echo "part $1 hung: $(grep -m 1 FAILED "$table")"
}
for ((i = 0; i < 5; ++i)); do
  hanging "${a[i]}" A &
  hanging "${b[i]}" B || fail "first.sh succeeds where part '${b[i]}' hangs"
  wait "$!" || fail "first.sh succeeds where part '${a[i]}' hangs"
  hung "${a[i]}" A "${a[@]}"
  hung "${b[i]}" B "${b[@]}"
done

# The same where glibc knows no versions after 2.34: the machine's files have another name for these.
find "$cage/usr" -type f -exec sed -i 's/GLIBC_2\.3[56]/GLIBC_9.99/g' {} +
inside /root/bundle/bin/coconet --help >/dev/null 2>&1 && fail "the programs start with a glibc that is too old for them"
inside /root/bundle/tests/gpu/run.sh --bundle /root/bundle --small --slack 5 --parts machine,mpi,conformance --out /tmp/second.md ||
  fail "run.sh failed on an old glibc: $(cat "$cage/tmp/second.md.log" 2>/dev/null)"
checked second "programs: /root/bundle/own_glibc/bin |" "| mpirun -n 2 on one GPU: fused adam | 1 of 1 runs pass |" \
  "| conformance: tests_jit conformance_layout | 1 of 1 suites pass |"
echo "chroot_test.sh: all checks passed"
