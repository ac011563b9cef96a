#!/usr/bin/env bash
# Whether kernels that wait for each other run at once, and what a barrier between ranks takes.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

measure handshakes
measure barriers
