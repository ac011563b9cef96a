// The tables of algorithms and protocols.
#include "jit/exchange/algorithm.h"

#include "coconet/error.h"

namespace coconet::jit {

namespace {

constexpr const Algorithm* algorithm_table[] = {
#define COCONET_ALGORITHM(name, summary) &name##_algorithm,
#include "coconet/algorithms.def"
#undef COCONET_ALGORITHM
};
constexpr const Protocol* protocol_table[] = {
#define COCONET_PROTOCOL(name, summary) &name##_protocol,
#include "coconet/algorithms.def"
#undef COCONET_PROTOCOL
};

template <class Row>
const Row& find(std::span<const Row* const> table, std::string_view what, std::string_view name) {
  std::string known;
  for (const Row* row : table) {
    if (name.empty() || row->name == name) return *row;
    known += (known.empty() ? "" : ", ") + std::string(row->name);
  }
  throw ScheduleError("there is no " + std::string(what) + " '" + std::string(name) +
                      "'; known are " + known);
}

}  // namespace

std::span<const Algorithm* const> algorithms() {
  return algorithm_table;
}
const Algorithm& find_algorithm(std::string_view name) {
  return find<Algorithm>(algorithm_table, "collective algorithm", name);
}

std::span<const Protocol* const> protocols() {
  return protocol_table;
}
const Protocol& find_protocol(std::string_view name) {
  return find<Protocol>(protocol_table, "protocol", name);
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
