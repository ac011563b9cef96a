// The public face of executables.
#include "coconet/executable.h"

#include <fmt/format.h>

#include <cstring>

#include "coconet/error.h"
#include "jit/run/executable_state.h"
#include "jit/run/whole.h"

namespace coconet {

namespace {

/// Throws BackendError unless `count` is the whole tensor's.
void require_whole_count(std::string_view name, const Executable::Slice& slice, std::size_t count) {
  const auto all = static_cast<std::size_t>(ir::product(slice.whole));
  if (count == all) return;
  throw BackendError(
      fmt::format("'{}' has {} elements as a whole, and {} are given", name, all, count));
}

}  // namespace

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

std::size_t Executable::count(std::string_view name) const {
  return state_->bound.tensors[state_->bound.tensors.find(name)].count;
}
std::size_t Executable::allocated_bytes(std::string_view name) const {
  return state_->bound.tensors[state_->bound.tensors.find(name)].bytes;
}
void* Executable::own(std::string_view name, DType dtype) {
  return state_->bound.tensors.own(name, dtype);
}
void Executable::bind(std::string_view name, DType dtype, void* data, std::size_t count) {
  state_->bound.tensors.bind(name, dtype, data, count);
}
void Executable::bind_read_only(std::string_view name, DType dtype, const void* data,
                                std::size_t count) {
  state_->bound.tensors.bind_read_only(name, dtype, data, count);
}
void Executable::bind(std::string_view name, const Buffer& buffer) {
  state_->bound.tensors.bind(name, buffer);
}
std::vector<Executable::Piece> Executable::own_scattered(std::string_view name, DType dtype) {
  return state_->bound.tensors.own_scattered(name, dtype);
}
void Executable::bind_scattered(std::string_view name, DType dtype, std::span<const Piece> pieces) {
  state_->bound.tensors.bind_scattered(name, dtype, pieces);
}
void Executable::bind_scattered(std::string_view name, std::span<const Buffer> buffers) {
  state_->bound.tensors.bind_scattered(name, buffers);
}
void Executable::write(std::string_view name, DType dtype, const void* from, std::size_t count) {
  state_->bound.tensors.write(state_->runner.queue(), name, dtype, from, count);
}
void Executable::read(std::string_view name, DType dtype, void* to, std::size_t count) {
  state_->runner.finish();
  state_->bound.tensors.read(state_->runner.queue(), name, dtype, to, count);
  state_->runner.finish();
}
Executable::Slice Executable::slice_of(std::string_view name) const {
  const sched::BufferId id = state_->bound.tensors.find(name);
  const ir::Part& part = state_->bound.plan.buffer_part(id);
  return {part.begin, part.extent, state_->bound.plan.buffer_extents(id)};
}
void Executable::write_whole(std::string_view name, DType dtype, const void* from,
                             std::size_t count) {
  const Slice slice = slice_of(name);
  require_whole_count(name, slice, count);
  std::vector<std::byte> mine(this->count(name) * size_of(dtype));
  jit::copy_from_whole(static_cast<const std::byte*>(from), slice.whole,
                       {slice.begin, slice.extent}, size_of(dtype), mine.data());
  write(name, dtype, mine.data(), this->count(name));
}
void Executable::read_whole(std::string_view name, DType dtype, void* to, std::size_t count) {
  jit::Comm& comm = state_->bound.comm();
  std::vector<std::byte> mine;
  jit::together(comm, [&] {
    require_whole_count(name, slice_of(name), count);
    mine.resize(this->count(name) * size_of(dtype));
    read(name, dtype, mine.data(), this->count(name));
  });
  const std::vector<std::byte> whole = jit::gather_whole(
      comm, state_->bound.plan, state_->bound.tensors.find(name), std::move(mine));
  if (!whole.empty()) std::memcpy(to, whole.data(), whole.size());
}
void Executable::use_stream(void* stream) {
  state_->runner.use_stream(stream);
}
void Executable::synchronize() {
  state_->runner.finish();
}
void Executable::run(std::span<const ScalarValue> scalars) {
  state_->runner.run(scalars);
}
Report Executable::report() {
  return state_->report();
}
void Executable::start_trace(std::size_t runs) {
  state_->runner.start_trace(runs);
}
std::vector<TraceSpan> Executable::trace() {
  state_->runner.collect_times();
  std::vector<TraceSpan> spans;
  for (const jit::Sampler::Traced& traced : state_->runner.trace()) {
    const jit::Step& step = state_->bound.steps[traced.step];
    spans.push_back(
        {step.name, step.kind, traced.run, traced.lane, traced.begin_us, traced.end_us});
  }
  state_->runner.let_times_go();
  return spans;
}
Program Executable::program() const {
  return state_->program;
}
std::string Executable::plan() const {
  return sched::print(state_->bound.plan.plan());
}

std::vector<std::pair<std::string, std::string>> Executable::sources() const {
  std::vector<std::pair<std::string, std::string>> sources;
  for (const jit::Step& step : state_->bound.steps) {
    if (const auto* kernel = std::get_if<jit::KernelLaunch>(&step.work))
      sources.emplace_back(kernel->text().name, kernel->text().source);
  }
  return sources;
}

}  // namespace coconet
