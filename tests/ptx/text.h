// The text of PTX as functions of instructions, names of registers and places resolved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace coconet::test::ptx {

struct Operand {
  enum class Kind : std::uint8_t { reg, number, symbol, address, list };
  Kind kind = Kind::number;
  int reg = -1;                ///< of a reg; of an address, its base or -1
  std::uint64_t number = 0;    ///< of an address, what is added to its base
  std::string symbol;          ///< a name; of an address, its base where that is no register
  std::vector<Operand> parts;  ///< of a list: {a, b} or a|b
};

struct Instruction {
  int line = 0;  ///< of the text
  std::string text;
  int guard = -1;                  ///< register that says whether it is executed, or -1
  bool if_not = false;             ///< executed where the guard is false
  std::string mnemonic;            ///< "st.release.sys.global.u64"
  std::vector<std::string> parts;  ///< of the mnemonic, by dots
  std::vector<Operand> operands;
};

struct Function {
  std::string name;
  std::vector<std::string> parameters;
  std::string result;                          ///< or empty
  std::map<std::string, std::size_t> symbols;  ///< bytes of what is private to a call, by name
  std::vector<Instruction> body;
  std::map<std::string, std::size_t> labels;  ///< index of the instruction behind
  int registers = 0;
};

struct Module {
  std::map<std::string, Function> functions;
  std::map<std::string, std::size_t> shared;  ///< bytes of what a block shares, by name
};

/// Throws std::runtime_error with the line of what it does not understand.
[[nodiscard]] Module read_module(std::string_view text);

}  // namespace coconet::test::ptx
