// Runs kernels from their PTX, thread by thread, and writes down what each thread does in memory
// that it shares with others: the litmus test that the kernels are.
//
// What runs is one execution, in which every look of a wait that another one follows is left out:
// the path of every thread on which what it waits for is there. Anything in the text that is not
// known here is an error, so that nothing which orders memory is overlooked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ptx/model.h"
#include "ptx/text.h"

namespace coconet::test::ptx {

/// What a thread did, and where.
struct Step {
  int thread = -1;
  Op op;                                     ///< its location and address are indices of places
  std::uint64_t at = 0;                      ///< the virtual address
  std::uint64_t memory = 0;                  ///< and the one of the memory behind
  int source = -1;                           ///< the step whose value was loaded; -1: the first
  const Instruction* instruction = nullptr;  ///< null: the application, or a kernel's end
  int together = -1;                         ///< barrier of lanes that accessed a line together
  bool forgotten = false;                    ///< a look that did not end a wait
};

/// What a part of a mnemonic says of order and scope.
inline const std::map<std::string, Order, std::less<>> orders = {
    {"weak", Order::weak},       {"relaxed", Order::relaxed}, {"acquire", Order::acquire},
    {"release", Order::release}, {"acq_rel", Order::acq_rel}, {"sc", Order::sc}};
inline const std::map<std::string, Scope, std::less<>> scopes = {
    {"cta", Scope::cta}, {"gpu", Scope::gpu}, {"gl", Scope::gpu}, {"sys", Scope::sys}};

struct MachineShape {
  int ranks = 1;
  int blocks = 1;   ///< of a rank, and of each of its kernels
  int threads = 1;  ///< of a block
};

class Machine {
 public:
  explicit Machine(MachineShape shape);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] int thread(int rank, int block, int index) const {
    return (rank * shape_.blocks + block) * shape_.threads + index;
  }
  [[nodiscard]] int rank_of(int thread) const { return thread / (shape_.blocks * shape_.threads); }

  /// `bytes` from `base` on stand for those at `memory` of every rank.
  void multicast(std::uint64_t base, std::uint64_t bytes, std::vector<std::uint64_t> memory);

  /// Has the threads of blocks [first, end) of a rank start on a kernel with this argument block.
  void launch(const Module& module, const std::string& entry, int rank,
              std::span<const std::uint64_t> arguments, int first, int end);
  /// Until all threads have ended; whenever a thread of another rank has done a thing, those of
  /// rank `first` go on as far as they can, so that they find what is only just enough for them.
  /// Throws std::runtime_error where threads wait for each other, or an instruction is not known.
  void run(int first);

  /// Accesses of the application, between kernels.
  void store(int thread, std::uint64_t address, std::uint64_t value, std::size_t bytes);
  std::uint64_t load(int thread, std::uint64_t address, std::size_t bytes);
  /// The end of a kernel before the next one of a stream: what all threads of the blocks did is
  /// before what they will do.
  void end_kernels(int rank, int first, int end);

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  using Code = const Instruction&;

  /// Where the threads' own memory is, and how many bits of an address a thread or block has.
  static constexpr std::uint64_t private_base = std::uint64_t{1} << 60;
  static constexpr int space_bits = 32;

  /// A call of a function.
  struct Frame {
    const Function* function = nullptr;
    std::size_t next = 0;  ///< instruction
    std::vector<std::uint64_t> registers;
    std::map<std::string, std::uint64_t> symbols;
    std::uint64_t result_to = 0;  ///< private address where the caller wants it
  };

  /// A thread.
  struct Agent {
    int number = 0, rank = 0, block = 0, index = 0;
    int cta = 0, ctas = 0;  ///< the block and their number as its kernel has them
    const Module* module = nullptr;
    std::vector<Frame> frames;
    std::vector<std::uint8_t> memory;  ///< private
    Code code() const { return frames.back().function->body[frames.back().next]; }
    const Instruction* at = nullptr;
    std::string waits_for;    ///< with others; or empty
    std::uint32_t lanes = 0;  ///< of the warp that it waits with, or 0 for the block
    bool has_let_others = false;
    int together = -1;  ///< barrier of a warp's lanes since which it did not branch
  };
  struct Cell {
    std::size_t bytes = 0;
    std::uint64_t value = 0;
    int written = -1;
  };
  struct Multicast {
    std::uint64_t base, bytes;
    std::vector<std::uint64_t> memory;
  };

  [[noreturn]] void fail(const Agent& agent, const std::string& what) const;
  void advance(Agent& agent);
  bool advance_rank(int rank);
  void execute(Agent& agent, Code code);
  bool execute_control(Agent& agent, Code code);
  bool execute_moves(Agent& agent, Code code);
  bool execute_memory(Agent& agent, Code code);
  bool execute_order(Agent& agent, Code code);
  bool execute_together(Agent& agent, Code code);

  void call(Agent& agent, Code code);
  void leave(Agent& agent);
  void enter(Agent& agent, const Function& function);
  void wait(Agent& agent, const std::string& what, std::uint32_t lanes);
  void meet(const std::vector<Agent*>& met);
  void shuffle(const std::vector<Agent*>& met);
  void synchronize(const std::vector<Agent*>& met);

  [[nodiscard]] std::uint64_t value(const Agent& agent, const Operand& operand) const;
  [[nodiscard]] std::uint64_t place(const Agent& agent, const Operand& address) const;
  void set(Agent& agent, const Operand& operand, std::uint64_t value) const;
  [[nodiscard]] bool is_private(std::uint64_t address) const;
  std::uint64_t load_private(Agent& agent, std::uint64_t address, std::size_t bytes) const;
  void store_private(Agent& agent, std::uint64_t address, std::uint64_t value,
                     std::size_t bytes) const;

  /// Of a `bytes` wide element: in memory, through a multicast address at every rank.
  std::uint64_t access(Agent& agent, const Op& op, std::uint64_t address, std::uint64_t operand,
                       std::size_t bytes);
  std::uint64_t access_memory(Step step, std::uint64_t operand, std::size_t bytes);
  Cell& cell(std::uint64_t memory, std::size_t bytes);
  [[nodiscard]] int line(int together, std::uint64_t address);
  bool forget_looks(const Step& step);

  MachineShape shape_;
  std::vector<Agent> agents_;
  std::vector<Multicast> multicasts_;
  std::map<std::uint64_t, Cell> memory_;
  std::map<std::uint64_t, int> places_;
  std::vector<Step> steps_;
  int barriers_ = 0;
  std::size_t progress_ = 0;  ///< steps but looks that did not end a wait
  std::map<std::pair<int, std::uint64_t>, int> lines_;
};

}  // namespace coconet::test::ptx
