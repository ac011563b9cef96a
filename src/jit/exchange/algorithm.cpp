// The tables of algorithms and protocols.
#include "jit/exchange/algorithm.h"

#include "coconet/error.h"
#include "jit/abi/abi.h"

namespace coconet::jit {

namespace {

template <class Order>
constexpr Algorithm sending(std::string_view name, std::string_view topology,
                            std::string_view header) {
  return {name, topology, header, Order::BOXES, Order::TREES, Order::up_owner};
}

/// Every rank exchanges with all others at once. With the protocol simple, ranks read and write
/// each other's tensors where they are, between two barriers: the fewest steps, and each byte
/// crosses once; best where all ranks are on one switch or one memory. With other protocols they
/// send each other chunks, and no barrier is needed.
constexpr Algorithm direct_algorithm =
    sending<abi::star_order>("direct", "star", "exchange/star.h");
/// A slice goes from rank to rank until it is back at its owner, and the result goes around once
/// more. Every link carries the same load at all times; best for large tensors where each rank has
/// one good link.
constexpr Algorithm ring_algorithm = sending<abi::ring_order>("ring", "ring", "exchange/ring.h");
/// Two binary trees below each owner of a slice, with chunks in turn: a number of steps that grows
/// with the logarithm of the ranks; best for small tensors on many ranks.
constexpr Algorithm tree_algorithm = sending<abi::tree_order>("tree", "tree", "exchange/tree.h");
/// As direct in place, but through an address behind which the tensors of all ranks are: the switch
/// between GPUs adds what a rank loads from there and copies what it stores. Each byte crosses a
/// rank's link once, however many ranks there are; best for large tensors on many GPUs of one
/// NVLink switch. It has no mailboxes.
constexpr Algorithm multimem_algorithm{"multimem", "", "exchange/multimem.h", 0, 0, nullptr};

// How the protocols work is in prelude/exchange/protocols.h and lines.h.
constexpr Protocol simple_protocol{"simple", "", false, abi::simple_slot_bytes};
constexpr Protocol ll_protocol{"ll", "", false, abi::ll_slot_bytes};
constexpr Protocol ll128_protocol{"ll128", "exchange/lines.h", true, abi::ll128_slot_bytes};

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

std::string_view operator_name(Reduction reduction) {
  constexpr std::string_view names[] = {"sum_of", "sum_of", "max_of", "min_of", "prod_of"};
  return names[static_cast<std::size_t>(reduction)];
}

}  // namespace coconet::jit
