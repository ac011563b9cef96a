// Accesses of memory on the machine.
#include <stdexcept>

#include "ptx/arithmetic.h"
#include "ptx/machine.h"

namespace coconet::test::ptx {

namespace {

/// What an instruction says of its access.
struct Access {
  Op op;
  std::string space = "generic";
  std::string how;  ///< what an update does
  std::size_t bytes = 0;
  bool is_line = false;
  bool is_known = true;
};

Access read_access(const std::vector<std::string>& parts, std::size_t first) {
  Access access;
  access.bytes = static_cast<std::size_t>(Type(parts.back()).bits) / 8;
  access.is_known = access.bytes > 0;
  for (std::size_t i = first; i + 1 < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (const auto order = orders.find(part); order != orders.end()) {
      access.op.order = order->second;
    } else if (const auto scope = scopes.find(part); scope != scopes.end()) {
      access.op.scope = scope->second;
    } else if (part == "volatile") {
      access.op.order = Order::relaxed;
      access.op.scope = Scope::sys;
      access.is_line = true;
    } else if (part == "global" || part == "local" || part == "shared" || part == "param") {
      access.space = part;
    } else if (part == "add" || part == "exch") {
      access.how = part;
    } else if (part != "v2" && part != "v4") {
      access.is_known = false;
    }
  }
  return access;
}

}  // namespace

bool Machine::is_private(std::uint64_t address) const {
  return address >= private_base;
}

std::uint64_t Machine::load_private(Agent& agent, std::uint64_t address, std::size_t bytes) const {
  const std::uint64_t offset = address & ((std::uint64_t{1} << space_bits) - 1);
  if ((address - private_base) >> space_bits != static_cast<std::uint64_t>(agent.number) ||
      offset + bytes > agent.memory.size())
    fail(agent, "loads from what is private to another thread");
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | agent.memory[offset + i];
  return value;
}

void Machine::store_private(Agent& agent, std::uint64_t address, std::uint64_t value,
                            std::size_t bytes) const {
  const std::uint64_t offset = address & ((std::uint64_t{1} << space_bits) - 1);
  if ((address - private_base) >> space_bits != static_cast<std::uint64_t>(agent.number) ||
      offset + bytes > agent.memory.size())
    fail(agent, "stores to what is private to another thread");
  for (std::size_t i = 0; i < bytes; ++i, value >>= 8)
    agent.memory[offset + i] = static_cast<std::uint8_t>(value);
}

bool Machine::execute_memory(Agent& agent, Code code) {
  std::size_t first = 1;
  std::string name = code.parts.front();
  if (name == "multimem" && code.parts.size() > 2) {
    name = code.parts[1] == "ld_reduce" ? "ld" : code.parts[1];
    first = 2;
  }
  if (name != "ld" && name != "st" && name != "red" && name != "atom") return false;
  Access wanted = read_access(code.parts, first);
  const bool sets = name == "ld" || name == "atom";
  if (!wanted.is_known || (name == "atom" || name == "red") == wanted.how.empty()) {
    if (code.parts.front() != "multimem" || name != "ld") return false;
  }
  wanted.op.kind = name == "ld"          ? Op::Kind::load
                   : name == "st"        ? Op::Kind::store
                   : wanted.how == "add" ? Op::Kind::add
                                         : Op::Kind::exchange;
  const std::uint64_t base = place(agent, code.operands.at(sets ? 1 : 0));
  const Operand& data = code.operands.at(name == "atom" ? 2 : sets ? 0 : 1);
  const bool is_vector = data.kind == Operand::Kind::list;
  const Type type(code.parts.back());
  for (std::size_t i = 0; i < (is_vector ? data.parts.size() : 1); ++i) {
    const Operand& element = is_vector ? data.parts[i] : data;
    const std::uint64_t at = base + i * wanted.bytes;
    if (wanted.is_line && agent.together >= 0) wanted.op.line = line(agent.together, at);
    const std::uint64_t operand = name == "ld" ? 0 : value(agent, element);
    const std::uint64_t found = access(agent, wanted.op, at, operand, wanted.bytes);
    if (sets) set(agent, name == "atom" ? code.operands[0] : element, type.cut(found));
  }
  return true;
}

/// The number of what lanes that are together access of the line that has `address`.
int Machine::line(int together, std::uint64_t address) {
  constexpr std::uint64_t bytes = 128;
  const auto number = static_cast<int>(lines_.size());
  return lines_.emplace(std::pair{together, address / bytes}, number).first->second;
}

std::uint64_t Machine::access(Agent& agent, const Op& op, std::uint64_t address,
                              std::uint64_t operand, std::size_t bytes) {
  if (is_private(address)) {
    if (op.kind == Op::Kind::load) return load_private(agent, address, bytes);
    store_private(agent, address, operand, bytes);
    return 0;
  }
  const auto number = static_cast<int>(places_.size());
  Step step;
  step.thread = agent.number;
  step.op = op;
  step.op.address = places_.emplace(address, number).first->second;
  if (op.line >= 0) step.together = agent.together;
  step.at = step.memory = address;
  step.instruction = agent.at;
  for (const Multicast& multicast : multicasts_) {
    if (address < multicast.base || address - multicast.base >= multicast.bytes) continue;
    std::uint64_t total = 0;
    for (const std::uint64_t memory : multicast.memory) {
      step.memory = memory + (address - multicast.base);
      total += access_memory(step, operand, bytes);
    }
    return total;
  }
  return access_memory(step, operand, bytes);
}

/// Throws where the memory was accessed by other elements: an element is one location.
Machine::Cell& Machine::cell(std::uint64_t memory, std::size_t bytes) {
  Cell& cell = memory_[memory];
  if (cell.bytes == 0) cell.bytes = bytes;
  const auto at = memory_.find(memory);
  const bool reaches =
      at != memory_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > memory;
  const bool is_reached = std::next(at) != memory_.end() && memory + bytes > std::next(at)->first;
  if (cell.bytes != bytes || reaches || is_reached)
    throw std::runtime_error("memory is accessed by elements that overlap in part");
  return cell;
}

std::uint64_t Machine::access_memory(Step step, std::uint64_t operand, std::size_t bytes) {
  Cell& cell = this->cell(step.memory, bytes);
  const auto number = static_cast<int>(places_.size());
  step.op.location = places_.emplace(step.memory, number).first->second;
  step.source = cell.written;
  const std::uint64_t found = cell.value;
  if (step.op.kind == Op::Kind::load) {
    if (!forget_looks(step)) ++progress_;
  } else {
    ++progress_;
    step.op.value = operand;
    cell.value = step.op.kind == Op::Kind::add ? found + operand : operand;
    if (bytes < sizeof(std::uint64_t)) cell.value &= (std::uint64_t{1} << 8 * bytes) - 1;
    cell.written = static_cast<int>(steps_.size());
  }
  steps_.push_back(step);
  return found;
}

/// A look at the same place since which the thread did nothing but look did not end a wait. Whether
/// there was one.
bool Machine::forget_looks(const Step& step) {
  if (step.op.order == Order::weak) return false;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    Step& before = steps_[i];
    if (before.thread != step.thread || before.forgotten) continue;
    // Lanes that look at a line meet before every look.
    if (step.op.line >= 0 && before.instruction != nullptr &&
        before.instruction->mnemonic == "bar.warp.sync")
      continue;
    if (before.op.kind != Op::Kind::load || before.op.order == Order::weak) return false;
    if (before.at != step.at || before.memory != step.memory) continue;
    before.forgotten = true;
    return true;
  }
  return false;
}

void Machine::store(int thread, std::uint64_t address, std::uint64_t value, std::size_t bytes) {
  Agent& agent = agents_[thread];
  agent.at = nullptr;
  access(agent, {.kind = Op::Kind::store}, address, value, bytes);
}
std::uint64_t Machine::load(int thread, std::uint64_t address, std::size_t bytes) {
  Agent& agent = agents_[thread];
  agent.at = nullptr;
  return access(agent, {.kind = Op::Kind::load}, address, 0, bytes);
}

}  // namespace coconet::test::ptx
