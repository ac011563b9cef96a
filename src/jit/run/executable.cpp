// The public face of executables.
#include "coconet/executable.h"

#include "coconet/error.h"
#include "jit/run/executable_state.h"

namespace coconet {

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

Executable::State& Executable::state() const {
  if (state_) return *state_;
  throw BackendError("this executable was moved from; use the one that it was moved to");
}

std::size_t Executable::count(std::string_view name) const {
  const jit::Tensors& tensors = state().tensors();
  return tensors[tensors.find(name)].count;
}
std::size_t Executable::buffers(std::string_view name) const {
  const jit::Tensors& tensors = state().tensors();
  return tensors[tensors.find(name)].pieces.size();
}
std::size_t Executable::allocated_bytes(std::string_view name) const {
  const jit::Tensors& tensors = state().tensors();
  return tensors[tensors.find(name)].bytes;
}
std::size_t Executable::allocated_bytes() const {
  return state().tensors().allocated_bytes();
}
Executable::Piece Executable::data(std::string_view name, DType dtype,
                                   std::optional<std::size_t> buffer, bool to_write) {
  return state().tensors().data(name, dtype, buffer, to_write);
}
void Executable::bind(std::string_view name, std::span<const Buffer> buffers) {
  state().tensors().bind(name, buffers);
}
void Executable::bind(std::string_view name, DType dtype, std::span<const Piece> buffers) {
  state().tensors().bind(name, dtype, buffers);
}
void Executable::bind(std::string_view name, DType dtype, std::span<const ConstPiece> buffers) {
  state().tensors().bind(name, dtype, buffers);
}
void Executable::write(std::string_view name, DType dtype, std::span<const ConstPiece> from) {
  jit::Runner& runner = state().runner();
  runner.in_order([&] { state_->tensors().write(runner.queue(), name, dtype, from); });
}
void Executable::read(std::string_view name, DType dtype, std::span<const Piece> to) {
  jit::Runner& runner = state().runner();
  runner.finish();
  runner.in_order([&] { state_->tensors().read(runner.queue(), name, dtype, to); });
  runner.finish();
}
Executable::Slice Executable::slice_of(std::string_view name) const {
  const jit::RankPlan& plan = state().bound().plan;
  const sched::BufferId id = state_->tensors().find(name);
  const ir::Part& part = plan.buffer_part(id);
  return {part.begin, part.extent, plan.buffer_extents(id)};
}
void Executable::use_stream(void* stream) {
  state().runner().use_stream(stream);
}
std::vector<std::string> Executable::torn() const {
  return state().tensors().torn();
}
void Executable::take_torn() {
  state().tensors().mend_all();
}
void Executable::synchronize() {
  state().runner().finish();
}
void Executable::run(std::span<const ScalarValue> scalars) {
  state().runner().run(scalars);
}
void Executable::start_trace(std::size_t runs) {
  state().runner().start_trace(runs);
}
std::vector<TraceSpan> Executable::trace() {
  state().runner().collect_times();
  std::vector<TraceSpan> spans;
  for (const jit::Sampler::Traced& traced : state().runner().trace()) {
    const jit::Step& step = state().bound().steps[traced.step];
    spans.push_back(
        {step.name, step.kind, traced.run, traced.lane, traced.begin_us, traced.end_us});
  }
  state().runner().let_times_go();
  return spans;
}
Program Executable::program() const {
  return state().program;
}
std::string Executable::plan() const {
  return sched::print(state().bound().plan.plan());
}

std::vector<std::pair<std::string, std::string>> Executable::sources() const {
  std::vector<std::pair<std::string, std::string>> sources;
  for (const jit::Step& step : state().bound().steps) {
    if (const auto* kernel = std::get_if<jit::KernelLaunch>(&step.work))
      sources.emplace_back(kernel->text().name, kernel->text().source);
  }
  return sources;
}

}  // namespace coconet
