// What a machine wrote down as a litmus test: whether a load can see anything but what it should,
// and whether it can when one of the instructions that order memory is taken away or weakened.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ptx/machine.h"
#include "ptx/model.h"

namespace coconet::test::ptx {

/// What a loaded element is for.
enum class Content : std::uint8_t {
  data,  ///< anything but what was stored there last is wrong
  flag,  ///< waited for until it is there, and then only ever larger
  cell   ///< waited for until it is there, and wrong where it is overwritten before it is seen
};

/// A run of kernels to ask about.
struct Run {
  MachineShape shape;
  /// Of the threads that are looked at, without looks that did not end a wait. Leaving out others
  /// leaves out what they order, and so forbids less.
  std::vector<Step> steps;
  std::function<Content(const Step&)> content;
};

/// The steps of threads `looked_at` of every block; a source is -2 where another thread stored it.
[[nodiscard]] std::vector<Step> steps_of(const Machine& machine, const MachineShape& shape,
                                         const std::vector<int>& looked_at);

/// Something less than what the kernels say.
struct Mutation {
  enum class Kind : std::uint8_t { dropped, to_gpu, to_cta, relaxed, weak, cut_lines };
  Kind kind = Kind::dropped;
  const Instruction* instruction = nullptr;
  [[nodiscard]] std::string text() const;   ///< "fence.acq_rel.sys dropped"
  [[nodiscard]] std::string where() const;  ///< of the PTX
};

/// All that the runs have instructions for.
[[nodiscard]] std::vector<Mutation> mutations_of(const std::vector<Run>& runs);

/// Sentences about loads that may see something else; at most `most`. Empty: none can.
[[nodiscard]] std::vector<std::string> stale_loads(const Run& run, const Mutation* mutation,
                                                   std::size_t most);

/// How many loads were asked about.
[[nodiscard]] std::size_t checked_loads(const Run& run);

}  // namespace coconet::test::ptx
