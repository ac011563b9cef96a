// The table of algorithms.
#include "jit/algo/algorithm.h"

#include "coconet/error.h"

namespace coconet::jit {

namespace {

constexpr const Algorithm* table[] = {
#define COCONET_ALGORITHM(name) &name##_algorithm,
#include "jit/algo/algorithms.def"
#undef COCONET_ALGORITHM
};

}  // namespace

std::span<const Algorithm* const> algorithms() {
  return table;
}

const Algorithm& find_algorithm(std::string_view name) {
  std::string known;
  for (const Algorithm* algorithm : table) {
    if (name.empty() || algorithm->name == name) return *algorithm;
    known += (known.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  throw ScheduleError("there is no collective algorithm '" + std::string(name) + "'; known are " +
                      known);
}

std::string_view device_operator(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::mean:
      return "sum_of";
    case Reduction::max:
      return "max_of";
    case Reduction::min:
      return "min_of";
    case Reduction::prod:
      return "prod_of";
  }
  return "";
}

}  // namespace coconet::jit
