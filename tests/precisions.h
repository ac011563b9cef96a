// The precisions that tests build shipped programs in.
#pragma once

#include <string>
#include <vector>

#include "coconet/programs.h"

namespace coconet::test {

/// "f16", or "f16 mixed".
[[nodiscard]] inline std::string to_text(const programs::Precision& precision) {
  return std::string(to_string(precision.model)) + (precision.mixed() ? " mixed" : "");
}

struct InPrecision {
  const programs::Shipped& shipped;
  programs::Precision precision;

  [[nodiscard]] Program build(int ranks) const {
    return shipped.build(shipped.mesh(ranks), precision);
  }
};

/// Every shipped program in its usual precision, and optimizers in mixed precision, too.
[[nodiscard]] inline std::vector<InPrecision> usual_programs() {
  std::vector<InPrecision> usual;
  for (const programs::Shipped& shipped : programs::shipped()) {
    usual.push_back({shipped, shipped.precisions.front()});
    if (shipped.with != nullptr) usual.push_back({shipped, programs::mixed(f16)});
  }
  return usual;
}

}  // namespace coconet::test
