#!/usr/bin/env bash
# Names the C++ sources that are too long to be read at once: sizes.sh ROOT
set -euo pipefail
cd "$1"
found=$(find include src samples tests bench \( -name '*.cpp' -o -name '*.h' \) | LC_ALL=C sort | xargs awk '
  function look() { if (line > 450) print name ": " line " lines; a file has at most 450" }
  FNR == 1 { look(); name = FILENAME; begin = 0 }
  { line = FNR; gsub(/[\200-\277]/, "") }  # a character of several bytes is a column
  length > 100 && !/https?:/ { print name ":" FNR ": " length " columns; a line has at most 100" }
  # The bodies of functions, at the left or in a class.
  /^(  )?[A-Za-z~\[].*\)( const)?( noexcept)?( override)?( ->.*)? \{$/ && !/^ *(if|for|while|switch|namespace|struct|class|enum|TEST_CASE|do|else|catch)/ {
    match($0, /^ */); indent = RLENGTH; begin = FNR
  }
  begin && (/^}/ || /^  }/) && match($0, /^ */) && RLENGTH == indent {
    if (FNR - begin + 1 > 60) print name ":" begin ": " FNR - begin + 1 " lines; a function has at most 60"
    begin = 0
  }
  END { look() }')
[[ -z $found ]] || {
  echo "$found"
  exit 1
}
