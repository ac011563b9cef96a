// Steps of a program on the machine: the kernels that the library generates for GPUs, with memory
// for their tensors, flags and mailboxes, and an application that writes operands and reads results
// between them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "coconet/coconet.h"
#include "jit/abi/abi.h"
#include "jit/codegen/codegen.h"
#include "ptx/machine.h"
#include "ptx/stale.h"
#include "sched/plan.h"

namespace coconet::test::ptx {

struct JobShape {
  int ranks = 2;
  int blocks = 1;  ///< of a kernel
  int threads = 2;
  std::int64_t elements = 8;            ///< of every tensor
  std::int64_t chunk = 4;               ///< elements of a chunk, and of a tile
  std::vector<int> looked_at = {0, 1};  ///< threads of a block
};

/// What is left when a job has run.
struct Execution {
  std::unique_ptr<Machine> machine;
  std::vector<std::uint64_t> outputs;  ///< elements of all outputs, of one rank after the other
};

class Job {
 public:
  /// Kernels of one overlap run at once, each in blocks of its own. A product of the library is
  /// stores of the application, with a kernel behind each tile. Throws std::runtime_error where
  /// NVRTC's text is not understood.
  Job(const Program& program, const Schedule& schedule, const JobShape& shape);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Element `i` of every input of a rank.
  [[nodiscard]] static std::uint64_t operand(int rank, std::int64_t i) {
    return 1 + static_cast<std::uint64_t>(100 * rank + i);
  }
  /// The application writes all inputs, the ranks run the kernels, and the application reads all
  /// outputs; each `times`. Rank `first` goes ahead of the others.
  [[nodiscard]] Execution run(int times, int first) const;
  [[nodiscard]] Run describe(const Machine& machine) const;

 private:
  /// Of a step of the plan; or what tells of the tiles of a product.
  struct Kernel {
    jit::KernelText text;
    const sched::KernelStep* step;  ///< null for a product
    sched::BufferId product;
    Module module;
  };
  /// What memory is for.
  enum class Use : std::uint8_t {
    tensor,
    multicast,
    flags,
    mailboxes,
    totals,
    fault,
    tiles,
    notices
  };

  static std::uint64_t place(Use use, int number, int rank);
  [[nodiscard]] MachineShape machine_shape() const;
  [[nodiscard]] Content content(const Step& step) const;
  [[nodiscard]] std::unique_ptr<Machine> make_machine() const;
  [[nodiscard]] std::vector<std::uint64_t> arguments(std::size_t kernel, int rank,
                                                     std::uint64_t launch) const;
  [[nodiscard]] std::vector<std::uint64_t> argument(std::size_t kernel, int rank,
                                                    std::uint64_t launch,
                                                    const jit::KernelArgument& argument) const;
  [[nodiscard]] static jit::abi::SyncHead sync_head(int rank, std::uint64_t launch, int barriers);
  [[nodiscard]] jit::abi::MailboxesHead mailboxes_head(const sched::KernelStep& step,
                                                       std::uint64_t launch) const;
  [[nodiscard]] std::vector<std::uint64_t> tiles(sched::BufferId buffer, int rank,
                                                 std::uint64_t launch) const;
  void make_products(Machine& machine, std::size_t kernel, std::uint64_t launch) const;
  void write_inputs(Machine& machine) const;
  [[nodiscard]] std::vector<std::uint64_t> read_outputs(Machine& machine) const;
  /// Calls visit(thread, address, rank, i) with each element of the tensors with a role, and a
  /// thread that does not have it in the kernel.
  template <class Visit>
  void for_each_element(const Machine& machine, sched::PlanBuffer::Role role,
                        const Visit& visit) const;
  [[nodiscard]] std::int64_t size_on(const sched::PlanBuffer& buffer) const;

  JobShape shape_;
  sched::Plan plan_;
  std::vector<Kernel> kernels_;
};

}  // namespace coconet::test::ptx
