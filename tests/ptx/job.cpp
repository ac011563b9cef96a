#include "ptx/job.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <variant>

#include "ir/access.h"
#include "jit/abi/abi.h"
#include "jit/exchange/algorithm.h"
#include "jit/platform/bare_nvrtc.h"

namespace coconet::test::ptx {

namespace abi = jit::abi;
using Argument = jit::KernelArgument::Kind;
using Words = std::vector<std::uint64_t>;

namespace {

constexpr std::size_t element_bytes = 4;  // i32

// Bits of an address from which on it says the use, the number and the rank.
constexpr int of_use = 40;
constexpr int of_number = 32;
constexpr int of_rank = 24;

template <class T>
void append(Words& words, const T& value) {
  Words more(sizeof(T) / sizeof(std::uint64_t));
  std::memcpy(more.data(), &value, sizeof(T));
  words.insert(words.end(), more.begin(), more.end());
}

std::string ptx_of(const jit::KernelText& text) {
  const BareNvrtc nvrtc;
  // As the library compiles for GPUs, but no further than to PTX.
  return nvrtc.ptx(
      jit::complete_source(text, "cuda"),
      {"--gpu-architecture=compute_90", "--std=c++20", "--device-as-default-execution-space",
       "--fmad=false", "--define-macro=RANKS_PER_LAUNCH=1"});
}

sched::Plan lowered(const Program& program, const Schedule& schedule) {
  return sched::lower(*ir::graph_of(schedule.apply(program).back()));
}

template <class T>
T* pointer(std::uint64_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT: an address of the machine
}

}  // namespace

Job::Job(const Program& program, const Schedule& schedule, const JobShape& shape)
    : shape_(shape), plan_(lowered(program, schedule)) {
  for (const sched::PlanStep& step : plan_.steps) {
    if (const auto* kernel = std::get_if<sched::KernelStep>(&step)) {
      kernels_.push_back({jit::generate(plan_, *kernel), kernel, -1, {}});
    } else {
      kernels_.push_back(
          {jit::write_tile_signal(), nullptr, std::get<sched::MatmulStep>(step).out, {}});
    }
    kernels_.back().module = read_module(ptx_of(kernels_.back().text));
  }
}

std::unique_ptr<Machine> Job::make_machine() const {
  auto machine = std::make_unique<Machine>(machine_shape());
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const auto number = static_cast<int>(buffer);
    std::vector<std::uint64_t> memory;
    for (int rank = 0; rank < shape_.ranks; ++rank)
      memory.push_back(place(Use::tensor, number, rank));
    machine->multicast(place(Use::multicast, number, 0),
                       static_cast<std::uint64_t>(shape_.elements) * element_bytes, memory);
  }
  return machine;
}

MachineShape Job::machine_shape() const {
  return {.ranks = shape_.ranks,
          .blocks = shape_.blocks * static_cast<int>(plan_.steps.size()),
          .threads = shape_.threads};
}

std::uint64_t Job::place(Use use, int number, int rank) {
  return (std::uint64_t{1} + static_cast<std::uint64_t>(use)) << of_use |
         static_cast<std::uint64_t>(number) << of_number |
         static_cast<std::uint64_t>(rank) << of_rank;
}

Content Job::content(const Step& step) const {
  const std::uint64_t use = (step.memory >> of_use) - 1;
  const bool is_flag = step.op.order != Order::weak && step.memory == step.at;
  if (use != static_cast<std::uint64_t>(Use::mailboxes))
    return is_flag ? Content::flag : Content::data;
  const Knobs& knobs = kernels_[step.memory >> of_number & 0xff].step->knobs;
  const abi::MailboxLayout layout{
      .boxes = jit::find_algorithm(knobs.algorithm).boxes * shape_.ranks,
      .ranks = shape_.ranks,
      .blocks = shape_.blocks};
  const auto at = static_cast<abi::index_t>(step.memory & ((std::uint64_t{1} << of_rank) - 1));
  if (at < layout.slot(0, 0, 0, 0)) return Content::flag;
  if (knobs.protocol == "ll") return Content::cell;
  constexpr abi::index_t flag_bytes = sizeof(abi::u64);
  const bool ends_line = at % abi::LINE_BYTES >= abi::LINE_BYTES - flag_bytes;
  return knobs.protocol == "ll128" && ends_line ? Content::cell : Content::data;
}

Words Job::arguments(std::size_t kernel, int rank, std::uint64_t launch) const {
  Words words;
  for (const jit::KernelArgument& argument : kernels_[kernel].text.arguments) {
    const Words more = this->argument(kernel, rank, launch, argument);
    if (more.size() * sizeof(std::uint64_t) != jit::bytes_of(argument.kind, shape_.ranks))
      throw std::runtime_error("argument '" + argument.name + "' has another size in the kernel");
    words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

abi::SyncHead Job::sync_head(int rank, std::uint64_t launch, int barriers) {
  return {.own_flags = pointer<abi::u64>(place(Use::flags, 0, rank)),
          .fault = pointer<abi::Fault>(place(Use::fault, 0, rank)),
          .epoch = 1 + launch * barriers,
          .rank = static_cast<abi::u64>(rank),
          .timeout = 1,
          .spin_limit = 0,
          .step = 0,
          .given = 0,
          .waited = nullptr,
          .notices = pointer<abi::u64>(place(Use::notices, 0, rank)),
          .notice_stride = 1};
}

abi::MailboxesHead Job::mailboxes_head(const sched::KernelStep& step, std::uint64_t launch) const {
  constexpr std::int64_t turns = 4;  // of slots and trees, at most
  const std::int64_t chunks = (shape_.elements / shape_.chunk / turns + 1) * turns;
  const std::int64_t bytes =
      jit::find_protocol(step.knobs.protocol).slot_bytes(shape_.chunk, element_bytes);
  return {.first = launch * chunks,
          .chunks = static_cast<abi::u64>(chunks),
          .chunk = shape_.chunk,
          .slot_bytes = static_cast<abi::u64>(bytes)};
}

Words Job::argument(std::size_t kernel, int rank, std::uint64_t launch,
                    const jit::KernelArgument& argument) const {
  const sched::KernelStep& step = *kernels_[kernel].step;
  const auto number = static_cast<int>(kernel);
  const std::int64_t slice = (shape_.elements + shape_.ranks - 1) / shape_.ranks;
  const bool is_whole = argument.buffer >= 0 &&
                        plan_.buffers[argument.buffer].layout[0].kind != Placement::Kind::sliced;
  const bool has_one_owner = step.kind == "broadcast" || step.kind == "reduce";
  Words words;
  const auto of_ranks = [&](Use use, int of) {
    for (int peer = 0; peer < shape_.ranks; ++peer) words.push_back(place(use, of, peer));
  };
  switch (argument.kind) {
    case Argument::multicast:
      words.push_back(place(Use::multicast, argument.buffer, 0));
      of_ranks(Use::tensor, argument.buffer);
      return words;
    case Argument::pointers:
      of_ranks(Use::tensor, argument.buffer);
      return words;
    case Argument::pointer:
      return {place(Use::tensor, argument.buffer, rank)};
    case Argument::offset:
      return {is_whole ? static_cast<std::uint64_t>(rank * slice) : 0};
    case Argument::count:
      return {static_cast<std::uint64_t>(slice)};
    case Argument::mode:
      return {0};  // element by element, so that several threads have some
    case Argument::sync:
      append(words, sync_head(rank, launch, kernels_[kernel].text.barriers));
      of_ranks(Use::flags, 0);
      return words;
    case Argument::totals:
      words.push_back(launch);
      words.push_back(static_cast<std::uint64_t>(shape_.blocks));
      of_ranks(Use::totals, number);
      return words;
    case Argument::slices:
      append(words, abi::Slices{.outer = 1,
                                .inner = 1,
                                .extent = shape_.elements,
                                .block = slice,
                                .only = has_one_owner ? shape_.ranks - 1 : -1});
      return words;
    case Argument::mailboxes:
      append(words, mailboxes_head(step, launch));
      of_ranks(Use::mailboxes, number);
      return words;
    case Argument::tiles:
      return tiles(argument.buffer, rank, launch);
    default:
      throw std::runtime_error("argument '" + argument.name + "' has no place on the machine");
  }
}

Words Job::tiles(sched::BufferId buffer, int rank, std::uint64_t launch) const {
  Words words;
  append(words, abi::Tiles{.made = pointer<abi::u64>(place(Use::tiles, buffer, rank)),
                           .tile = shape_.chunk,
                           .count = size_on(plan_.buffers[buffer]),
                           .run = launch + 1});
  return words;
}

/// Tile by tile in one stream. What takes them has no part in that order and may run at once, so it
/// can as well run later.
void Job::make_products(Machine& machine, std::size_t kernel, std::uint64_t launch) const {
  const auto& [text, step, product, module] = kernels_[kernel];
  const int block = static_cast<int>(kernel) * shape_.blocks;
  const std::int64_t size = size_on(plan_.buffers[product]);
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    for (std::int64_t tile = 0; tile < size; tile += shape_.chunk) {
      const std::int64_t end = std::min(tile + shape_.chunk, size);
      for (std::int64_t i = tile; i < end; ++i) {
        const int thread = shape_.looked_at[static_cast<std::size_t>(i) % shape_.looked_at.size()];
        machine.store(
            machine.thread(rank, block, thread),
            place(Use::tensor, product, rank) + static_cast<std::uint64_t>(i) * element_bytes,
            launch + 1, element_bytes);
      }
      machine.end_kernels(rank, block, block + 1);
      Words arguments = tiles(product, rank, launch);
      append(arguments, tile);
      append(arguments, end);
      machine.launch(module, text.entry, rank, arguments, block, block + 1);
      machine.run(rank);
      machine.end_kernels(rank, block, block + 1);
    }
  }
}

template <class Visit>
void Job::for_each_element(const Machine& machine, sched::PlanBuffer::Role role,
                           const Visit& visit) const {
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    if (plan_.buffers[buffer].role != role) continue;
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      for (std::int64_t i = 0; i < size_on(plan_.buffers[buffer]); ++i) {
        const std::size_t turn = static_cast<std::size_t>(i + 1) % shape_.looked_at.size();
        const int thread = machine.thread(rank, 0, shape_.looked_at[turn]);
        const std::uint64_t at = place(Use::tensor, static_cast<int>(buffer), rank) +
                                 static_cast<std::uint64_t>(i) * element_bytes;
        visit(thread, at, rank, i);
      }
    }
  }
}

void Job::write_inputs(Machine& machine) const {
  for_each_element(machine, sched::PlanBuffer::Role::input,
                   [&](int thread, std::uint64_t at, int rank, std::int64_t i) {
                     machine.store(thread, at, operand(rank, i), element_bytes);
                   });
}

std::vector<std::uint64_t> Job::read_outputs(Machine& machine) const {
  std::vector<std::uint64_t> outputs;
  for_each_element(machine, sched::PlanBuffer::Role::output,
                   [&](int thread, std::uint64_t at, int, std::int64_t) {
                     outputs.push_back(machine.load(thread, at, element_bytes));
                   });
  return outputs;
}

std::int64_t Job::size_on(const sched::PlanBuffer& buffer) const {
  if (buffer.layout[0].kind != Placement::Kind::sliced) return shape_.elements;
  return (shape_.elements + shape_.ranks - 1) / shape_.ranks;
}

Execution Job::run(int times, int first) const {
  const MachineShape shape = machine_shape();
  auto machine = make_machine();
  std::vector<std::uint64_t> outputs;
  const auto end_kernels = [&] {
    for (int rank = 0; rank < shape.ranks; ++rank) machine->end_kernels(rank, 0, shape.blocks);
  };
  for (int time = 0; time < times; ++time) {
    write_inputs(*machine);
    end_kernels();
    for (std::size_t kernel = 0; kernel < kernels_.size(); ++kernel) {
      const int block = static_cast<int>(kernel) * shape_.blocks;
      if (kernels_[kernel].step == nullptr) {
        make_products(*machine, kernel, time);
        continue;
      }
      for (int rank = 0; rank < shape.ranks; ++rank)
        machine->launch(kernels_[kernel].module, kernels_[kernel].text.entry, rank,
                        arguments(kernel, rank, time), block, block + shape_.blocks);
    }
    machine->run(first);
    end_kernels();
    outputs = read_outputs(*machine);
  }
  return {std::move(machine), std::move(outputs)};
}

Run Job::describe(const Machine& machine) const {
  return {.shape = machine_shape(),
          .steps = steps_of(machine, machine_shape(), shape_.looked_at),
          .content = [this](const Step& step) { return content(step); }};
}

}  // namespace coconet::test::ptx
