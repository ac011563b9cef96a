// direct: every rank reads its slice from all ranks, computes, and writes its results to all ranks, between two
// barriers. The fewest steps, and each byte crosses once: best where all ranks are on one switch or one memory.
#include "jit/algo/algorithm.h"

namespace coconet::jit {

namespace {

std::string open() {
  return "  // every rank's operand is written\n"
         "  if (!rank_barrier(block, a.sync, 0)) return;\n";
}

std::string reduce(const Skeleton& skeleton, Reduction reduction, const std::string& pointers,
                   const std::string& index) {
  return "reduce_ranks<" + std::string(device_operator(reduction)) + ", " + skeleton.width + ">(" +
         pointers + ", " + index + ")";
}

std::string gather(const Skeleton&, const std::string& pointers, const std::string& index,
                   const std::string& value) {
  return "store_ranks<STREAM>(" + pointers + ", " + index + ", a.sync.rank, " + value + ");";
}

std::string close() {
  return "  // every rank's result is written, and no operand is read any more\n"
         "  rank_barrier(block, a.sync, 1);\n";
}

}  // namespace

constinit const Algorithm direct_algorithm{"direct", "simple", "direct.h", open,
                                           reduce,   gather,   close};

}  // namespace coconet::jit
