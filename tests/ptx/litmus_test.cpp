// The model gives litmus tests their known verdicts: those that the PTX ISA's chapter on memory
// consistency and the paper on it (ASPLOS 2019) explain, and those of the test suites of NVIDIA's
// "mixedproxy" and of Dat3M for PTX, whose names stand with them.
#include <catch2/catch.hpp>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ptx/machine.h"
#include "ptx/model.h"

using namespace coconet::test::ptx;

namespace {

struct Litmus {
  const char* name;
  const char* outcome;  ///< "r0=1 x=2": registers, and last values in memory
  bool allowed;
  /// Each "gpu.cta: op; op; ...", with | between them. Registers begin with r and are all threads'.
  /// x' is another address of x.
  const char* threads;
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
    {"MP, release and acquire at system scope, two GPUs", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; st.release.sys y 1 | 1.0: ld.acquire.sys r0 y; ld.weak r1 x"},
    {"MP-gpu", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; st.release.gpu y 1 | 0.1: ld.acquire.gpu r0 y; ld.weak r1 x"},
    {"MP, release and acquire at GPU scope, two GPUs", "r0=1 r1=0", allowed,
     "0.0: st.weak x 1; st.release.gpu y 1 | 1.0: ld.acquire.gpu r0 y; ld.weak r1 x"},
    {"MP-cta", "r0=1 r1=0", allowed,
     "0.0: st.weak x 1; st.release.cta y 1 | 0.1: ld.acquire.cta r0 y; ld.weak r1 x"},
    {"MP-cta-gpu", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; st.release.cta y 1 | 0.0: ld.acquire.gpu r0 y; ld.weak r1 x"},
    {"MP, the narrower scope counts", "r0=1 r1=0", allowed,
     "0.0: st.weak x 1; st.release.sys y 1 | 1.0: ld.acquire.gpu r0 y; ld.weak r1 x"},
    {"MP, relaxed store", "r0=1 r1=0", allowed,
     "0.0: st.weak x 1; st.relaxed.sys y 1 | 1.0: ld.acquire.sys r0 y; ld.weak r1 x"},
    {"MP-relaxed", "r0=1 r1=0", allowed,
     "0.0: st.release.sys x 1; st.release.sys y 1 | 0.0: ld.relaxed.sys r0 y; ld.acquire.gpu r1 x"},
    {"MP-sys-fence", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; fence.acq_rel.sys; st.relaxed.sys y 1 "
     "| 1.0: ld.relaxed.sys r0 y; fence.acq_rel.sys; ld.weak r1 x"},
    {"MP, fence and acquire", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; fence.acq_rel.sys; st.relaxed.sys y 1 "
     "| 1.0: ld.acquire.sys r0 y; ld.weak r1 x"},
    {"MP, fences, weak flag", "r0=1 r1=0", allowed,
     "0.0: st.weak x 1; fence.acq_rel.sys; st.weak y 1 "
     "| 1.0: ld.relaxed.sys r0 y; fence.acq_rel.sys; ld.weak r1 x"},
    {"MICRO24-Fig4a-correct", "r0=1 r1=0", forbidden,
     "0.0: st.relaxed.sys x 1; fence.sc.gpu; st.relaxed.sys y 1 "
     "| 0.1: ld.relaxed.sys r0 y; fence.sc.gpu; ld.relaxed.sys r1 x"},
    {"MICRO24-Fig4a", "r0=1 r1=0", allowed,
     "0.0: st.relaxed.sys x 1; fence.sc.gpu; st.relaxed.sys y 1 "
     "| 0.1: ld.relaxed.sys r0 y; fence.sc.cta; ld.relaxed.sys r1 x"},
    {"Release-acquire-pattern", "r0=2 r1=0", forbidden,
     "0.0: st.weak y 1; st.release.sys x 1; st.relaxed.sys x 2 "
     "| 0.1: ld.relaxed.sys r0 x; fence.acq_rel.sys; ld.weak r1 y"},
    {"a release is no pattern with a later store to another location", "r0=2 r1=0", allowed,
     "0.0: st.weak y 1; st.release.sys f 1; st.relaxed.sys x 2 "
     "| 0.1: ld.acquire.sys r0 x; ld.weak r1 y"},
    {"MP-3-transitive", "r0=1 r1=1 r2=0", forbidden,
     "0.0: st.weak x 1; st.release.cta y 1 | 0.0: ld.acquire.cta r0 y; st.release.gpu z 1 "
     "| 0.1: ld.acquire.gpu r1 z; ld.weak r2 x"},
    {"MP-3, the first link out of scope", "r0=1 r1=1 r2=0", allowed,
     "0.0: st.weak x 1; st.release.cta y 1 | 0.1: ld.acquire.cta r0 y; st.release.gpu z 1 "
     "| 0.1: ld.acquire.gpu r1 z; ld.weak r2 x"},
    {"Cause-base-strong", "r0=1 r1=1 r2=1 r3=1", forbidden,
     "0.0: st.release.gpu x 1; st.release.sys f 1 "
     "| 0.1: ld.acquire.gpu r0 x; st.weak x 2; st.release.sys g 1 "
     "| 0.2: ld.acquire.sys r1 g; ld.acquire.sys r2 f; ld.weak r3 x"},
    {"Cause-base-weak", "r0=1 r1=1 r2=1 r3=2", allowed,
     "0.0: st.weak x 1; st.release.sys f 1 "
     "| 0.1: st.release.gpu x 2; ld.weak r0 x; st.release.sys g 1 "
     "| 0.2: ld.acquire.sys r1 f; ld.acquire.sys r2 g; ld.weak r3 x"},
};

const Litmus buffering[] = {
    {"SB-weak", "r0=0 r1=0", allowed,
     "0.0: st.weak x 1; ld.weak r0 y | 0.1: st.weak y 1; ld.weak r1 x"},
    {"SB+acq_rel-cta", "r0=0 r1=0", allowed,
     "0.0: st.release.cta x 1; fence.acq_rel.cta; ld.acquire.cta r0 y "
     "| 0.0: st.release.cta y 1; fence.acq_rel.cta; ld.acquire.cta r1 x"},
    {"SB+sc-cta", "r0=0 r1=0", forbidden,
     "0.0: st.weak x 1; fence.sc.cta; ld.weak r0 y | 0.0: st.weak y 1; fence.sc.cta; ld.weak r1 x"},
    {"SB+sc-cta-outScope", "r0=0 r1=0", allowed,
     "0.0: st.weak x 1; fence.sc.cta; ld.weak r0 y | 0.1: st.weak y 1; fence.sc.cta; ld.weak r1 x"},
    {"SB+sc-gpu", "r0=0 r1=0", forbidden,
     "0.0: st.weak x 1; fence.sc.gpu; ld.weak r0 y | 0.1: st.weak y 1; fence.sc.gpu; ld.weak r1 x"},
    {"SB+sc-sys", "r0=0 r1=0", forbidden,
     "0.0: st.weak x 1; fence.sc.sys; ld.weak r0 y | 1.0: st.weak y 1; fence.sc.sys; ld.weak r1 x"},
    {"SB+sc-sys-gpu", "r0=0 r1=0", forbidden,
     "0.0: st.weak x 1; fence.sc.sys; ld.weak r0 y | 0.1: st.weak y 1; fence.sc.gpu; ld.weak r1 x"},
    {"SB+sc-gpu-multiFence", "r0=1 r1=1", forbidden,
     "0.0: st.weak x 1; fence.sc.gpu; st.weak x 2; fence.sc.gpu; ld.weak r0 y "
     "| 0.1: st.weak y 1; fence.sc.gpu; st.weak y 2; fence.sc.gpu; ld.weak r1 x"},
    {"SB+bar-const-equal", "r0=0 r1=0", forbidden,
     "0.0: st.weak x 1; bar 1; ld.weak r0 y | 0.0: st.weak y 1; bar 1; ld.weak r1 x"},
    {"SB+bar-const-equal, one", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; bar 1; ld.weak r0 y | 0.0: st.weak y 1; bar 1; ld.weak r1 x"},
    {"SB+bar-const-diff", "r0=0 r1=0", allowed,
     "0.0: st.weak x 1; bar 0; ld.weak r0 y | 0.0: st.weak y 1; bar 1; ld.weak r1 x"},
    {"SB+bar-diff-cta", "r0=0 r1=0", allowed,
     "0.0: st.weak x 1; bar 1; ld.weak r0 y | 0.1: st.weak y 1; bar 1; ld.weak r1 x"},
    {"SB+twice-bars", "r1=0", forbidden,
     "0.0: st.weak x 1; bar 1; ld.weak r0 y; st.weak z 1; bar 1; ld.weak r1 w "
     "| 0.0: st.weak y 1; bar 1; ld.weak r2 x; st.weak w 1; bar 1; ld.weak r3 z"},
    {"SB, the second store only seen before the first barrier", "r0=1", allowed,
     "0.0: bar 1; st.weak x 1; bar 1 | 0.0: bar 1; ld.weak r0 x; bar 1"},
    {"Atom-SB", "r1=0 r3=0", forbidden,
     "0.0: atom.acq_rel.gpu r0 x 1; atom.acq_rel.gpu r1 y 1 "
     "| 0.1: atom.acq_rel.gpu r2 y 1; atom.acq_rel.gpu r3 x 1"},
    {"Atom-SB-ld", "r1=0 r2=0", allowed,
     "0.0: atom.acq_rel.gpu r0 x 1; atom.acq_rel.gpu r1 y 1 "
     "| 0.1: st.relaxed.gpu y 1; ld.relaxed.gpu r2 x"},
    {"LB, weak", "r0=1 r1=1", allowed,
     "0.0: ld.weak r0 x; st.weak y 1 | 0.1: ld.weak r1 y; st.weak x 1"},
    {"LB, relaxed", "r0=1 r1=1", allowed,
     "0.0: ld.relaxed.sys r0 x; st.relaxed.sys y 1 | 1.0: ld.relaxed.sys r1 y; st.relaxed.sys x 1"},
    {"LB, release and acquire", "r0=1 r1=1", forbidden,
     "0.0: ld.weak r0 x; st.release.sys y 1 | 1.0: ld.acquire.sys r1 y; st.weak x 1"},
    {"LB, the release missing", "r0=1 r1=1", allowed,
     "0.0: ld.weak r0 x; st.relaxed.sys y 1 | 1.0: ld.acquire.sys r1 y; st.weak x 1"},
    {"LB-dlb", "r0=1 r1=1", forbidden,
     "0.0: atom.relaxed.gpu.exch r0 h 1; fence.sc.gpu; st.weak t 1 "
     "| 0.1: ld.weak r1 t; fence.sc.gpu; atom.relaxed.gpu.exch r2 h 1"},
    {"LB-dlb-no-fence-1", "r0=1 r1=1", allowed,
     "0.0: atom.relaxed.gpu.exch r0 h 1; st.weak t 1 "
     "| 0.1: ld.weak r1 t; fence.sc.gpu; atom.relaxed.gpu.exch r2 h 1"},
    {"NoThinAir-register", "r0=1 r1=1", forbidden,
     "0.0: ld.weak r0 y; st.weak x r0 | 0.1: ld.weak r1 x; st.weak y r1"},
    {"LB+RMW-a", "r0=1 r1=1 r2=2", allowed,
     "0.0: ld.acquire.gpu r0 y; st.weak x 1 | 0.0: atom.relaxed.gpu r1 x 1 "
     "| 0.0: ld.relaxed.gpu r2 x; st.release.gpu y 1"},
    {"LB+RMW-b", "r0=1 r1=1", forbidden,
     "0.0: ld.acquire.gpu r0 y; st.weak x 1 | 0.0: ld.relaxed.gpu r1 x; st.release.gpu y 1"},
    {"LB+RMW-c", "r0=1 r1=1 r2=2", forbidden,
     "0.0: ld.acquire.gpu r0 y; st.relaxed.gpu x 1 | 0.0: atom.relaxed.gpu r1 x 1 "
     "| 0.0: ld.relaxed.gpu r2 x; st.release.gpu y 1"},
};

const Litmus coherence[] = {
    {"CoRR, relaxed", "r0=1 r1=0", forbidden,
     "0.0: st.relaxed.gpu x 1 | 0.1: ld.relaxed.gpu r0 x; ld.relaxed.gpu r1 x"},
    {"CoRR-acquire-weak", "r0=1 r1=0", forbidden,
     "0.0: st.release.gpu x 1 | 0.1: ld.acquire.gpu r0 x; ld.weak r1 x"},
    {"CoRR-weak-acquire", "r0=0 r1=1", allowed,
     "0.0: st.release.gpu x 1 | 0.1: ld.weak r0 x; ld.acquire.gpu r1 x"},
    {"CoRR-weak-weak", "r0=1 r1=0", allowed,
     "0.0: st.release.gpu x 1 | 1.1: ld.weak r0 x; ld.weak r1 x"},
    {"CoRR-relaxed-acquire-weak", "r0=2 r2=1", allowed,
     "0.0: st.release.gpu x 1; st.relaxed.gpu x 2 "
     "| 1.1: ld.relaxed.gpu r0 x; ld.acquire.gpu r1 x; ld.weak r2 x"},
    {"CoRR-weak-acquire-weak", "r0=2 r2=1", allowed,
     "0.0: st.release.gpu x 1; st.weak x 2 | 1.1: ld.weak r0 x; ld.acquire.gpu r1 x; ld.weak r2 x"},
    {"CoRW-R", "r0=1 r1=1", forbidden,
     "0.0: st.release.sys x 1 | 0.1: ld.acquire.sys r0 x; st.weak x 2; ld.weak r1 x"},
    {"CoRW", "r0=1 x=1", forbidden,
     "0.0: st.release.gpu x 1 | 0.1: ld.acquire.gpu r0 x; st.weak x 2"},
    {"CoRW-WW", "r0=5 y=4", allowed,
     "0.0: ld.acquire.sys r0 x; st.release.sys y 3 | 0.1: st.release.sys y 4; st.relaxed.sys x 5"},
    {"CoWR", "r0=1 x=2", forbidden,
     "0.0: st.release.gpu x 1 | 0.1: st.release.gpu x 2; ld.weak r0 x"},
    {"CoWR-R", "r0=1 r1=2", allowed,
     "0.0: st.release.gpu x 1 | 1.1: st.release.sys x 2; ld.weak r0 x; ld.weak r1 x"},
    {"CoWW", "x=1", forbidden, "0.0: st.weak x 1; st.weak x 2"},
    {"CoWW-R", "r0=1", forbidden, "0.0: st.weak x 1; st.weak x 2; ld.acquire.sys r0 x"},
    {"CoWW-RR", "r0=2 r1=1", allowed,
     "0.0: st.weak x 1; st.weak x 2 | 0.0: ld.weak r0 x; ld.weak r1 x"},
    {"Coherence", "r0=1 r1=2 r2=2 r3=1", forbidden,
     "0.0: st.relaxed.sys x 1 | 0.0: st.relaxed.sys x 2 "
     "| 0.0: ld.acquire.sys r0 x; ld.acquire.sys r1 x "
     "| 0.0: ld.acquire.sys r2 x; ld.acquire.sys r3 x"},
    {"Coherence-weak", "r0=1 r1=2 r2=2 r3=1", allowed,
     "0.0: st.weak x 1 | 0.0: st.weak x 2 | 0.0: ld.acquire.sys r0 x; ld.acquire.sys r1 x "
     "| 0.0: ld.acquire.sys r2 x; ld.acquire.sys r3 x"},
    {"Co-Total-4-threads", "r0=1 r1=1 r2=1 r3=1 r4=1 r5=2", allowed,
     "0.0: st.weak x 1; st.release.sys f 1 | 0.0: st.weak x 2; st.release.sys g 1 "
     "| 0.0: ld.acquire.sys r0 f; ld.acquire.sys r1 g; ld.weak r2 x "
     "| 0.0: ld.acquire.sys r3 f; ld.acquire.sys r4 g; ld.weak r5 x"},
    {"IRIW, relaxed and fence.acq_rel", "r0=1 r1=0 r2=1 r3=0", allowed,
     "0.0: st.relaxed.sys x 1 | 1.0: st.relaxed.sys y 1 "
     "| 2.0: ld.relaxed.sys r0 x; fence.acq_rel.sys; ld.relaxed.sys r1 y "
     "| 3.0: ld.relaxed.sys r2 y; fence.acq_rel.sys; ld.relaxed.sys r3 x"},
    {"IRIW, release and acquire", "r0=1 r1=0 r2=1 r3=0", allowed,
     "0.0: st.release.sys x 1 | 1.0: st.release.sys y 1 "
     "| 2.0: ld.acquire.sys r0 x; ld.acquire.sys r1 y "
     "| 3.0: ld.acquire.sys r2 y; ld.acquire.sys r3 x"},
    {"IRIW, fence.sc", "r0=1 r1=0 r2=1 r3=0", forbidden,
     "0.0: st.relaxed.sys x 1 | 1.0: st.relaxed.sys y 1 "
     "| 2.0: ld.relaxed.sys r0 x; fence.sc.sys; ld.relaxed.sys r1 y "
     "| 3.0: ld.relaxed.sys r2 y; fence.sc.sys; ld.relaxed.sys r3 x"},
    {"IRIW1 of Memalloy", "r0=1 r1=0 r2=1 r3=0", allowed,
     "0.0: st.weak x 1 | 0.1: ld.weak r0 x; fence.sc.cta; ld.weak r1 y | 0.1: st.weak y 1 "
     "| 0.1: ld.weak r2 y; fence.sc.gpu; ld.weak r3 x"},
    {"WWC, relaxed with fence.sc", "x=2 r0=2 r1=1", forbidden,
     "0.0: st.relaxed.gpu x 2 | 0.1: ld.relaxed.gpu r0 x; fence.sc.gpu; st.relaxed.gpu y 1 "
     "| 0.2: ld.relaxed.gpu r1 y; fence.sc.gpu; st.relaxed.gpu x 1"},
};

const Litmus updates[] = {
    {"Atom-plus-location", "x=1", forbidden,
     "0.0: atom.acq_rel.sys r0 x 1 | 0.1: atom.acq_rel.sys r1 x 1"},
    {"Atom-plus-location-weak", "x=1", allowed,
     "0.0: atom.acq_rel.cta r0 x 1 | 0.1: atom.acq_rel.cta r1 x 1"},
    {"Red-plus-location", "x=1", forbidden, "0.0: red.acq_rel.sys x 1 | 0.1: red.acq_rel.sys x 1"},
    {"Atom-plus-register", "r0=1", allowed,
     "0.0: red.acq_rel.cta x 1 | 0.1: red.acq_rel.cta x 1; ld.acquire.cta r0 x"},
    {"MP+RMW", "r0=1 r1=2 r2=0", forbidden,
     "0.0: st.relaxed.gpu x 1; st.release.gpu y 1 | 0.0: atom.relaxed.gpu r0 y 1 "
     "| 0.0: ld.acquire.gpu r1 y; ld.relaxed.gpu r2 x"},
    {"two adds released, their sum acquired", "r0=2 r1=0", forbidden,
     "0.0: st.weak x 1; red.release.sys c 1 | 0.1: st.weak y 1; red.release.sys c 1 "
     "| 0.2: ld.acquire.sys r0 c; ld.weak r1 x; ld.weak r2 y"},
    {"two adds, one of them relaxed", "r0=2 r1=0", allowed,
     "0.0: st.weak x 1; red.relaxed.sys c 1 | 0.1: st.weak y 1; red.release.sys c 1 "
     "| 0.2: ld.acquire.sys r0 c; ld.weak r1 x; ld.weak r2 y"},
    {"Ticketlock-same-gpu", "r0=0 r1=0 r4=1 r5=1 r2=0 r6=0", forbidden,
     "0.0: atom.acquire.gpu r0 in 1; ld.acquire.gpu r1 out; ld.weak r2 x; st.weak x 1; "
     "atom.release.gpu r3 out 1 "
     "| 0.1: atom.acquire.gpu r4 in 1; ld.acquire.gpu r5 out; ld.weak r6 x; st.weak x 2; "
     "atom.release.gpu r7 out 1"},
    {"Ticketlock-diff-gpu", "r0=0 r1=0 r4=1 r5=1 r2=0 r6=0", allowed,
     "0.0: atom.acquire.gpu r0 in 1; ld.acquire.gpu r1 out; ld.weak r2 x; st.weak x 1; "
     "atom.release.gpu r3 out 1 "
     "| 1.1: atom.acquire.gpu r4 in 1; ld.acquire.gpu r5 out; ld.weak r6 x; st.weak x 2; "
     "atom.release.gpu r7 out 1"},
    {"Ticketlock-rel2rlx", "r0=0 r1=0 r4=1 r5=1 r2=0 r6=0", allowed,
     "0.0: atom.acquire.gpu r0 in 1; ld.acquire.gpu r1 out; ld.weak r2 x; st.weak x 1; "
     "atom.relaxed.gpu r3 out 1 "
     "| 0.1: atom.acquire.gpu r4 in 1; ld.acquire.gpu r5 out; ld.weak r6 x; st.weak x 2; "
     "atom.release.gpu r7 out 1"},
};

const Litmus aliases[] = {
    {"one thread, two addresses", "r0=0", allowed, "0.0: st.weak x 1; ld.weak r0 x'"},
    {"Proxy-Alias-AliasFence", "r0=0", forbidden, "0.0: st.weak x 1; fence.alias; ld.weak r0 x'"},
    {"Proxy-MP-Alias+sameProxy-aliasFence", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; fence.alias; st.release.gpu f 1 | 0.1: ld.acquire.gpu r0 f; ld.weak r1 x'"},
    {"Proxy-MP-Alias+sameProxy-aliasFence1", "r0=1 r1=0", forbidden,
     "0.0: st.weak x 1; st.release.gpu f 1 | 0.1: ld.acquire.gpu r0 f; fence.alias; ld.weak r1 x'"},
    {"Proxy-MP-Alias+sameProxy-noFence", "r0=1 r1=0", allowed,
     "0.0: st.weak x 1; st.release.gpu f 1 | 0.1: ld.acquire.gpu r0 f; ld.weak r1 x'"},
    {"an alias fence after the release", "r0=1 r1=0", allowed,
     "0.0: st.weak x 1; st.release.gpu f 1; fence.alias | 0.1: ld.acquire.gpu r0 f; ld.weak r1 x'"},
};

void check(const Litmus& litmus) {
  INFO(litmus.name << ": " << litmus.outcome);
  Parser parser;
  std::vector<Thread> threads;
  std::istringstream in(litmus.threads);
  for (std::string thread; std::getline(in, thread, '|');) threads.push_back(parser.thread(thread));
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
