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
  jit::Comm& comm = state().comm();
  std::vector<std::byte> mine;
  jit::together(comm, [&] {
    require_whole_count(name, slice_of(name), count);
    mine.resize(this->count(name) * size_of(dtype));
    read(name, dtype, mine.data(), this->count(name));
  });
  const std::vector<std::byte> whole =
      jit::gather_whole(comm, state_->bound().plan, state_->tensors().find(name), std::move(mine));
  if (!whole.empty()) std::memcpy(to, whole.data(), whole.size());
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
void Executable::share_states(Executable& owner) {
  state().share_states(owner.state_.get());
}
void Executable::resize(const Sizes& sizes, const ParameterLists& lists) {
  state().resize(sizes, lists);
}
void Executable::reset() {
  state().reset();
}
void Executable::save(const std::filesystem::path& path, const SaveOptions& options) {
  state().save(path, options);
}
Checkpoint Executable::load(const std::filesystem::path& path) {
  return state().load(path);
}
std::optional<Checkpoint> Executable::load_latest(const std::filesystem::path& directory,
                                                  const LoadOptions& options) {
  return state().load_latest(directory, options);
}
LocalStats Executable::local_stats() {
  return state().local_stats();
}
Report Executable::report() {
  return state().report();
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
