// States with known elements, saved and loaded on the ranks of any world.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "files.h"
#include "jit/comm/require_on_rank.h"

namespace coconet::test {

/// A state of a program that does nothing with it.
struct StateOf {
  std::string name;
  DType dtype;
  std::vector<Dim> shape;
  Layout layout;
  bool is_local = false;
};

[[nodiscard]] inline Executable compile_states(const World& world, const Mesh& mesh,
                                               const std::vector<StateOf>& states) {
  Program program("states", mesh);
  for (const StateOf& one : states) (void)program.state(one.name, one.dtype, one.shape, one.layout);
  return compile(program, Schedule(), world);
}
[[nodiscard]] inline Executable compile_states(const World& world,
                                               const std::vector<StateOf>& states) {
  return compile_states(world, Mesh::over(world), states);
}

/// The bytes of the whole of a state of `count` elements, other ones for each `salt`.
[[nodiscard]] inline std::vector<std::byte> known_bytes(DType dtype, std::size_t count,
                                                        const std::string& salt) {
  std::uint64_t bits = std::hash<std::string>()(salt);
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::byte& byte : bytes) {
    bits = bits * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(dtype == DType::boolean ? bits >> 63 : bits >> 56);
  }
  return bytes;
}

/// Of a local state each rank has other elements.
[[nodiscard]] inline std::string salt_of(const World& world, const StateOf& state) {
  return state.name + (state.is_local ? std::to_string(world.rank()) : "");
}

inline void write_known(Executable& step, const World& world, const std::vector<StateOf>& states) {
  for (const StateOf& one : states) {
    const std::size_t count = count_of_whole(step, one.name);
    step.write_whole(one.name, one.dtype, known_bytes(one.dtype, count, salt_of(world, one)).data(),
                     count);
  }
}

inline void require_known(Executable& step, const World& world,
                          const std::vector<StateOf>& states) {
  for (const StateOf& one : states) {
    const std::size_t count = count_of_whole(step, one.name);
    std::vector<std::byte> found(count * size_of(one.dtype));
    step.read_whole(one.name, one.dtype, found.data(), count);
    require_on_rank(found == known_bytes(one.dtype, count, salt_of(world, one)), one.name.c_str());
  }
}

/// [5, 6] in every dtype, named after it.
[[nodiscard]] inline std::vector<StateOf> states_of_all_dtypes(const std::string& prefix,
                                                               const Layout& layout,
                                                               bool is_local = false) {
  std::vector<StateOf> states;
  for (const DType dtype : all_dtypes)
    states.push_back({prefix + std::string(to_string(dtype)), dtype, {5, 6}, layout, is_local});
  return states;
}

inline void write_bytes_to(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// Checkpoints that count up in their state and their metadata.
inline void save_number(Executable& step, const std::filesystem::path& directory, int number,
                        int keep = 0) {
  step.write("n", std::vector<std::int32_t>(step.count("n"), number));
  step.save(directory / std::to_string(number),
            {.metadata = {{"n", std::to_string(number)}}, .keep = keep});
}

[[nodiscard]] inline Executable compile_number(const World& world, std::int64_t elements = 5) {
  return compile_states(world, {{"n", i32, {elements}, sliced(0)}});
}

/// `text` with the checksum of what is before it.
[[nodiscard]] inline std::string signed_again(std::string text) {
  const std::size_t digits = text.size() - 19;
  text.replace(digits, 16, fmt::format("{:016x}", XXH3_64bits(text.data(), digits)));
  return text;
}

[[nodiscard]] inline std::string replaced(std::string text, const std::string& from,
                                          const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::invalid_argument("there is no " + from);
  return text.replace(at, from.size(), to);
}

}  // namespace coconet::test
