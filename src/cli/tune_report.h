// The page that `coconet tune --report` writes.
#pragma once

#include <string>

#include "coconet/program.h"
#include "jit/tune/tuner.h"

namespace coconet::cli {

/// One HTML page that needs nothing else: time against size, predictions beside measurements, the
/// search tree, and a picture of the last size's winner where there is Graphviz.
[[nodiscard]] std::string tune_report(const Program& program, const jit::Tuned& tuned,
                                      const std::string& device);

/// "A" for 0, "B" for 1, then "AA": what tables call the schedules that they list below.
[[nodiscard]] std::string letter(std::size_t index);

/// What has a letter, in the terminal as on the page: the program without a schedule, then the
/// winners of all sizes, each once, in the order of the sizes.
[[nodiscard]] std::vector<jit::Variant> lettered(const jit::Tuned& tuned);

}  // namespace coconet::cli
