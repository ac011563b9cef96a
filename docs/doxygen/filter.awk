# How Doxygen reads the public headers: the comment that opens a header becomes the description of its file, and where a
# header includes a table (*.def) stands what its rows become, functions and members, with descriptions made of their columns.

# The text of a string literal.
function unquoted(text) {
  gsub(/" *"/, "", text)
  gsub(/^ *"|" *$/, "", text)
  return text
}

# Splits the arguments of `row` at commas that are in neither parentheses nor quotes, into column[1] and on.
function split_columns(row,    i, c, depth, quoted, n) {
  sub(/^[A-Z_]+\(/, "", row)
  sub(/\)$/, "", row)
  split("", column)
  n = 1
  for (i = 1; i <= length(row); ++i) {
    c = substr(row, i, 1)
    if (c == "\"") quoted = !quoted
    if (!quoted && (c == "(" || c == "{")) ++depth
    if (!quoted && (c == ")" || c == "}")) --depth
    if (c == "," && !quoted && !depth) ++n
    else column[n] = column[n] c
  }
  for (i = 1; i <= n; ++i) gsub(/^ +| +$/, "", column[i])
  return n
}

function rule_text(rule) {
  if (rule == "numeric") return "Operands of one dtype, not bool, which the result has."
  if (rule == "floating") return "Operands of one float dtype, which the result has."
  if (rule == "compare") return "Operands of one dtype; the result is bool."
  if (rule == "logical") return "Operands and result are bool."
  if (rule == "choose") return "`a` is bool; `b` and `c` have one dtype, which the result has."
  return "The dtypes are those of the rule `" rule "` in coconet/pointwise.def."
}

# What users get of the row, with its description.
function declaration(    operands, text) {
  split_columns(row)
  if (row ~ /^COCONET_POINTWISE\(/) {
    operands = "const Value &a" (column[2] > 1 ? ", const Value &b" : "") (column[2] > 2 ? ", const Value &c" : "")
    text = "For each element `" column[6] "`. " rule_text(column[3])
    return "/** " text " */ Value " column[1] "(" operands ");"
  }
  if (row ~ /^COCONET_OPTIMIZER\(/) {
    text = unquoted(column[3])
    return "/** The program `" column[1] "`: " text ". */ Program " column[1] "(const Mesh &mesh, Precision precision = DType::f32, " \
      column[2] " options = {}, Storage storage = Storage::whole); " \
      "/** A step over tensors of `program`: " text ". */ std::vector<Value> " column[1] "(Program &program, " \
      "const std::vector<Value> &weights, const std::vector<Value> &gradients, const " column[2] " &options = {}, " \
      "const ParameterOptions &parameters = {});"
  }
  if (row ~ /^COCONET_NAME_KNOB\(/)
    return "/** " unquoted(column[3]) " (" unquoted(column[2]) ") */ std::string " column[1] ";"
  if (row ~ /^COCONET_NUMBER_KNOB\(/)
    return "/** " unquoted(column[5]) ": " unquoted(column[4]) " (" unquoted(column[2]) ") */ int " column[1] " = 0;"
  return row  # of a table that is not known here: Doxygen warns about it
}

# What all rows of the table `path` become, in one line, so that lines below keep their numbers.
function table(path,    line, rows, text) {
  text = ""
  row = ""
  while ((getline line < path) > 0) {
    if (row == "" && line !~ /^COCONET_[A-Z_]+\(/) continue
    gsub(/^ +| +$/, "", line)
    row = row (row == "" ? "" : " ") line
    if (line !~ /\)$/ || gsub(/\(/, "(", row) != gsub(/\)/, ")", row)) continue
    text = text declaration() " "
    ++rows
    row = ""
  }
  if (!rows) print "no rows in " path > "/dev/stderr"
  close(path)
  return text
}

FNR == 1 && /^\/\/ / {
  print "/// @file"
  opening = 1
}
opening && /^\/\/ / { sub(/^\/\//, "///") }
opening && !/^\/\/\// { opening = 0 }

/^#include "coconet\/[a-z]+\.def"$/ {
  folder = FILENAME
  sub(/coconet\/[^\/]*$/, "", folder)
  split($0, include, "\"")
  print table(folder include[2])
  next
}
# The macros of rows, whose work is done.
/^#(define|undef) COCONET_/ && !/COCONET_(VERSION|API)/ { macro = 1 }
macro {
  macro = /\\$/
  print ""
  next
}
{ print }
