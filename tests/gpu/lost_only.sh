# shellcheck shell=bash
# What the tests of tests/gpu/first.sh ask of a table where one part hung.

# lost_only TABLE HUNG PART...: that part HUNG failed, and all other PARTs ended without a failure; prints what is wrong.
lost_only() {
  local table=$1 hung=$2 part
  awk -v hung="$hung" '
    { rows = rows $0 "\n" }
    /^\| part / {
      failed[$3] = rows ~ /FAILED/
      if ($3 != hung && failed[$3]) printf "%s", rows
      rows = ""
    }
    END { if (!failed[hung]) print "part " hung " did not fail" }' "$table"
  for part in "${@:3}"; do
    [[ $part == "$hung" ]] || grep -q "^| part $part | [0-9]* s |$" "$table" || echo "part $part did not end"
  done
}
