// Threads run one after the other, each until it waits for others, has signalled to them, or is
// about to look at what they signal. So who waits looks after every signal, and goes on at the
// first one that is enough.
#include "ptx/machine.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ptx/arithmetic.h"

namespace coconet::test::ptx {

namespace {

constexpr std::uint64_t shared_base = std::uint64_t{1} << 59;
constexpr int turns = 20'000;  // of all threads, before they are said to wait forever
constexpr int lanes_of_warp = 32;

/// Whether it accesses what other threads may look at or signal.
bool is_volatile(const Instruction& code) {
  return std::ranges::find(code.parts, "volatile") != code.parts.end();
}
bool is_strong(const Instruction& code) {
  const std::string& name = code.parts.front();
  if (name == "atom" || name == "red") return true;
  if (name != "ld" && name != "st") return false;
  return is_volatile(code) || std::ranges::any_of(code.parts, [](const std::string& part) {
           return part == "acquire" || part == "release" || part == "relaxed";
         });
}

}  // namespace

Machine::Machine(MachineShape shape) : shape_(shape) {
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (int block = 0; block < shape.blocks; ++block) {
      for (int index = 0; index < shape.threads; ++index) {
        Agent agent;
        agent.number = thread(rank, block, index);
        agent.rank = rank;
        agent.block = block;
        agent.index = index;
        agents_.push_back(std::move(agent));
      }
    }
  }
}
Machine::~Machine() = default;

void Machine::fail(const Agent& agent, const std::string& what) const {
  const std::string where = agent.at == nullptr ? ""
                                                : "PTX line " + std::to_string(agent.at->line) +
                                                      ", '" + agent.at->text + "': ";
  throw std::runtime_error(where + what);
}

void Machine::multicast(std::uint64_t base, std::uint64_t bytes,
                        std::vector<std::uint64_t> memory) {
  multicasts_.push_back({base, bytes, std::move(memory)});
}

void Machine::launch(const Module& module, const std::string& entry, int rank,
                     std::span<const std::uint64_t> arguments, int first, int end) {
  const Function& function = module.functions.at(entry);
  for (int number = thread(rank, first, 0); number < thread(rank, end, 0); ++number) {
    Agent& agent = agents_[number];
    agent.module = &module;
    agent.cta = agent.block - first;
    agent.ctas = end - first;
    agent.memory.clear();
    agent.frames.clear();
    enter(agent, function);
    const std::uint64_t block = agent.frames.back().symbols.at(function.parameters.front());
    for (std::size_t word = 0; word < arguments.size(); ++word)
      store_private(agent, block + word * sizeof(std::uint64_t), arguments[word],
                    sizeof(std::uint64_t));
  }
}

void Machine::run(int first) {
  const auto is_left = [](const Agent& agent) { return !agent.frames.empty(); };
  for (int turn = 0; turn < turns; ++turn) {
    bool moved = advance_rank(first);
    for (Agent& agent : agents_) {
      if (agent.rank == first || agent.frames.empty() || !agent.waits_for.empty()) continue;
      advance(agent);
      moved = true;
      const bool waits_for_lanes = !agent.waits_for.empty() && agent.lanes != 0;
      if (!waits_for_lanes) (void)advance_rank(first);
    }
    const auto left = std::ranges::find_if(agents_, is_left);
    if (left == agents_.end()) return;
    if (!moved) fail(*left, "threads wait for each other at '" + left->waits_for + "'");
  }
  fail(*std::ranges::find_if(agents_, is_left), "what is waited for does not come");
}

/// Runs the rank's threads until all of them only poll; whether any could run.
bool Machine::advance_rank(int rank) {
  bool moved = false;
  std::size_t before = 0;
  do {
    before = progress_;
    for (Agent& agent : agents_) {
      if (agent.rank != rank || agent.frames.empty() || !agent.waits_for.empty()) continue;
      advance(agent);
      moved = true;
    }
  } while (progress_ != before);
  return moved;
}

void Machine::advance(Agent& agent) {
  while (!agent.frames.empty() && agent.waits_for.empty()) {
    Frame& frame = agent.frames.back();
    if (frame.next >= frame.function->body.size()) return leave(agent);
    Code code = frame.function->body[frame.next];
    // Lanes that are together access a line as one.
    const bool lets_others = is_strong(code) && (agent.together < 0 || !is_volatile(code));
    if (lets_others && code.parts.front() != "st" && !std::exchange(agent.has_let_others, true))
      return;
    agent.has_let_others = false;
    agent.at = &code;
    ++frame.next;
    if (code.guard >= 0 && (frame.registers[code.guard] != 0) == code.if_not) continue;
    execute(agent, code);
    if (lets_others && code.parts.front() == "st") return;
    // The last lane to come does not go ahead of those that it met.
    if (code.mnemonic == "bar.warp.sync" && agent.waits_for.empty()) return;
  }
}

void Machine::execute(Agent& agent, Code code) {
  if (execute_control(agent, code) || execute_moves(agent, code) || execute_order(agent, code) ||
      execute_together(agent, code) || execute_memory(agent, code))
    return;
  std::vector<std::uint64_t> in;
  for (std::size_t i = 1; i < code.operands.size(); ++i) {
    const Operand::Kind kind = code.operands[i].kind;
    if (kind == Operand::Kind::address || kind == Operand::Kind::list) break;
    in.push_back(value(agent, code.operands[i]));
  }
  const auto result = in.size() + 1 == code.operands.size() ? compute(code, in) : std::nullopt;
  if (!result) fail(agent, "the instruction is not known to the reader of litmus tests");
  set(agent, code.operands.front(), *result);
}

bool Machine::execute_control(Agent& agent, Code code) {
  const std::string& name = code.parts.front();
  if (name == "bra") {
    const Function& function = *agent.frames.back().function;
    agent.frames.back().next = function.labels.at(code.operands.front().symbol);
    if (code.guard >= 0) agent.together = -1;
    return true;
  }
  if (name == "call") {
    call(agent, code);
    return true;
  }
  if (name == "ret" || name == "exit") {
    leave(agent);
    return true;
  }
  return false;
}

/// Between one register of 64 bits and two halves.
bool Machine::execute_moves(Agent& agent, Code code) {
  if (code.mnemonic != "mov.b64") return false;
  const Operand& to = code.operands[0];
  const Operand& from = code.operands[1];
  constexpr int half = 32;
  if (to.kind == Operand::Kind::list) {
    const std::uint64_t whole = value(agent, from);
    set(agent, to.parts.at(0), whole & 0xffffffffu);
    set(agent, to.parts.at(1), whole >> half);
    return true;
  }
  if (from.kind != Operand::Kind::list) return false;
  set(agent, to,
      value(agent, from.parts.at(1)) << half | (value(agent, from.parts.at(0)) & 0xffffffffu));
  return true;
}

/// Fences.
bool Machine::execute_order(Agent& agent, Code code) {
  const std::vector<std::string>& parts = code.parts;
  Step step;
  step.thread = agent.number;
  step.instruction = &code;
  step.op.kind = Op::Kind::fence;
  if (code.mnemonic == "fence.proxy.alias") {
    step.op.kind = Op::Kind::alias_fence;
  } else if (parts.front() == "fence" && parts.size() == 3 && orders.contains(parts[1]) &&
             scopes.contains(parts[2])) {
    step.op.order = orders.at(parts[1]);
    step.op.scope = scopes.at(parts[2]);
  } else if (parts.front() == "membar" && parts.size() == 2 && scopes.contains(parts[1])) {
    step.op.order = Order::sc;
    step.op.scope = scopes.at(parts[1]);
  } else {
    return false;
  }
  steps_.push_back(step);
  ++progress_;
  return true;
}

/// What threads of a block or warp do together.
bool Machine::execute_together(Agent& agent, Code code) {
  if (code.mnemonic == "bar.sync" || code.mnemonic == "bar.red.and.pred") {
    const std::size_t at = code.mnemonic == "bar.sync" ? 0 : 1;
    if (code.operands.size() != at + 1 + at) return false;  // with a number of threads
    wait(agent, "barrier " + std::to_string(value(agent, code.operands[at])), 0);
    return true;
  }
  if (code.mnemonic == "bar.warp.sync") {
    wait(agent, "warp barrier", static_cast<std::uint32_t>(value(agent, code.operands[0])));
    return true;
  }
  if (code.mnemonic == "shfl.sync.idx.b32" || code.mnemonic == "shfl.sync.down.b32") {
    wait(agent, "line " + std::to_string(code.line),
         static_cast<std::uint32_t>(value(agent, code.operands.at(4))));
    return true;
  }
  return false;
}

void Machine::wait(Agent& agent, const std::string& what, std::uint32_t lanes) {
  agent.waits_for = what;
  agent.lanes = lanes;
  std::vector<Agent*> met;
  const int first = thread(agent.rank, agent.block, 0);
  for (int index = 0; index < shape_.threads; ++index) {
    Agent& other = agents_[first + index];
    if (lanes != 0 && (index / lanes_of_warp != agent.index / lanes_of_warp ||
                       (lanes >> (index % lanes_of_warp) & 1) == 0))
      continue;
    if (other.waits_for != what || other.lanes != lanes) return;
    met.push_back(&other);
  }
  meet(met);
}

void Machine::meet(const std::vector<Agent*>& met) {
  for (Agent* const agent : met) agent->waits_for.clear();
  const std::string& name = met.front()->at->mnemonic;
  if (name.starts_with("shfl")) return shuffle(met);
  synchronize(met);
  if (name != "bar.red.and.pred") return;
  const bool all = std::ranges::all_of(
      met, [&](const Agent* agent) { return value(*agent, agent->at->operands.at(2)) != 0; });
  for (Agent* const agent : met) set(*agent, agent->at->operands[0], all ? 1 : 0);
}

void Machine::synchronize(const std::vector<Agent*>& met) {
  const int number = barriers_++;
  ++progress_;
  for (Agent* const agent : met) {
    Step step;
    step.thread = agent->number;
    step.instruction = agent->at;
    step.op.kind = Op::Kind::barrier;
    step.op.barrier = number;
    steps_.push_back(step);
    if (agent->lanes != 0) agent->together = number;
  }
}

/// As the PTX ISA describes shfl: `c` holds what of a lane's number is the segment's, and a clamp.
void Machine::shuffle(const std::vector<Agent*>& met) {
  std::map<int, std::uint64_t> given;
  for (const Agent* const agent : met)
    given[agent->index % lanes_of_warp] = value(*agent, agent->at->operands[1]);
  const bool is_down = met.front()->at->parts[2] == "down";
  for (Agent* const agent : met) {
    const int lane = agent->index % lanes_of_warp;
    const auto b = static_cast<int>(value(*agent, agent->at->operands[2]) & 0x1f);
    const auto c = static_cast<int>(value(*agent, agent->at->operands[3]));
    const int segment = c >> 8 & 0x1f;
    const int last = (lane & segment) | (c & 0x1f & ~segment);
    int from = is_down ? lane + b : (lane & segment) | (b & ~segment);
    const bool is_there = from <= last;
    if (!is_there) from = lane;
    if (!given.contains(from)) fail(*agent, "takes a value of a lane that is not there");
    const Operand& to = agent->at->operands[0];
    const bool is_pair = to.kind == Operand::Kind::list;
    set(*agent, is_pair ? to.parts[0] : to, given.at(from));
    if (is_pair) set(*agent, to.parts.at(1), is_there ? 1 : 0);
  }
}

void Machine::enter(Agent& agent, const Function& function) {
  Frame frame;
  frame.function = &function;
  frame.registers.resize(function.registers);
  for (const auto& [name, bytes] : function.symbols) {
    const std::uint64_t offset = (agent.memory.size() + 15) / 16 * 16;
    frame.symbols[name] =
        private_base + (static_cast<std::uint64_t>(agent.number) << space_bits) + offset;
    agent.memory.resize(offset + bytes);
  }
  agent.frames.push_back(std::move(frame));
}

void Machine::call(Agent& agent, Code code) {
  const std::size_t at = code.operands.front().kind == Operand::Kind::list ? 1 : 0;
  const auto function = agent.module->functions.find(code.operands.at(at).symbol);
  if (function == agent.module->functions.end()) fail(agent, "the function is not in the text");
  const Frame& caller = agent.frames.back();
  std::vector<std::uint64_t> given;
  for (std::size_t i = at + 1; i < code.operands.size(); ++i) {
    for (const Operand& part : code.operands[i].parts)
      given.push_back(caller.symbols.at(part.symbol));
  }
  const std::uint64_t result_to =
      at == 0 ? 0 : caller.symbols.at(code.operands[0].parts.at(0).symbol);
  const Function& callee = function->second;
  enter(agent, callee);
  Frame& frame = agent.frames.back();
  frame.result_to = result_to;
  for (std::size_t i = 0; i < callee.parameters.size(); ++i) {
    const std::size_t bytes = callee.symbols.at(callee.parameters[i]);
    for (std::size_t byte = 0; byte < bytes; ++byte)
      store_private(agent, frame.symbols.at(callee.parameters[i]) + byte,
                    load_private(agent, given.at(i) + byte, 1), 1);
  }
}

void Machine::leave(Agent& agent) {
  const Frame& frame = agent.frames.back();
  if (!frame.function->result.empty() && frame.result_to != 0) {
    const std::uint64_t from = frame.symbols.at(frame.function->result);
    store_private(agent, frame.result_to, load_private(agent, from, sizeof(std::uint64_t)),
                  sizeof(std::uint64_t));
  }
  agent.frames.pop_back();
}

std::uint64_t Machine::value(const Agent& agent, const Operand& operand) const {
  if (operand.kind == Operand::Kind::reg) return agent.frames.back().registers[operand.reg];
  if (operand.kind == Operand::Kind::number) return operand.number;
  if (operand.kind != Operand::Kind::symbol) fail(agent, "an operand is no value");
  const std::map<std::string, int> special = {{"%tid.x", agent.index},
                                              {"%ntid.x", shape_.threads},
                                              {"%ctaid.x", agent.cta},
                                              {"%nctaid.x", agent.ctas},
                                              {"%ctaid.y", 0}};
  if (const auto found = special.find(operand.symbol); found != special.end())
    return static_cast<std::uint64_t>(found->second);
  if (operand.symbol == "%globaltimer") return 0;  // no wait is ever too long
  return place(agent, operand);
}

std::uint64_t Machine::place(const Agent& agent, const Operand& address) const {
  const Frame& frame = agent.frames.back();
  if (address.reg >= 0) return frame.registers[address.reg] + address.number;
  if (const auto symbol = frame.symbols.find(address.symbol); symbol != frame.symbols.end())
    return symbol->second + address.number;
  std::uint64_t offset = 0;
  for (const auto& [name, bytes] : agent.module->shared) {
    if (name == address.symbol)
      return shared_base +
             (static_cast<std::uint64_t>(thread(agent.rank, agent.block, 0)) << space_bits) +
             offset + address.number;
    offset += (bytes + 15) / 16 * 16;
  }
  fail(agent, "'" + address.symbol + "' is not known to the reader of litmus tests");
}

void Machine::set(Agent& agent, const Operand& operand, std::uint64_t value) const {
  if (operand.kind != Operand::Kind::reg) fail(agent, "the result is no register");
  agent.frames.back().registers[operand.reg] = value;
}

void Machine::end_kernels(int rank, int first, int end) {
  std::vector<Agent*> met;
  for (int number = thread(rank, first, 0); number < thread(rank, end, 0); ++number) {
    met.push_back(&agents_[number]);
    agents_[number].at = nullptr;
    agents_[number].lanes = 0;
  }
  synchronize(met);
}

}  // namespace coconet::test::ptx
