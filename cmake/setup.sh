# The set-up that samples/run.sh and tests/run.sh share: sourced, not run. It is the only place of the project that
# installs anything, and installs only what dpkg says is missing.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What a build of everything, its tests included, needs on Debian 12. g++ is needed at run time too: it compiles
# kernels.
packages=(g++ cmake ninja-build pkg-config libopenmpi-dev openmpi-bin libspdlog-dev libfmt-dev
  nlohmann-json3-dev libcli11-dev libssl-dev libxxhash-dev libopenblas-dev libdnnl-dev catch2
  librapidcheck-dev)

fail() {
  echo "$(basename "$(dirname "$0")")/$(basename "$0"): $*" >&2
  exit 1
}

# Installs the packages that are missing.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is not a Debian-like system; nothing gets installed. The build needs what these packages have:"
    echo "  ${packages[*]}"
    return
  fi
  local missing=() package sudo=()
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]} == 0)) && return

  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      fail "these packages are missing, and installing them needs root or sudo: ${missing[*]}"
    sudo=(sudo)
  fi
  echo "Installing: ${missing[*]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
    fail "apt-get update failed; these packages are missing: ${missing[*]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" ||
    fail "apt-get could not install: ${missing[*]}"
}

# Whether a new build of release compiles several files as one, which takes far less time. One that somebody has
# configured goes on as it is, but for OFF, which finds a file that leans on those compiled with it.
unity=ON

# Configures the preset $1 and builds its targets ($2 and so on; everything when there are none).
build_preset() {
  local preset=$1 target targets=() options=()
  shift
  if [[ $preset == release ]] && [[ $unity == OFF || ! -e $root/build/release/CMakeCache.txt ]]; then
    options+=("-DCMAKE_UNITY_BUILD=$unity")
  fi
  for target in "$@"; do
    targets+=(--target "$target")
  done
  (cd "$root" && cmake --preset "$preset" "${options[@]}" && cmake --build --preset "$preset" "${targets[@]}") ||
    fail "the build with preset '$preset' failed."
}

# Open MPI refuses to run as root, which is who one is in a container, unless told twice.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
