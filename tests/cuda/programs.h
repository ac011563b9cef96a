// Small programs of the tests of the CUDA backend, and settings of the emulated driver.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "coconet/coconet.h"

namespace coconet::test {

/// An environment variable, for as long as this lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

/// x *= factor: one kernel.
[[nodiscard]] inline Executable scale(const World& world, std::int64_t n) {
  Program program("scale", Mesh::over(world));
  const Value x = program.state("x", f32, {n}, local);
  update(x, x * program.scalar("factor"));
  return compile(program, Schedule(), world);
}

/// y = the sum of all ranks' x, called "sum".
[[nodiscard]] inline Program total(const World& world, std::int64_t n) {
  Program program("total", Mesh::over(world));
  const Value x = program.input("x", f32, {n}, local);
  program.output("y", all_reduce(x, sum).named("sum"));
  return program;
}

/// Three kernels, one after the other: x += factor; then r = the sum of x; then x -= r.
[[nodiscard]] inline Executable three_kernels(const World& world, std::int64_t n) {
  Program program("three", Mesh::over(world));
  const Value x = program.state("x", f32, {n}, replicated);
  const Value shifted = x + program.scalar("factor");
  update(x, shifted - sum(shifted));
  return compile(program, Schedule(), world);
}

}  // namespace coconet::test
