// nvdisasm's text has a line for each instruction, as
//         /*1190*/              @!P0 LDG.E.128 R4, desc[UR10][R4.64] ;
// and a line for each label, ".L_x_1:". A kernel begins with the label ".text.NAME:", and what it
// calls follows with labels that begin with a dollar.
#include "jit/platform/sass.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace coconet::test {

namespace {

struct Instruction {
  std::string operation;  ///< "LDG.E.128"
  std::string operands;
  bool is_called = false;  ///< it belongs to a function that the kernel calls
};

struct Code {
  std::vector<Instruction> instructions;
  std::map<std::string, std::size_t> labels;  ///< the instruction behind each
};

std::vector<std::string_view> parts_of(std::string_view operation) {
  std::vector<std::string_view> parts;
  while (!operation.empty()) {
    parts.push_back(operation.substr(0, operation.find('.')));
    operation.remove_prefix(std::min(parts.back().size() + 1, operation.size()));
  }
  return parts;
}

bool has_part(std::string_view operation, std::string_view part) {
  const auto parts = parts_of(operation);
  return std::ranges::find(parts, part) != parts.end();
}

bool is_load(std::string_view operation) {
  return operation.starts_with("LDG.") || operation.starts_with("LD.");
}

/// Of global memory, but for flags, which are stored and loaded at a scope.
bool is_access(std::string_view operation) {
  return (is_load(operation) || operation.starts_with("STG.") || operation.starts_with("ST.")) &&
         !has_part(operation, "STRONG");
}

int bytes_of(std::string_view operation) {
  for (const std::string_view part : parts_of(operation)) {
    if (part == "U8" || part == "S8") return 1;
    if (part == "U16" || part == "S16") return 2;
    if (part == "64") return 8;
    if (part == "128") return 16;
  }
  return 4;
}

/// The numbers of the registers in `operands`: "R4" is 4, and "R4.64" is 4 and 5.
std::set<int> registers_in(std::string_view operands) {
  std::set<int> found;
  for (std::size_t at = 0; (at = operands.find('R', at)) != std::string_view::npos; ++at) {
    if (at > 0 && std::isalnum(static_cast<unsigned char>(operands[at - 1])) != 0) continue;
    int number = 0;
    const char* const end = operands.data() + operands.size();
    const auto [stop, error] = std::from_chars(operands.data() + at + 1, end, number);
    if (error != std::errc()) continue;  // RZ
    found.insert(number);
    if (std::string_view(stop, end).starts_with(".64")) found.insert(number + 1);
  }
  return found;
}

/// The loop [first, last], from the load `begin` on and around: bytes loaded before one is used.
int bytes_ahead_from(const Code& code, std::size_t first, std::size_t last, std::size_t begin) {
  int bytes = 0;
  std::set<int> loaded;
  for (std::size_t step = 0; step <= last - first; ++step) {
    const std::size_t at = first + (begin - first + step) % (last - first + 1);
    const auto& [operation, operands, is_called] = code.instructions[at];
    const bool loads = is_access(operation) && is_load(operation);
    const std::size_t comma = loads ? operands.find(',') : 0;
    for (const int used : registers_in(std::string_view(operands).substr(comma))) {
      if (loaded.contains(used)) return bytes;
    }
    if (!loads) continue;
    const std::set<int> to = registers_in(std::string_view(operands).substr(0, comma));
    const int width = bytes_of(operation);
    for (int word = 0; !to.empty() && word < (width + 3) / 4; ++word)
      loaded.insert(*to.begin() + word);
    bytes += width;
  }
  return bytes;
}

/// The most of them: a compiler may begin a round's loads in the round before.
int bytes_ahead(const Code& code, std::size_t first, std::size_t last) {
  int most = 0;
  for (std::size_t at = first; at <= last; ++at) {
    const std::string& operation = code.instructions[at].operation;
    if (is_access(operation) && is_load(operation))
      most = std::max(most, bytes_ahead_from(code, first, last, at));
  }
  return most;
}

using Range = std::pair<std::size_t, std::size_t>;

/// From the target of every branch back to the branch, where there are accesses in between and no
/// other such loop.
std::vector<Range> loops_of(const Code& code) {
  std::vector<Range> loops;
  for (std::size_t at = 0; at < code.instructions.size(); ++at) {
    const auto& [operation, operands, is_called] = code.instructions[at];
    const std::size_t label = operands.find("`(.L");
    if (is_called || !operation.starts_with("BRA") || label == std::string::npos) continue;
    const auto to = code.labels.find(operands.substr(label + 2, operands.find(')') - label - 2));
    if (to == code.labels.end() || to->second >= at) continue;
    const auto accesses = [](const Instruction& instruction) {
      return is_access(instruction.operation);
    };
    const auto begin = code.instructions.begin();
    if (std::any_of(begin + std::ptrdiff_t(to->second), begin + std::ptrdiff_t(at), accesses))
      loops.emplace_back(to->second, at);
  }
  const auto contains_another = [all = loops](const Range& loop) {
    return std::ranges::any_of(all, [&](const Range& other) {
      return other != loop && loop.first <= other.first && other.second <= loop.second;
    });
  };
  std::erase_if(loops, contains_another);
  std::ranges::sort(loops);
  return loops;
}

int widest(const SassLoop& loop) {
  const auto of = [](const Accesses& some) { return some.empty() ? 0 : some.rbegin()->first; };
  return std::max(of(loop.loads), of(loop.stores));
}

SassKernel kernel_of(const Code& code) {
  SassKernel kernel;
  for (const Instruction& instruction : code.instructions) {
    const bool is_fence =
        instruction.operation.starts_with("MEMBAR") && has_part(instruction.operation, "SYS");
    kernel.fences += is_fence ? 1 : 0;
    const std::string first = instruction.operation.substr(0, 3);
    kernel.local_accesses += first == "LDL" || first == "STL" ? 1 : 0;
  }
  int most = 0;
  for (const auto& [first, last] : loops_of(code)) {
    SassLoop& loop = kernel.loops.emplace_back();
    loop.bytes_ahead = bytes_ahead(code, first, last);
    for (std::size_t at = first; at <= last; ++at) {
      const std::string& operation = code.instructions[at].operation;
      if (is_access(operation))
        ++(is_load(operation) ? loop.loads : loop.stores)[bytes_of(operation)];
    }
    most = std::max(most, widest(loop));
  }
  std::erase_if(kernel.loops, [&](const SassLoop& loop) { return widest(loop) < most; });
  return kernel;
}

/// What stands in `line` behind the address of an instruction; empty where there is none.
std::string_view instruction_in(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || !line.substr(begin).starts_with("/*")) return {};
  const std::size_t end = line.find("*/", begin);
  const std::size_t text = line.find_first_not_of(" \t", end + 2);
  const std::size_t semicolon = line.find(';');
  if (text == std::string_view::npos || semicolon == std::string_view::npos) return {};
  return line.substr(text, semicolon - text);
}

}  // namespace

std::map<std::string, SassKernel> read_sass(const std::string& text) {
  const std::string section = ".text.";
  std::map<std::string, Code> codes;
  Code* code = nullptr;
  bool is_called = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == ':' && line.find(' ') == std::string::npos) {
      line.pop_back();
      if (line.starts_with(section)) {
        code = &codes[line.substr(section.size())];
        is_called = false;
      }
      is_called = is_called || line.starts_with("$");
      if (code != nullptr) code->labels[line] = code->instructions.size();
      continue;
    }
    std::string_view rest = instruction_in(line);
    if (rest.empty() || code == nullptr) continue;
    if (rest.starts_with("@")) rest.remove_prefix(rest.find(' ') + 1);
    const std::size_t blank = std::min(rest.find(' '), rest.size());
    code->instructions.push_back(
        {std::string(rest.substr(0, blank)), std::string(rest.substr(blank)), is_called});
  }
  std::map<std::string, SassKernel> kernels;
  for (const auto& [entry, its_code] : codes) kernels[entry] = kernel_of(its_code);
  return kernels;
}

const std::string& disassembler() {
  static const std::string found = [] {
    for (const char* file : {COCONET_NVDISASM, "/usr/local/cuda/bin/nvdisasm"}) {
      if (std::filesystem::exists(file)) return std::string(file);
    }
    return std::string(std::system("nvdisasm --version > /dev/null 2>&1") == 0 ? "nvdisasm" : "");
  }();
  return found;
}

std::map<std::string, SassKernel> disassembled(const std::string& cubin) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("coconet-" + std::to_string(getpid()) + ".cubin");
  std::ofstream(file, std::ios::binary) << cubin;
  const std::string command = disassembler() + " -novliw -c " + file.string() + " 2>&1";
  std::string text;
  std::FILE* const output = popen(command.c_str(), "r");
  std::array<char, 1 << 16> block{};
  while (output != nullptr) {
    const std::size_t got = std::fread(block.data(), 1, block.size(), output);
    if (got == 0) break;
    text.append(block.data(), got);
  }
  const bool failed = output == nullptr || pclose(output) != 0;
  std::filesystem::remove(file);
  if (failed) throw std::runtime_error(command + " failed: " + text.substr(0, 1000));
  return read_sass(text);
}

}  // namespace coconet::test
