#!/usr/bin/env bash
# Ranks that are processes, all on one GPU.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mpirun=$(command -v mpirun || true)
if [[ -z $mpirun || -z $(found MPI) ]]; then
  row "processes on one GPU" "not measured: $(missing MPI | grep . || echo "no mpirun on PATH")"
  exit 0
fi
export OMPI_MCA_rmaps_base_oversubscribe=1
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
: >"$outcomes"
for ranks in 2 4; do
  ((small && ranks > 2)) && continue
  for program in adam lamb; do
    ((small)) && [[ $program != adam ]] && continue
    check "run $program, $ranks processes" "$mpirun" -n "$ranks" "$bin/coconet" run "$program" --schedule fused \
      --set n=100003 --check
    outcome "mpirun -n $ranks on one GPU: fused $program" run "runs"
    : >"$outcomes"
  done
done
