// Saving states as a checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "coconet/error.h"
#include "jit/checkpoint/directory.h"
#include "jit/checkpoint/file_writer.h"
#include "jit/checkpoint/json_scanner.h"
#include "jit/run/agreement.h"
#include "jit/run/disk_wait.h"
#include "jit/run/executable_state.h"
#include "jit/run/saved_parts.h"
#include "jit/run/state_bytes.h"

namespace coconet {
namespace jit {
namespace {

void require_utf8(std::string_view text, std::string_view what) {
  if (const std::size_t wrong = first_invalid_utf8(text); wrong != std::string_view::npos) {
    throw CheckpointError(
        fmt::format("A checkpoint's {} must be UTF-8; byte {} of '{}' is not.", what, wrong, text));
  }
}

void require_savable(const std::vector<SavedState>& states, const Program& program,
                     const SaveOptions& options) {
  for (const auto& [name, value] : options.metadata) {
    require_utf8(name, "metadata");
    require_utf8(value, "metadata");
  }
  if (options.keep < 0) {
    throw CheckpointError(fmt::format(
        "SaveOptions::keep is {}; it is a number of checkpoints, or 0 for all.", options.keep));
  }
  require_utf8(program.name(), "program's name");
  for (const SavedState& state : states) {
    require_utf8(state.name, "names of states");
    if (state.name == reserved_name) {
      throw CheckpointError(
          fmt::format("A state cannot be saved under the name '{}', which safetensors has for "
                      "something else; give it another.",
                      reserved_name));
    }
  }
}

std::string agreed_text(const std::filesystem::path& path, const SaveOptions& options) {
  std::string text = fmt::format("{} {}", json_string(path.string()), options.keep);
  for (const auto& [name, value] : options.metadata)
    text += fmt::format("\n{} {}", json_string(name), json_string(value));
  return text;
}

/// Writes this rank's file into `directory`; nothing where the rank has no share.
SavedFile write_shares(const std::filesystem::path& directory, const Bound& bound, Runner& runner,
                       const std::vector<SavedState>& states) {
  const RankPlan& plan = bound.plan;
  const std::vector<RankShare> shares = shares_of(plan, states, plan.rank());
  if (shares.empty()) return {};
  // What cannot be looked at is said when the file is made.
  if (std::error_code error; !std::filesystem::exists(directory, error) && !error) {
    throw CheckpointError(
        fmt::format("'{}', which rank 0 made, is not there on rank {}; save to a file system that "
                    "all ranks share.",
                    directory.string(), plan.rank()));
  }
  FileWriter file(directory / file_of_rank(plan.rank()));
  const std::string start = safetensors_start(file_tensors(plan, states, shares));
  file.append(start);
  std::vector<std::byte> staged;  // where the processor does not reach the tensors
  for (const RankShare& share : shares) {
    const SavedState& state = states[share.state];
    const Tensors::Tensor& tensor = bound.tensors[state.buffer];
    StateBytes(tensor, plan.element_size(state.buffer))
        .for_each(share.begin, share.bytes, [&](std::span<std::byte> memory) {
          if (bound.platform.traits().immediate) return file.append(memory);
          constexpr std::size_t most = 16 * block_bytes;
          while (!memory.empty()) {
            staged.resize(std::min(memory.size(), most));
            runner.in_order(
                [&] { runner.queue().copy(staged.data(), memory.data(), staged.size()); });
            runner.finish();
            file.append(staged);
            memory = memory.subspan(staged.size());
          }
        });
  }
  SavedFile saved = file.finish();
  saved.data = start.size();
  return saved;
}

// What other ranks have to say of their files: bytes, data, checksums; empty without a file.
std::string pack_file(const SavedFile& file) {
  std::vector<std::uint64_t> words{file.bytes, file.data};
  words.insert(words.end(), file.checksums.begin(), file.checksums.end());
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint64_t)};
}
SavedFile unpack_file(std::string_view bytes) {
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
  return {"", words[0], words[1], {words.begin() + 2, words.end()}};
}

/// The manifest of all ranks' files.
Manifest manifest_of(const RankPlan& plan, const std::vector<SavedState>& states,
                     const std::vector<std::string>& packed) {
  Manifest manifest;
  manifest.ranks = static_cast<int>(packed.size());
  for (const SavedState& state : states) {
    const sched::PlanBuffer& buffer = plan.buffer(state.buffer);
    manifest.tensors.push_back({state.name,
                                buffer.dtype,
                                plan.buffer_extents(state.buffer),
                                ir::to_string(buffer.layout, plan.mesh()),
                                state.copies,
                                {}});
  }
  for (int rank = 0; rank < manifest.ranks; ++rank) {
    SavedFile file = unpack_file(packed[static_cast<std::size_t>(rank)]);
    if (file.bytes == 0) continue;
    file.name = file_of_rank(rank);
    std::uint64_t offset = file.data;
    for (RankShare& share : shares_of(plan, states, rank)) {
      manifest.tensors[share.state].parts.push_back({manifest.files.size(),
                                                     copy_of(plan, states[share.state], rank),
                                                     std::move(share.box), offset});
      offset += share.bytes;
    }
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

/// Bytes of all states on all ranks, at most.
std::uint64_t most_bytes(const RankPlan& plan, const std::vector<SavedState>& states) {
  std::uint64_t bytes = 0;
  for (const SavedState& state : states) {
    bytes += static_cast<std::uint64_t>(ir::product(plan.buffer_extents(state.buffer))) *
             plan.element_size(state.buffer) * static_cast<std::uint64_t>(state.copies);
  }
  return bytes;
}

}  // namespace
}  // namespace jit

void Executable::save(const std::filesystem::path& path, const SaveOptions& options) {
  const Program& program = state().program;
  jit::Bound& bound = state().bound();
  jit::Runner& runner = state().runner();
  jit::Comm& comm = bound.comm();
  const jit::RankPlan& plan = bound.plan;
  const std::vector<jit::SavedState> states = jit::saved_states(plan);
  std::filesystem::path target;
  jit::together(comm, [&] {
    jit::require_savable(states, program, options);
    target = jit::checkpoint_path(path);
    runner.require_at_rest();
    for (const jit::SavedState& state : states) {
      bound.tensors.require_whole(state.name);
      bound.tensors.with_memory(state.name);
    }
    runner.finish();
  });
  const jit::Given given[] = {{"another place or other options", jit::agreed_text(path, options),
                               fmt::format("'{}'", path.string())}};
  jit::require_agreement(comm, "all ranks must save the same checkpoint", given);

  const std::uint64_t bytes = jit::most_bytes(plan, states);
  std::optional<jit::PendingCheckpoint> pending;  // rank 0's, which goes when anything fails
  jit::together_on_disk(comm, bytes, [&] {
    if (comm.rank() == 0) pending.emplace(target);
  });
  const std::filesystem::path directory =
      comm.broadcast(pending ? pending->path().string() : "", 0);
  jit::SavedFile mine;
  jit::together_on_disk(comm, bytes,
                        [&] { mine = jit::write_shares(directory, bound, runner, states); });
  const std::vector<std::string> files = comm.all_gather(jit::pack_file(mine));
  jit::together_on_disk(comm, bytes, [&] {
    if (!pending) return;
    jit::Manifest manifest = jit::manifest_of(plan, states, files);
    manifest.sequence = pending->sequence();
    manifest.program = program.name();
    manifest.metadata = options.metadata;
    jit::write_saved_text(directory / jit::manifest_name, jit::text_of(manifest));
    pending->publish();
    if (options.keep > 0) {
      jit::keep_newest(pending->target().parent_path(), program.name(),
                       static_cast<std::size_t>(options.keep));
    }
  });
}

}  // namespace coconet
