#!/bin/bash
# What 4 processes save 1, 2 and 3 load; what a job of coconet run saves, another goes on from, to
# the same weights, past a checkpoint that is damaged; and Python reads it, where there is one.
# Usage: checkpoint.sh DIRECTORY_OF_THE_PROGRAMS
set -euo pipefail
# shellcheck source=tests/mpi/launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch/setup.sh" "$1"

export CHECKPOINT=$work/four
mpirun -n 4 "$tests" "[saves]" --use-colour no
for ranks in 1 2 3; do
  echo "== $ranks ranks"
  mpirun -n "$ranks" "$tests" "[loads]" --use-colour no
done
[[ $(cd "$CHECKPOINT" && echo *) == "checkpoint.json rank-00000.safetensors rank-00001.safetensors rank-00002.safetensors rank-00003.safetensors" ]] ||
  fail "4 ranks left $(ls -a "$CHECKPOINT")"

# steps RANKS ITERATIONS ARGUMENTS...: of Adam, whose weights go to $work/w.npy.
steps() {
  local ranks=$1 iterations=$2
  shift 2
  mpirun -n "$ranks" "$bin/coconet" run adam --set n=10007 --schedule fused --warmup 0 --iters "$iterations" \
    --output w="$work/w.npy" "$@" >"$work/log"
}
# says TEXT: the last run did.
says() { grep -qF "$1" "$work/log" || fail "it does not say '$1' but:"; }
steps 2 8
mv "$work/w.npy" "$work/whole.npy"
steps 2 5 --save "$work/run" --save-every 2 --keep 2 --resume "$work/run" --may-be-first-start
says "no checkpoint in '$work/run' yet: beginning anew"
[[ $(cd "$work/run" && echo *) == "step-4 step-5" ]] || fail "--keep 2 left $(ls "$work/run")"
: >"$work/run/step-5/checkpoint.json"
steps 2 4 --resume "$work/run" 2>"$work/errors"
grep -qF "'$work/run/step-5/checkpoint.json' is damaged at byte 0" "$work/errors" ||
  fail "it does not say what is wrong with the newest checkpoint: $(cat "$work/errors")"
says "resumed from '$work/run/step-4'"
cmp "$work/w.npy" "$work/whole.npy" || fail "a run that was resumed has other weights"

cat >"$work/read.py" <<'PYTHON'
import json, struct, sys
directory, npy = sys.argv[1:]
manifest = json.load(open(f"{directory}/checkpoint.json"))
tensor, = [one for one in manifest["tensors"] if one["name"] == "w"]
whole = bytearray(4 * tensor["shape"][0])
for part in tensor["parts"]:
    data = open(f"{directory}/{manifest['files'][part['file']]['name']}", "rb").read()
    length, = struct.unpack("<Q", data[:8])
    begin, end = json.loads(data[8:8 + length])["w"]["data_offsets"]
    assert 8 + length + begin == part["offset"]
    at = 4 * part["begin"][0]
    whole[at:at + end - begin] = data[8 + length + begin:8 + length + end]
assert open(npy, "rb").read().endswith(whole)
print("Python reads it")
PYTHON
if command -v python3 >/dev/null; then
  steps 3 1 --save "$work/python"
  python3 "$work/read.py" "$work/python/step-1" "$work/w.npy"
fi
