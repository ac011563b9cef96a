// Checks of kernel text, byte by byte.
#include "fuzz/generated_text.h"

#include <algorithm>
#include <set>

#include "fuzz/targets.h"
#include "ir/access.h"
#include "ir/ascii.h"

namespace coconet::fuzz {
namespace {

bool is_identifier(std::string_view name) {
  return !name.empty() && !ir::is_digit(name.front()) && std::ranges::all_of(name, ir::is_word);
}

/// Kernel text has no strings, no characters and no directives.
bool is_of_dialect(char c) {
  return ir::is_word(c) ||
         std::string_view(" \n+-*/%<>=!&|^~?:;,.()[]{}").find(c) != std::string_view::npos;
}

void check_line(std::string_view line) {
  const std::size_t comment = line.find("//");
  const std::string_view code = line.substr(0, comment);
  require(std::ranges::all_of(code, is_of_dialect),
          "kernel text outside comments is the dialect's: " + std::string(line));
  require(code.find("/*") == std::string_view::npos,
          "kernel text has no comments of several lines: " + std::string(line));
  if (comment == std::string_view::npos) return;
  require(std::ranges::all_of(line.substr(comment),
                              [](char c) { return c >= ' ' && c <= '~' && c != '\\'; }),
          "comments are printable and end with their line: " + std::string(line));
}

}  // namespace

void check_text(const jit::KernelText& kernel) {
  require(is_identifier(kernel.entry), "an entry point is an identifier: " + kernel.entry);
  std::set<std::string> names;
  for (const jit::KernelArgument& argument : kernel.arguments) {
    require(is_identifier(argument.name), "an argument is an identifier: " + argument.name);
    require(names.insert(argument.name).second,
            "an argument has a name of its own: " + argument.name);
  }
  std::string_view text = kernel.source;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    require(end != std::string_view::npos, "the last line ends");
    check_line(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

void check_kernels_of(const Program& program) {
  const ir::Graph& graph = *ir::graph_of(program);
  const sched::Plan plan = sched::lower(graph);
  const std::vector<jit::KernelText> kernels = jit::generate(plan);
  const std::vector<jit::KernelText> again = jit::generate(sched::lower(graph));
  require(sched::print(plan) == sched::print(sched::lower(graph)), "a program has one plan");
  require(kernels.size() == again.size(), "a plan has one list of kernels");
  std::set<std::string> entries;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    check_text(kernels[i]);
    require(kernels[i].source == again[i].source, "a kernel has one text");
    require(entries.insert(kernels[i].entry).second,
            "a kernel has a name of its own: " + kernels[i].entry);
  }
}

}  // namespace coconet::fuzz
