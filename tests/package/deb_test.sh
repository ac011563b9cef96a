#!/usr/bin/env bash
# Installs the Debian packages where nothing else is, and builds and runs an application there:
#   deb_test.sh CMAKE BUILD_DIR CONSUMER_DIR
# The place is a chroot of Debian's smallest system, fetched from the mirror that apt uses here.
set -euo pipefail
skip() {
  echo "skipped: $*"
  exit 77
}
if [[ ${1-} != --inside ]]; then
  [[ -n ${TESTS_ALL-} ]] || skip "it takes minutes and fetches 200 MB of Debian's packages; TESTS_ALL=1 runs it"
  ((EUID == 0)) || skip "a chroot takes root"
  for tool in debootstrap dpkg-deb dpkg-shlibdeps file unshare chroot; do
    command -v "$tool" >/dev/null || skip "there is no $tool; tests/run.sh --all installs it"
  done
  unshare -m true 2>/dev/null || skip "a chroot takes the right to mount"
  exec unshare -m bash "${BASH_SOURCE[0]}" --inside "$@"
fi
cmake=$2 build=$3 consumer=$4
work=$(mktemp -d)
cage=$work/cage
# Of the mounts, which of them there are depends on debootstrap.
trap 'umount -l "$cage"/{proc,sys,dev} 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT

fail() {
  echo "deb_test: $*" >&2
  exit 1
}
# quietly WHAT COMMAND...: its output only when it fails.
quietly() {
  local what=$1
  shift
  "$@" >"$work/log.txt" 2>&1 </dev/null || fail "$what failed: $(tail -n 30 "$work/log.txt")"
}

# ---- the packages ---------------------------------------------------------------------------------------------

quietly cpack "$(dirname "$cmake")/cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$work/packages"
shopt -s nullglob
packages=("$work"/packages/*.deb)
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
names=()
for package in "${packages[@]}"; do
  name=$(dpkg-deb -f "$package" Package)
  names+=("$name")
  files=$(dpkg-deb -c "$package" | awk '{print $6}')
  for file in copyright changelog.gz; do
    grep -qx "./usr/share/doc/$name/$file" <<<"$files" || fail "$name has no $file"
  done
  [[ -n $(dpkg-deb -f "$package" Description) ]] || fail "$name has no description"
  echo "$name: $(stat -c %s "$package") bytes; depends: $(dpkg-deb -f "$package" Depends)"
done
for name in libcoconet-jit0.1 libcoconet-jit-dev coconet-jit; do
  [[ " ${names[*]} " == *" $name "* ]] || fail "there is no package $name, but: ${names[*]}"
done

# ---- a system with nothing --------------------------------------------------------------------------------------

read -r mirror suite _ < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
  grep -E '^http[^ ]*/debian/? [a-z]+ main$' || true)
[[ -n ${suite-} ]] || skip "apt has no mirror of Debian's main archive here"
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
export http_proxy="${http_proxy-}" https_proxy="${https_proxy-}"
mkdir "$cage"
# Whether such a system can be made is the machine's business: its network, its rights, its mirror.
debootstrap --variant=minbase "$suite" "$cage" "$mirror" >"$work/log.txt" 2>&1 ||
  skip "debootstrap cannot make a system from $mirror: $(tail -n 1 "$work/log.txt")"
apt-config dump Acquire | grep -E '^Acquire::(https?::Proxy|Check-Valid-Until|Check-Date) ' >"$cage/etc/apt/apt.conf.d/90host" || true
echo force-unsafe-io >"$cage/etc/dpkg/dpkg.cfg.d/unsafe-io"
{ mount --rbind /dev "$cage/dev" && { mountpoint -q "$cage/proc" || mount -t proc proc "$cage/proc"; }; } 2>"$work/log.txt" ||
  skip "what a chroot needs cannot be mounted: $(tail -n 1 "$work/log.txt")"
inside() {
  chroot "$cage" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
}
[[ -z $(find "$cage/usr" -name 'libspdlog*' -o -name 'libmpi*' -o -name 'c++') ]] || fail "the chroot is not bare"

inside apt-get update -qq >"$work/log.txt" 2>&1 || skip "apt-get update fails in the chroot: $(tail -n 1 "$work/log.txt")"

cp "${packages[@]}" "$cage/tmp/"
cp -r "$consumer" "$cage/tmp/consumer"
local_files=("${packages[@]##*/}")
quietly "apt-get install of the packages" \
  inside apt-get install -y -qq --no-install-recommends "${local_files[@]/#//tmp/}"

installed=$(inside dpkg -L "${names[@]}" | sort -u)
while read -r file; do
  [[ -f $cage$file && ! -L $cage$file ]] || continue
  ! grep -qF "$source_dir" "$cage$file" || fail "$file names the source directory"
  ! readelf -S "$cage$file" 2>/dev/null | grep -q '\.debug_info' || fail "$file is not stripped"
done <<<"$installed"

# ---- what runs with no compiler ---------------------------------------------------------------------------------

inside coconet programs | grep adam >/dev/null || fail "the installed coconet does not list adam"
missing=$(inside sh -c 'ldd /usr/bin/coconet $(find /usr/lib -name "libcoconet-jit*.so.*" -type f)' | grep 'not found' || true)
[[ -z $missing ]] || fail "the packages lack dependencies: $missing"
status=0
said=$(inside coconet run adam --schedule fused --world local:2 --set n=1000 --check 2>&1) || status=$?
((status != 0)) && grep -q 'c++' <<<"$said" || fail "without a compiler, coconet run says: $said"

# ---- an application ---------------------------------------------------------------------------------------------

quietly "apt-get install of what applications are built with" \
  inside apt-get install -y -qq --no-install-recommends g++ cmake make pkg-config
quietly "the application's build by CMake" \
  inside sh -c 'cmake -S /tmp/consumer -B /tmp/by_cmake && cmake --build /tmp/by_cmake'
quietly "the application's build by pkg-config" \
  inside sh -c 'c++ -std=c++20 /tmp/consumer/consumer.cpp -o /tmp/by_pkg_config $(pkg-config --cflags --libs coconet-jit)'
for program in /tmp/by_cmake/consumer /tmp/by_pkg_config; do
  inside "$program" | grep all_reduce >/dev/null || fail "$program does not print its program"
done
quietly "coconet run, with a compiler" \
  inside coconet run adam --schedule fused --world local:2 --set n=1000 --check
[[ -n $(find "$cage/root/.cache/coconet-jit" -name '*.v*') ]] || fail "no kernel is in the user's cache"
quietly "apt-get purge" inside apt-get purge -y -qq "${names[@]}"
left=$(find "$cage/usr" -iname '*coconet*')
[[ -z $left ]] || fail "apt-get purge leaves: $left"
echo "deb_test: all checks passed"
