#!/usr/bin/env bash
# compute-sanitizer's tools on fused steps.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

sanitizer=$(tool compute-sanitizer)
if [[ -z $sanitizer ]]; then
  row "compute-sanitizer" "not measured: there is none on PATH or in ${CUDA_HOME:-/usr/local/cuda}/bin"
  exit 0
fi
# sanitize TOOL WHAT ARGUMENT...
sanitize() {
  local tool=$1 what=$2 code=0 left summary
  shift 2
  left=$(($(seconds_left) - 2))
  if ((left < 5)); then
    row "$tool: $what" "not measured: the part's time was over"
    return
  fi
  timeout "$((left < 60 ? left : 60))" "$sanitizer" --tool "$tool" --error-exitcode 99 \
    "$bin/coconet" run "$@" --check >"$work/said" 2>&1 || code=$?
  summary=$(grep -o '[A-Z]* SUMMARY: .*' "$work/said" | tail -n 1 || true)
  if ((code == 0)) && [[ $summary =~ 'SUMMARY: 0 ' ]] && grep -q '^check passed' "$work/said"; then
    row "$tool: $what" "$summary"
    return
  fi
  keep "$tool: $what ended with $code" "$work/said"
  if grep -q -i 'device not supported' "$work/said"; then
    row "$tool: $what" "not measured: compute-sanitizer says that it does not support this device"
  else
    failed "$tool: $what" "exit code $code, ${summary:-$(last_line "$work/said")}; see $log"
  fi
}
for tool in memcheck racecheck synccheck; do
  sanitize "$tool" "fused adam on 4 ranks" adam --schedule fused --world local:4 --set n=4099
  sanitize "$tool" "fused lamb on 2 ranks" lamb --schedule fused --world local:2 --set n=4099
done
for tool in memcheck racecheck synccheck; do
  sanitize "$tool" "fused adam on 1 rank" adam --schedule fused --world local:1 --set n=4099
  sanitize "$tool" "reductions" "$root/tests/gpu/programs/norm.json" --world local:1 --set n=4099
done
