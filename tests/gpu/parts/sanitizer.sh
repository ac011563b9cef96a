#!/usr/bin/env bash
# compute-sanitizer's tools on fused steps, several at a time.
# shellcheck disable=SC2154 source=tests/gpu/parts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

sanitizer=$(tool compute-sanitizer)
if [[ -z $sanitizer ]]; then
  row "compute-sanitizer" "not measured: there is none on PATH or in ${CUDA_HOME:-/usr/local/cuda}/bin"
  exit 0
fi
export COCONET_TIMEOUT_S=${patience:-30} # kernels are slow under it
# sanitize TOOL WHAT ARGUMENT...
sanitize() {
  local tool=$1 what=$2 code=0 left summary said=$work/sanitizer.$BASHPID
  shift 2
  left=$(($(seconds_left) - 2))
  if ((left < 5)); then
    row "$tool: $what" "not measured: the part's time was over"
    return
  fi
  limited "$((left < 60 ? left : 60))" "$sanitizer" --tool "$tool" --error-exitcode 99 \
    "$bin/coconet" run "$@" --check >"$said" 2>&1 || code=$?
  summary=$(grep -o '[A-Z]* SUMMARY: .*' "$said" | tail -n 1 || true)
  if ((code == 0)) && [[ $summary =~ 'SUMMARY: 0 ' ]] && grep -q '^check passed' "$said"; then
    row "$tool: $what" "$summary"
    return
  fi
  keep "$tool: $what ended with $code" "$said"
  if grep -q -i 'device not supported' "$said"; then
    row "$tool: $what" "not measured: compute-sanitizer says that it does not support this device"
  else
    failed "$tool: $what" "exit code $code, ${summary:-$(last_line "$said")}; see $log"
  fi
}
at_once=$(processes) running=0
while read -r what program ranks; do
  [[ $program == norm ]] && program=$root/tests/gpu/programs/norm.json schedule=() || schedule=(--schedule fused)
  for tool in memcheck racecheck synccheck; do
    if ((running >= at_once)); then
      wait -n || true
      running=$((running - 1))
    fi
    sanitize "$tool" "${what//_/ }" "$program" "${schedule[@]}" --world "local:$ranks" --set n=4099 &
    running=$((running + 1))
  done
done <<'TEXT'
fused_adam_on_4_ranks adam 4
fused_lamb_on_2_ranks lamb 2
fused_adam_on_1_rank adam 1
reductions norm 1
TEXT
wait
