#!/usr/bin/env bash
# A bias, whose row is read for every row of a matrix.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

measure bias
