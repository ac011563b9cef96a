// Reading PTX: statements end with a semicolon, and a register that a block in braces declares
// hides one of the same name outside.
#include "ptx/text.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace coconet::test::ptx {

namespace {

using Strings = std::vector<std::string>;

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\n\r");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n\r") - begin + 1));
}

/// The text in pieces at `mark`, but not inside brackets.
Strings split(std::string_view text, char mark) {
  Strings pieces(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == mark && depth == 0) {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  for (std::string& piece : pieces) piece = trimmed(piece);
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

/// Comments, as blanks: lines keep their numbers.
std::string without_comments(std::string_view text) {
  std::string code(text.substr(0, text.find('\0')));
  for (std::size_t at = code.find("//"); at != std::string::npos; at = code.find("//", at)) {
    const std::size_t end = std::min(code.find('\n', at), code.size());
    std::fill(code.begin() + static_cast<std::ptrdiff_t>(at),
              code.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  }
  return code;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(without_comments(text)) {}

  Module module() {
    Module module;
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
      if (looking_at(".version") || looking_at(".target") || looking_at(".address_size")) {
        (void)until("\n");
      } else if (const std::size_t header = text_.find_first_of(";{(", at_);
                 is_function(text_.substr(at_, header - at_))) {
        read_function(module);
      } else {
        const std::string declaration = until(";");
        if (declaration.find(".shared") != std::string::npos) declare(module.shared, declaration);
      }
    }
    return module;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("PTX line " + std::to_string(line()) + ": " + what);
  }
  [[nodiscard]] int line() const {
    return 1 + static_cast<int>(std::count(text_.begin(),
                                           text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  [[nodiscard]] bool looking_at(std::string_view word) const {
    return std::string_view(text_).substr(at_).starts_with(word);
  }
  /// What comes before one of `marks`, which is passed.
  std::string until(const char* marks) {
    const std::size_t end = text_.find_first_of(marks, at_);
    if (end == std::string::npos) fail("ends early");
    std::string piece = trimmed(std::string_view(text_).substr(at_, end - at_));
    at_ = end + 1;
    return piece;
  }
  static bool is_function(const std::string& header) {
    return header.find(".entry") != std::string::npos || header.find(".func") != std::string::npos;
  }

  /// ".param .align 8 .b8 name[24]"
  void declare(std::map<std::string, std::size_t>& symbols, const std::string& declaration) {
    const std::size_t name_at = declaration.find_last_of(" \t\n") + 1;
    const std::size_t bracket = declaration.find('[');
    const std::string name = declaration.substr(name_at, bracket - name_at);
    const std::size_t bytes = bracket == std::string::npos
                                  ? sizeof(std::uint64_t)
                                  : std::stoull(declaration.substr(bracket + 1));
    symbols[name] = std::max(symbols[name], bytes);
  }
  Strings declare_all(Function& function, const std::string& declarations) {
    Strings names;
    for (const std::string& declaration : split(declarations, ',')) {
      declare(function.symbols, declaration);
      const std::size_t name_at = declaration.find_last_of(" \t\n") + 1;
      names.push_back(declaration.substr(name_at, declaration.find('[') - name_at));
    }
    return names;
  }

  void read_function(Module& module) {
    Function function;
    std::string header = until("(;{");
    if (header.ends_with(".func")) {
      function.result = declare_all(function, until(")")).front();
      header = until("(;{");
    }
    function.name = header.substr(header.find_last_of(" \t\n") + 1);
    if (text_[at_ - 1] == '(') {
      function.parameters = declare_all(function, until(")"));
      (void)until(";{");
    }
    if (text_[at_ - 1] == ';') return;
    scopes_ = {{}};
    read_body(module, function);
    module.functions[function.name] = std::move(function);
  }

  void read_body(Module& module, Function& function) {
    while (!scopes_.empty()) {
      skip_blanks();
      const std::size_t end = text_.find_first_of(":;{}", at_);
      if (end == std::string::npos) fail("a function ends early");
      if (text_[at_] == '{') {
        ++at_;
        scopes_.emplace_back();
      } else if (text_[at_] == '}') {
        ++at_;
        scopes_.pop_back();
      } else if (text_[end] == ':' && text_[end + 1] != ':') {
        function.labels[until(":")] = function.body.size();
      } else {
        read_statement(module, function);
      }
    }
  }

  void read_statement(Module& module, Function& function) {
    const int number = line();
    const std::string statement = until(";");
    if (statement.starts_with(".reg")) {
      declare_registers(function, statement);
    } else if (statement.starts_with(".local") || statement.starts_with(".param")) {
      declare(function.symbols, statement);
    } else if (statement.starts_with(".shared")) {
      declare(module.shared, statement);
    } else if (statement.starts_with(".pragma") || statement.starts_with(".loc")) {
      return;
    } else if (statement.starts_with(".")) {
      fail("the directive '" + statement + "' is not known to this reader");
    } else {
      function.body.push_back(instruction(number, statement));
    }
  }

  /// ".reg .b64 %rd<17>" or ".reg .pred %p1"
  void declare_registers(Function& function, const std::string& statement) {
    for (std::string name :
         split(statement.substr(statement.find_first_of(" \t", sizeof(".reg "))), ',')) {
      const std::size_t many = name.find('<');
      const int count = many == std::string::npos ? 1 : std::stoi(name.substr(many + 1));
      name.resize(std::min(many, name.size()));
      for (int i = 0; i < count; ++i) {
        const std::string suffix = many == std::string::npos ? "" : std::to_string(i);
        scopes_.back()[name + suffix] = function.registers++;
      }
    }
  }

  [[nodiscard]] int find_register(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    }
    return -1;
  }

  Instruction instruction(int number, std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    Instruction made;
    made.line = number;
    made.text = text;
    if (text.starts_with("@")) {
      made.if_not = text[1] == '!';
      const std::size_t name = made.if_not ? 2 : 1;
      made.guard = find_register(text.substr(name, text.find(' ') - name));
      if (made.guard < 0) fail("'" + text + "' has a guard that is not declared");
      text = trimmed(text.substr(text.find(' ')));
    }
    const std::size_t end = std::min(text.find(' '), text.size());
    made.mnemonic = text.substr(0, end);
    made.parts = split(made.mnemonic, '.');
    for (const std::string& piece : split(text.substr(end), ','))
      made.operands.push_back(operand(piece));
    return made;
  }

  Operand operand(const std::string& text) {
    Operand made;
    const char first = text.empty() ? ' ' : text.front();
    if (first == '[') {
      made = address(trimmed(text.substr(1, text.size() - 2)));
    } else if (first == '{' || first == '(') {
      made.kind = Operand::Kind::list;
      for (const std::string& part : split(text.substr(1, text.size() - 2), ','))
        made.parts.push_back(operand(part));
    } else if (text.find('|') != std::string::npos) {
      made.kind = Operand::Kind::list;
      for (const std::string& part : split(text, '|')) made.parts.push_back(operand(part));
    } else if (std::isdigit(static_cast<unsigned char>(first)) != 0 || first == '-') {
      made.number = value(text);
    } else if (made.reg = find_register(text); made.reg >= 0) {
      made.kind = Operand::Kind::reg;
    } else {
      made.kind = Operand::Kind::symbol;
      made.symbol = text;
    }
    return made;
  }

  Operand address(const std::string& text) {
    const std::size_t plus = text.find('+');
    Operand made = operand(trimmed(text.substr(0, plus)));
    if (plus != std::string::npos) made.number = value(trimmed(text.substr(plus + 1)));
    made.kind = Operand::Kind::address;
    return made;
  }

  [[nodiscard]] std::uint64_t value(const std::string& text) const {
    if (text.starts_with("0f") || text.starts_with("0d"))
      return std::stoull(text.substr(2), nullptr, 16);
    std::size_t used = 0;
    const auto number = text.starts_with("-") ? static_cast<std::uint64_t>(std::stoll(text, &used))
                                              : std::stoull(text, &used, 0);
    if (used != text.size()) fail("'" + text + "' is no number that this reader knows");
    return number;
  }

  std::string text_;
  std::size_t at_ = 0;
  std::vector<std::map<std::string, int>> scopes_;
};

}  // namespace

Module read_module(std::string_view text) {
  return Reader(text).module();
}

}  // namespace coconet::test::ptx
