#!/usr/bin/env bash
# Whether steps that run at once gain anything by it.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

measure overlap
