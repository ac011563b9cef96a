// Checks the device text of an op that the application defines. What is let through is one
// expression over its operands, whatever kernel it is put into; what is no such expression would be
// an error of the compiler's, far from the definition, or none and another kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ir/ascii.h"
#include "ir/custom_op.h"
#include "ir/graph.h"

namespace coconet::ir {

namespace {

/// Takes the longest start of `text` that `belongs`.
template <class Belongs>
std::string_view take(std::string_view& text, const Belongs& belongs) {
  std::size_t length = 0;
  while (length < text.size() && belongs(text[length])) ++length;
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(length);
  return taken;
}

bool is_operand(std::string_view word) {
  return word == "a" || word == "b" || word == "c";
}

/// The functions of the dialect: those that the table's own texts call.
const std::set<std::string, std::less<>>& functions() {
  static const auto found = [] {
    std::set<std::string, std::less<>> names;
    for (const PointwiseRow& row : pointwise_table()) {
      for (std::string_view rest = row.device; !rest.empty();) {
        const std::string_view word = take(rest, is_word);
        if (word.ends_with('_') && rest.starts_with('(')) names.emplace(word);
        take(rest, [](char c) { return !is_word(c); });
      }
    }
    return names;
  }();
  return found;
}

bool is_type(std::string_view word) {
  return word == "bool" || (parse_dtype(word).has_value() && !is_16_bit(*parse_dtype(word)));
}

class Checker {
 public:
  Checker(std::string_view text, int arity) : rest_(text), arity_(arity) {}

  /// The first problem, or nothing.
  std::string problem() {
    while (true) {
      take(rest_, [](char c) { return c == ' '; });
      if (rest_.empty()) break;
      const char c = rest_.front();
      const bool starts_number =
          is_digit(c) || (c == '.' && rest_.size() > 1 && is_digit(rest_[1]));
      std::string wrong = starts_number ? number() : is_word(c) ? word() : sign();
      if (!wrong.empty()) return wrong;
    }
    if (!empty_ && !open_.empty()) return "has a parenthesis that is not closed";
    if (empty_) return "is empty; it must be an expression such as \"a * a\"";
    for (int i = 0; i < arity_; ++i) {
      const char name = static_cast<char>('a' + i);
      if (!read_.contains(name)) {
        return fmt::format("does not read operand {} of {}; use it, or give the op another arity",
                           name, arity_);
      }
    }
    return "";
  }

 private:
  std::string number() {
    const std::string_view start = rest_;
    take(rest_, is_digit);
    if (rest_.starts_with('.')) rest_.remove_prefix(1);
    take(rest_, is_digit);
    if (rest_.starts_with('e') || rest_.starts_with('E')) {
      rest_.remove_prefix(1);
      if (rest_.starts_with('-') || rest_.starts_with('+')) rest_.remove_prefix(1);
      take(rest_, is_digit);
    }
    const auto taken = [&] { return start.substr(0, start.size() - rest_.size()); };
    const std::string_view number = taken();
    const bool is_followed = !rest_.empty() && (is_word(rest_.front()) || rest_.front() == '.');
    const bool is_cut = !is_digit(number.back()) && number.back() != '.';  // "1e"
    // C++ reads whole numbers that begin with 0 as octal.
    const bool is_octal = number.size() > 1 && number[0] == '0' && is_digit(number[1]);
    if (is_followed || is_cut || is_octal) {
      take(rest_, [](char c) { return is_word(c) || c == '.'; });
      return fmt::format(
          "has the number '{}'; numbers are decimal and have no suffix, such as 0.5 "
          "or 1e-6, as they take the dtype of the operands",
          taken());
    }
    return follow(false);
  }

  std::string word() {
    const std::string_view word = take(rest_, is_word);
    take(rest_, [](char c) { return c == ' '; });
    const bool called = rest_.starts_with('(');
    if (is_operand(word) && !called) {
      if (word[0] - 'a' >= arity_) {
        return fmt::format("reads '{}', but the op has {}; it may read {}", word,
                           arity_ == 1 ? "one operand" : fmt::format("{} operands", arity_),
                           arity_ == 1 ? "a" : "a and b");
      }
      read_.insert(word[0]);
      return follow(false);
    }
    if (!called && (word == "infinity" || word == "true" || word == "false")) return follow(false);
    if (called && (functions().contains(word) || is_type(word))) return follow(true);
    std::vector<std::string> known = {functions().begin(), functions().end()};
    const std::string near = nearest(word, known);
    if (called && !near.empty())
      return fmt::format("calls '{}', which kernels do not have; did you mean '{}'?", word, near);
    return fmt::format(
        "{} '{}', which kernels do not have; they have the operands a, b and c, "
        "infinity, true, false, conversions such as f32(a), and the functions {}",
        called ? "calls" : "reads", word, fmt::join(known, ", "));
  }

  std::string sign() {
    static constexpr std::string_view pairs[] = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>"};
    static constexpr std::string_view refused[] = {"++", "--", "//", "/*", "*/", "::", "->"};
    const std::string_view two = rest_.substr(0, 2);
    const char c = rest_.front();
    if (std::ranges::find(refused, two) != std::end(refused)) return not_allowed(two);
    if (std::ranges::find(pairs, two) != std::end(pairs)) {
      rest_.remove_prefix(2);
      // "a >>= b" and "a <<= b", which assign.
      if (rest_.starts_with('=')) return not_allowed(fmt::format("{}=", two));
      return follow(false);
    }
    if (std::string_view("+-*/%<>!&|^~?:,()").find(c) == std::string_view::npos)
      return not_allowed(rest_.substr(0, 1));
    if (two.size() == 2 && two[1] == '=') return not_allowed(two);
    rest_.remove_prefix(1);
    if (c == '(') open_.push_back(call_);
    if (c == ')') {
      if (open_.empty()) return "closes a parenthesis that is not open";
      open_.pop_back();
    }
    if (c == ',' && (open_.empty() || !open_.back()))
      return "has a comma that is between no function's arguments; it must be one expression";
    return follow(false);
  }

  static std::string not_allowed(std::string_view what) {
    return fmt::format(
        "has '{}'; it must be one expression of operands, numbers, calls, "
        "parentheses and the operators of C++ that assign nothing",
        what);
  }

  /// Whether the next parenthesis opens a function's arguments.
  std::string follow(bool call) {
    call_ = call;
    empty_ = false;
    return "";
  }

  std::string_view rest_;
  int arity_;
  bool empty_ = true;
  bool call_ = false;
  std::vector<bool> open_;  ///< for each parenthesis whether it holds arguments
  std::set<char> read_;
};

}  // namespace

std::string device_text_problem(std::string_view text, int arity) {
  return Checker(text, arity).problem();
}

}  // namespace coconet::ir
