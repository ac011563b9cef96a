// The model gives litmus tests their known verdicts: those that the PTX ISA's chapter on memory
// consistency and the paper on it (ASPLOS 2019) explain, and those of the test suites of NVIDIA's
// "mixedproxy" and of Dat3M for PTX, whose names stand with them.
#include <catch2/catch.hpp>

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx/machine.h"
#include "ptx/model.h"

using namespace coconet::test::ptx;

namespace {

/// Threads as text: each "gpu.cta: op; op; ...". Registers begin with r and are all threads'. x' is
/// another address of x.
struct Litmus {
  const char* name;
  std::vector<const char*> threads;
  const char* outcome;  ///< "r0=1 x=2": registers, and last values in memory
  bool allowed;
};

class Parser {
 public:
  Thread thread(const std::string& text) {
    std::istringstream in(text);
    Thread thread;
    char mark = 0;
    in >> thread.gpu >> mark >> thread.cta >> mark;
    std::map<std::string, int> passed;
    for (std::string op; std::getline(in, op, ';');) {
      thread.ops.push_back(parse(op));
      Op& last = thread.ops.back();
      if (last.kind != Op::Kind::barrier) continue;
      // Barriers of one name in one block, the first with the first and so on.
      std::string name = std::to_string(last.barrier) + "." + std::to_string(thread.cta) + "." +
                         std::to_string(thread.gpu);
      name += "." + std::to_string(passed[name]++);
      last.barrier = number(barriers_, name);
    }
    return thread;
  }
  /// Whether an outcome is the one that `text` describes.
  bool is(const Outcome& outcome, const std::string& text) {
    std::istringstream in(text);
    for (std::string part; in >> part;) {
      const std::string name = part.substr(0, part.find('='));
      const std::uint64_t value = std::stoull(part.substr(part.find('=') + 1));
      if (name[0] == 'r' ? outcome.registers.at(number(registers_, name)) != value
                         : !outcome.last.at(number(locations_, name)).contains(value))
        return false;
    }
    return true;
  }

 private:
  using Numbers = std::map<std::string, int>;
  static int number(Numbers& numbers, const std::string& name) {
    return numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
  }

  Op parse(const std::string& text) {
    std::istringstream in(text);
    std::string mnemonic;
    std::string first;
    std::string second;
    std::string third;
    in >> mnemonic >> first >> second >> third;
    Op op;
    std::string kind = mnemonic.substr(0, mnemonic.find('.'));
    if (mnemonic == "fence.alias") {
      op.kind = Op::Kind::alias_fence;
      return op;
    }
    if (kind == "bar") {
      op.kind = Op::Kind::barrier;
      op.barrier = std::stoi(first);
      return op;
    }
    qualify(op, mnemonic);
    op.kind = kinds.at(kind);
    if (kind == "ld" || kind == "atom") {
      op.result = number(registers_, first);
      place(op, second);
      if (kind == "atom") op.value = std::stoull(third);
      if (mnemonic.ends_with(".exch")) op.kind = Op::Kind::exchange;
    } else if (kind != "fence") {
      place(op, first);
      if (second[0] == 'r') {
        op.operand = number(registers_, second);
      } else {
        op.value = std::stoull(second);
      }
    }
    return op;
  }
  static void qualify(Op& op, const std::string& mnemonic) {
    std::istringstream in(mnemonic);
    for (std::string part; std::getline(in, part, '.');) {
      if (orders.contains(part)) op.order = orders.at(part);
      if (scopes.contains(part)) op.scope = scopes.at(part);
    }
  }
  void place(Op& op, const std::string& name) {
    op.address = number(addresses_, name);
    op.location = number(locations_, name.substr(0, name.find('\'')));
  }

  static inline const std::map<std::string, Op::Kind> kinds = {{"ld", Op::Kind::load},
                                                               {"st", Op::Kind::store},
                                                               {"atom", Op::Kind::add},
                                                               {"red", Op::Kind::add},
                                                               {"fence", Op::Kind::fence}};
  Numbers registers_, locations_, addresses_, barriers_;
};

constexpr bool allowed = true;
constexpr bool forbidden = false;

const Litmus message_passing[] = {
    {"MP, release and acquire at system scope, two GPUs",
     {"0.0: st.weak x 1; st.release.sys y 1", "1.0: ld.acquire.sys r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"MP-gpu",
     {"0.0: st.weak x 1; st.release.gpu y 1", "0.1: ld.acquire.gpu r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"MP, release and acquire at GPU scope, two GPUs",
     {"0.0: st.weak x 1; st.release.gpu y 1", "1.0: ld.acquire.gpu r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     allowed},
    {"MP-cta",
     {"0.0: st.weak x 1; st.release.cta y 1", "0.1: ld.acquire.cta r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     allowed},
    {"MP-cta-gpu",
     {"0.0: st.weak x 1; st.release.cta y 1", "0.0: ld.acquire.gpu r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"MP, the narrower scope counts",
     {"0.0: st.weak x 1; st.release.sys y 1", "1.0: ld.acquire.gpu r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     allowed},
    {"MP, relaxed store",
     {"0.0: st.weak x 1; st.relaxed.sys y 1", "1.0: ld.acquire.sys r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     allowed},
    {"MP-relaxed",
     {"0.0: st.release.sys x 1; st.release.sys y 1",
      "0.0: ld.relaxed.sys r0 y; ld.acquire.gpu r1 x"},
     "r0=1 r1=0",
     allowed},
    {"MP-sys-fence",
     {"0.0: st.weak x 1; fence.acq_rel.sys; st.relaxed.sys y 1",
      "1.0: ld.relaxed.sys r0 y; fence.acq_rel.sys; ld.weak r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"MP, fence and acquire",
     {"0.0: st.weak x 1; fence.acq_rel.sys; st.relaxed.sys y 1",
      "1.0: ld.acquire.sys r0 y; ld.weak r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"MP, fences, weak flag",
     {"0.0: st.weak x 1; fence.acq_rel.sys; st.weak y 1",
      "1.0: ld.relaxed.sys r0 y; fence.acq_rel.sys; ld.weak r1 x"},
     "r0=1 r1=0",
     allowed},
    {"MICRO24-Fig4a-correct",
     {"0.0: st.relaxed.sys x 1; fence.sc.gpu; st.relaxed.sys y 1",
      "0.1: ld.relaxed.sys r0 y; fence.sc.gpu; ld.relaxed.sys r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"MICRO24-Fig4a",
     {"0.0: st.relaxed.sys x 1; fence.sc.gpu; st.relaxed.sys y 1",
      "0.1: ld.relaxed.sys r0 y; fence.sc.cta; ld.relaxed.sys r1 x"},
     "r0=1 r1=0",
     allowed},
    {"Release-acquire-pattern",
     {"0.0: st.weak y 1; st.release.sys x 1; st.relaxed.sys x 2",
      "0.1: ld.relaxed.sys r0 x; fence.acq_rel.sys; ld.weak r1 y"},
     "r0=2 r1=0",
     forbidden},
    {"a release is no pattern with a later store to another location",
     {"0.0: st.weak y 1; st.release.sys f 1; st.relaxed.sys x 2",
      "0.1: ld.acquire.sys r0 x; ld.weak r1 y"},
     "r0=2 r1=0",
     allowed},
    {"MP-3-transitive",
     {"0.0: st.weak x 1; st.release.cta y 1", "0.0: ld.acquire.cta r0 y; st.release.gpu z 1",
      "0.1: ld.acquire.gpu r1 z; ld.weak r2 x"},
     "r0=1 r1=1 r2=0",
     forbidden},
    {"MP-3, the first link out of scope",
     {"0.0: st.weak x 1; st.release.cta y 1", "0.1: ld.acquire.cta r0 y; st.release.gpu z 1",
      "0.1: ld.acquire.gpu r1 z; ld.weak r2 x"},
     "r0=1 r1=1 r2=0",
     allowed},
    {"Cause-base-strong",
     {"0.0: st.release.gpu x 1; st.release.sys f 1",
      "0.1: ld.acquire.gpu r0 x; st.weak x 2; st.release.sys g 1",
      "0.2: ld.acquire.sys r1 g; ld.acquire.sys r2 f; ld.weak r3 x"},
     "r0=1 r1=1 r2=1 r3=1",
     forbidden},
    {"Cause-base-weak",
     {"0.0: st.weak x 1; st.release.sys f 1",
      "0.1: st.release.gpu x 2; ld.weak r0 x; st.release.sys g 1",
      "0.2: ld.acquire.sys r1 f; ld.acquire.sys r2 g; ld.weak r3 x"},
     "r0=1 r1=1 r2=1 r3=2",
     allowed},
};

const Litmus buffering[] = {
    {"SB-weak",
     {"0.0: st.weak x 1; ld.weak r0 y", "0.1: st.weak y 1; ld.weak r1 x"},
     "r0=0 r1=0",
     allowed},
    {"SB+acq_rel-cta",
     {"0.0: st.release.cta x 1; fence.acq_rel.cta; ld.acquire.cta r0 y",
      "0.0: st.release.cta y 1; fence.acq_rel.cta; ld.acquire.cta r1 x"},
     "r0=0 r1=0",
     allowed},
    {"SB+sc-cta",
     {"0.0: st.weak x 1; fence.sc.cta; ld.weak r0 y",
      "0.0: st.weak y 1; fence.sc.cta; ld.weak r1 x"},
     "r0=0 r1=0",
     forbidden},
    {"SB+sc-cta-outScope",
     {"0.0: st.weak x 1; fence.sc.cta; ld.weak r0 y",
      "0.1: st.weak y 1; fence.sc.cta; ld.weak r1 x"},
     "r0=0 r1=0",
     allowed},
    {"SB+sc-gpu",
     {"0.0: st.weak x 1; fence.sc.gpu; ld.weak r0 y",
      "0.1: st.weak y 1; fence.sc.gpu; ld.weak r1 x"},
     "r0=0 r1=0",
     forbidden},
    {"SB+sc-sys",
     {"0.0: st.weak x 1; fence.sc.sys; ld.weak r0 y",
      "1.0: st.weak y 1; fence.sc.sys; ld.weak r1 x"},
     "r0=0 r1=0",
     forbidden},
    {"SB+sc-sys-gpu",
     {"0.0: st.weak x 1; fence.sc.sys; ld.weak r0 y",
      "0.1: st.weak y 1; fence.sc.gpu; ld.weak r1 x"},
     "r0=0 r1=0",
     forbidden},
    {"SB+sc-gpu-multiFence",
     {"0.0: st.weak x 1; fence.sc.gpu; st.weak x 2; fence.sc.gpu; ld.weak r0 y",
      "0.1: st.weak y 1; fence.sc.gpu; st.weak y 2; fence.sc.gpu; ld.weak r1 x"},
     "r0=1 r1=1",
     forbidden},
    {"SB+bar-const-equal",
     {"0.0: st.weak x 1; bar 1; ld.weak r0 y", "0.0: st.weak y 1; bar 1; ld.weak r1 x"},
     "r0=0 r1=0",
     forbidden},
    {"SB+bar-const-equal, one",
     {"0.0: st.weak x 1; bar 1; ld.weak r0 y", "0.0: st.weak y 1; bar 1; ld.weak r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"SB+bar-const-diff",
     {"0.0: st.weak x 1; bar 0; ld.weak r0 y", "0.0: st.weak y 1; bar 1; ld.weak r1 x"},
     "r0=0 r1=0",
     allowed},
    {"SB+bar-diff-cta",
     {"0.0: st.weak x 1; bar 1; ld.weak r0 y", "0.1: st.weak y 1; bar 1; ld.weak r1 x"},
     "r0=0 r1=0",
     allowed},
    {"SB+twice-bars",
     {"0.0: st.weak x 1; bar 1; ld.weak r0 y; st.weak z 1; bar 1; ld.weak r1 w",
      "0.0: st.weak y 1; bar 1; ld.weak r2 x; st.weak w 1; bar 1; ld.weak r3 z"},
     "r1=0",
     forbidden},
    {"SB, the second store only seen before the first barrier",
     {"0.0: bar 1; st.weak x 1; bar 1", "0.0: bar 1; ld.weak r0 x; bar 1"},
     "r0=1",
     allowed},
    {"Atom-SB",
     {"0.0: atom.acq_rel.gpu r0 x 1; atom.acq_rel.gpu r1 y 1",
      "0.1: atom.acq_rel.gpu r2 y 1; atom.acq_rel.gpu r3 x 1"},
     "r1=0 r3=0",
     forbidden},
    {"Atom-SB-ld",
     {"0.0: atom.acq_rel.gpu r0 x 1; atom.acq_rel.gpu r1 y 1",
      "0.1: st.relaxed.gpu y 1; ld.relaxed.gpu r2 x"},
     "r1=0 r2=0",
     allowed},
    {"LB, weak",
     {"0.0: ld.weak r0 x; st.weak y 1", "0.1: ld.weak r1 y; st.weak x 1"},
     "r0=1 r1=1",
     allowed},
    {"LB, relaxed",
     {"0.0: ld.relaxed.sys r0 x; st.relaxed.sys y 1",
      "1.0: ld.relaxed.sys r1 y; st.relaxed.sys x 1"},
     "r0=1 r1=1",
     allowed},
    {"LB, release and acquire",
     {"0.0: ld.weak r0 x; st.release.sys y 1", "1.0: ld.acquire.sys r1 y; st.weak x 1"},
     "r0=1 r1=1",
     forbidden},
    {"LB, the release missing",
     {"0.0: ld.weak r0 x; st.relaxed.sys y 1", "1.0: ld.acquire.sys r1 y; st.weak x 1"},
     "r0=1 r1=1",
     allowed},
    {"LB-dlb",
     {"0.0: atom.relaxed.gpu.exch r0 h 1; fence.sc.gpu; st.weak t 1",
      "0.1: ld.weak r1 t; fence.sc.gpu; atom.relaxed.gpu.exch r2 h 1"},
     "r0=1 r1=1",
     forbidden},
    {"LB-dlb-no-fence-1",
     {"0.0: atom.relaxed.gpu.exch r0 h 1; st.weak t 1",
      "0.1: ld.weak r1 t; fence.sc.gpu; atom.relaxed.gpu.exch r2 h 1"},
     "r0=1 r1=1",
     allowed},
    {"NoThinAir-register",
     {"0.0: ld.weak r0 y; st.weak x r0", "0.1: ld.weak r1 x; st.weak y r1"},
     "r0=1 r1=1",
     forbidden},
    {"LB+RMW-a",
     {"0.0: ld.acquire.gpu r0 y; st.weak x 1", "0.0: atom.relaxed.gpu r1 x 1",
      "0.0: ld.relaxed.gpu r2 x; st.release.gpu y 1"},
     "r0=1 r1=1 r2=2",
     allowed},
    {"LB+RMW-b",
     {"0.0: ld.acquire.gpu r0 y; st.weak x 1", "0.0: ld.relaxed.gpu r1 x; st.release.gpu y 1"},
     "r0=1 r1=1",
     forbidden},
    {"LB+RMW-c",
     {"0.0: ld.acquire.gpu r0 y; st.relaxed.gpu x 1", "0.0: atom.relaxed.gpu r1 x 1",
      "0.0: ld.relaxed.gpu r2 x; st.release.gpu y 1"},
     "r0=1 r1=1 r2=2",
     forbidden},
};

const Litmus coherence[] = {
    {"CoRR, relaxed",
     {"0.0: st.relaxed.gpu x 1", "0.1: ld.relaxed.gpu r0 x; ld.relaxed.gpu r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"CoRR-acquire-weak",
     {"0.0: st.release.gpu x 1", "0.1: ld.acquire.gpu r0 x; ld.weak r1 x"},
     "r0=1 r1=0",
     forbidden},
    {"CoRR-weak-acquire",
     {"0.0: st.release.gpu x 1", "0.1: ld.weak r0 x; ld.acquire.gpu r1 x"},
     "r0=0 r1=1",
     allowed},
    {"CoRR-weak-weak",
     {"0.0: st.release.gpu x 1", "1.1: ld.weak r0 x; ld.weak r1 x"},
     "r0=1 r1=0",
     allowed},
    {"CoRR-relaxed-acquire-weak",
     {"0.0: st.release.gpu x 1; st.relaxed.gpu x 2",
      "1.1: ld.relaxed.gpu r0 x; ld.acquire.gpu r1 x; ld.weak r2 x"},
     "r0=2 r2=1",
     allowed},
    {"CoRR-weak-acquire-weak",
     {"0.0: st.release.gpu x 1; st.weak x 2",
      "1.1: ld.weak r0 x; ld.acquire.gpu r1 x; ld.weak r2 x"},
     "r0=2 r2=1",
     allowed},
    {"CoRW-R",
     {"0.0: st.release.sys x 1", "0.1: ld.acquire.sys r0 x; st.weak x 2; ld.weak r1 x"},
     "r0=1 r1=1",
     forbidden},
    {"CoRW",
     {"0.0: st.release.gpu x 1", "0.1: ld.acquire.gpu r0 x; st.weak x 2"},
     "r0=1 x=1",
     forbidden},
    {"CoRW-WW",
     {"0.0: ld.acquire.sys r0 x; st.release.sys y 3",
      "0.1: st.release.sys y 4; st.relaxed.sys x 5"},
     "r0=5 y=4",
     allowed},
    {"CoWR",
     {"0.0: st.release.gpu x 1", "0.1: st.release.gpu x 2; ld.weak r0 x"},
     "r0=1 x=2",
     forbidden},
    {"CoWR-R",
     {"0.0: st.release.gpu x 1", "1.1: st.release.sys x 2; ld.weak r0 x; ld.weak r1 x"},
     "r0=1 r1=2",
     allowed},
    {"CoWW", {"0.0: st.weak x 1; st.weak x 2"}, "x=1", forbidden},
    {"CoWW-R", {"0.0: st.weak x 1; st.weak x 2; ld.acquire.sys r0 x"}, "r0=1", forbidden},
    {"CoWW-RR",
     {"0.0: st.weak x 1; st.weak x 2", "0.0: ld.weak r0 x; ld.weak r1 x"},
     "r0=2 r1=1",
     allowed},
    {"Coherence",
     {"0.0: st.relaxed.sys x 1", "0.0: st.relaxed.sys x 2",
      "0.0: ld.acquire.sys r0 x; ld.acquire.sys r1 x",
      "0.0: ld.acquire.sys r2 x; ld.acquire.sys r3 x"},
     "r0=1 r1=2 r2=2 r3=1",
     forbidden},
    {"Coherence-weak",
     {"0.0: st.weak x 1", "0.0: st.weak x 2", "0.0: ld.acquire.sys r0 x; ld.acquire.sys r1 x",
      "0.0: ld.acquire.sys r2 x; ld.acquire.sys r3 x"},
     "r0=1 r1=2 r2=2 r3=1",
     allowed},
    {"Co-Total-4-threads",
     {"0.0: st.weak x 1; st.release.sys f 1", "0.0: st.weak x 2; st.release.sys g 1",
      "0.0: ld.acquire.sys r0 f; ld.acquire.sys r1 g; ld.weak r2 x",
      "0.0: ld.acquire.sys r3 f; ld.acquire.sys r4 g; ld.weak r5 x"},
     "r0=1 r1=1 r2=1 r3=1 r4=1 r5=2",
     allowed},
    {"IRIW, relaxed and fence.acq_rel",
     {"0.0: st.relaxed.sys x 1", "1.0: st.relaxed.sys y 1",
      "2.0: ld.relaxed.sys r0 x; fence.acq_rel.sys; ld.relaxed.sys r1 y",
      "3.0: ld.relaxed.sys r2 y; fence.acq_rel.sys; ld.relaxed.sys r3 x"},
     "r0=1 r1=0 r2=1 r3=0",
     allowed},
    {"IRIW, release and acquire",
     {"0.0: st.release.sys x 1", "1.0: st.release.sys y 1",
      "2.0: ld.acquire.sys r0 x; ld.acquire.sys r1 y",
      "3.0: ld.acquire.sys r2 y; ld.acquire.sys r3 x"},
     "r0=1 r1=0 r2=1 r3=0",
     allowed},
    {"IRIW, fence.sc",
     {"0.0: st.relaxed.sys x 1", "1.0: st.relaxed.sys y 1",
      "2.0: ld.relaxed.sys r0 x; fence.sc.sys; ld.relaxed.sys r1 y",
      "3.0: ld.relaxed.sys r2 y; fence.sc.sys; ld.relaxed.sys r3 x"},
     "r0=1 r1=0 r2=1 r3=0",
     forbidden},
    {"IRIW1 of Memalloy",
     {"0.0: st.weak x 1", "0.1: ld.weak r0 x; fence.sc.cta; ld.weak r1 y", "0.1: st.weak y 1",
      "0.1: ld.weak r2 y; fence.sc.gpu; ld.weak r3 x"},
     "r0=1 r1=0 r2=1 r3=0",
     allowed},
    {"WWC, relaxed with fence.sc",
     {"0.0: st.relaxed.gpu x 2", "0.1: ld.relaxed.gpu r0 x; fence.sc.gpu; st.relaxed.gpu y 1",
      "0.2: ld.relaxed.gpu r1 y; fence.sc.gpu; st.relaxed.gpu x 1"},
     "x=2 r0=2 r1=1",
     forbidden},
};

const Litmus updates[] = {
    {"Atom-plus-location",
     {"0.0: atom.acq_rel.sys r0 x 1", "0.1: atom.acq_rel.sys r1 x 1"},
     "x=1",
     forbidden},
    {"Atom-plus-location-weak",
     {"0.0: atom.acq_rel.cta r0 x 1", "0.1: atom.acq_rel.cta r1 x 1"},
     "x=1",
     allowed},
    {"Red-plus-location",
     {"0.0: red.acq_rel.sys x 1", "0.1: red.acq_rel.sys x 1"},
     "x=1",
     forbidden},
    {"Atom-plus-register",
     {"0.0: red.acq_rel.cta x 1", "0.1: red.acq_rel.cta x 1; ld.acquire.cta r0 x"},
     "r0=1",
     allowed},
    {"MP+RMW",
     {"0.0: st.relaxed.gpu x 1; st.release.gpu y 1", "0.0: atom.relaxed.gpu r0 y 1",
      "0.0: ld.acquire.gpu r1 y; ld.relaxed.gpu r2 x"},
     "r0=1 r1=2 r2=0",
     forbidden},
    {"two adds released, their sum acquired",
     {"0.0: st.weak x 1; red.release.sys c 1", "0.1: st.weak y 1; red.release.sys c 1",
      "0.2: ld.acquire.sys r0 c; ld.weak r1 x; ld.weak r2 y"},
     "r0=2 r1=0",
     forbidden},
    {"two adds, one of them relaxed",
     {"0.0: st.weak x 1; red.relaxed.sys c 1", "0.1: st.weak y 1; red.release.sys c 1",
      "0.2: ld.acquire.sys r0 c; ld.weak r1 x; ld.weak r2 y"},
     "r0=2 r1=0",
     allowed},
    {"Ticketlock-same-gpu",
     {"0.0: atom.acquire.gpu r0 in 1; ld.acquire.gpu r1 out; ld.weak r2 x; st.weak x 1; "
      "atom.release.gpu r3 out 1",
      "0.1: atom.acquire.gpu r4 in 1; ld.acquire.gpu r5 out; ld.weak r6 x; st.weak x 2; "
      "atom.release.gpu r7 out 1"},
     "r0=0 r1=0 r4=1 r5=1 r2=0 r6=0",
     forbidden},
    {"Ticketlock-diff-gpu",
     {"0.0: atom.acquire.gpu r0 in 1; ld.acquire.gpu r1 out; ld.weak r2 x; st.weak x 1; "
      "atom.release.gpu r3 out 1",
      "1.1: atom.acquire.gpu r4 in 1; ld.acquire.gpu r5 out; ld.weak r6 x; st.weak x 2; "
      "atom.release.gpu r7 out 1"},
     "r0=0 r1=0 r4=1 r5=1 r2=0 r6=0",
     allowed},
    {"Ticketlock-rel2rlx",
     {"0.0: atom.acquire.gpu r0 in 1; ld.acquire.gpu r1 out; ld.weak r2 x; st.weak x 1; "
      "atom.relaxed.gpu r3 out 1",
      "0.1: atom.acquire.gpu r4 in 1; ld.acquire.gpu r5 out; ld.weak r6 x; st.weak x 2; "
      "atom.release.gpu r7 out 1"},
     "r0=0 r1=0 r4=1 r5=1 r2=0 r6=0",
     allowed},
};

const Litmus aliases[] = {
    {"one thread, two addresses", {"0.0: st.weak x 1; ld.weak r0 x'"}, "r0=0", allowed},
    {"Proxy-Alias-AliasFence", {"0.0: st.weak x 1; fence.alias; ld.weak r0 x'"}, "r0=0", forbidden},
    {"Proxy-MP-Alias+sameProxy-aliasFence",
     {"0.0: st.weak x 1; fence.alias; st.release.gpu f 1",
      "0.1: ld.acquire.gpu r0 f; ld.weak r1 x'"},
     "r0=1 r1=0",
     forbidden},
    {"Proxy-MP-Alias+sameProxy-aliasFence1",
     {"0.0: st.weak x 1; st.release.gpu f 1",
      "0.1: ld.acquire.gpu r0 f; fence.alias; ld.weak r1 x'"},
     "r0=1 r1=0",
     forbidden},
    {"Proxy-MP-Alias+sameProxy-noFence",
     {"0.0: st.weak x 1; st.release.gpu f 1", "0.1: ld.acquire.gpu r0 f; ld.weak r1 x'"},
     "r0=1 r1=0",
     allowed},
    {"an alias fence after the release",
     {"0.0: st.weak x 1; st.release.gpu f 1; fence.alias",
      "0.1: ld.acquire.gpu r0 f; ld.weak r1 x'"},
     "r0=1 r1=0",
     allowed},
};

void check(const Litmus& litmus) {
  INFO(litmus.name << ": " << litmus.outcome);
  Parser parser;
  std::vector<Thread> threads;
  for (const char* const thread : litmus.threads) threads.push_back(parser.thread(thread));
  const Model model(std::move(threads));
  CHECK(model.allows(model.all_sources(), [&](const Outcome& outcome) {
    return parser.is(outcome, litmus.outcome);
  }) == litmus.allowed);
}

}  // namespace

TEST_CASE("messages are passed by what synchronizes, at scopes that include both threads") {
  for (const Litmus& litmus : message_passing) check(litmus);
}
TEST_CASE("stores are buffered and loads come early but for fence.sc, barriers and causality") {
  for (const Litmus& litmus : buffering) check(litmus);
}
TEST_CASE("one location is coherent as far as accesses are morally strong") {
  for (const Litmus& litmus : coherence) check(litmus);
}
TEST_CASE("adds are atomic in their scope, and releases go on through them") {
  for (const Litmus& litmus : updates) check(litmus);
}
TEST_CASE("addresses of one location are ordered by fence.proxy.alias on the way of causality") {
  for (const Litmus& litmus : aliases) check(litmus);
}
