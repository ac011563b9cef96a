// Loading a checkpoint into states.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "jit/checkpoint/boxes.h"
#include "jit/checkpoint/damage.h"
#include "jit/checkpoint/directory.h"
#include "jit/checkpoint/file_reader.h"
#include "jit/config/log.h"
#include "jit/run/disk_wait.h"
#include "jit/run/executable_state.h"
#include "jit/run/saved_parts.h"
#include "jit/run/state_bytes.h"

namespace coconet {
namespace jit {
namespace {

std::string shown(DType dtype, const ir::Extents& shape) {
  return fmt::format("{} [{}]", to_string(dtype), fmt::join(shape, ", "));
}

/// The tensors that `states` are in `manifest`. Throws CheckpointError where one is missing or
/// another one.
std::vector<const SavedTensor*> match(const RankPlan& plan, const std::vector<SavedState>& states,
                                      const Manifest& manifest, const std::string& path) {
  std::vector<const SavedTensor*> tensors;
  for (const SavedState& state : states) {
    const SavedTensor* const tensor = manifest.find(state.name);
    if (tensor == nullptr) {
      std::vector<std::string> names;
      for (const SavedTensor& one : manifest.tensors) names.push_back(one.name);
      throw CheckpointError(
          fmt::format("The checkpoint '{}' of the program '{}' has no state '{}'; it has {}.", path,
                      manifest.program, state.name,
                      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    const DType dtype = plan.buffer(state.buffer).dtype;
    const ir::Extents& shape = plan.buffer_extents(state.buffer);
    if (dtype != tensor->dtype || shape != tensor->shape) {
      throw CheckpointError(
          fmt::format("The state '{}' is {} as a whole, and {} in the checkpoint '{}'; both must "
                      "be the same.",
                      state.name, shown(dtype, shape), shown(tensor->dtype, tensor->shape), path));
    }
    if (state.copies != tensor->copies) {
      throw CheckpointError(fmt::format(
          "The state '{}' has different values on {} groups of ranks, and on {} in the checkpoint "
          "'{}'; what is local must be loaded into as many.",
          state.name, state.copies, tensor->copies, path));
    }
    tensors.push_back(tensor);
  }
  if (manifest.tensors.size() > states.size()) {
    log_info(fmt::format("the checkpoint '{}' has {} states that the program has not", path,
                         manifest.tensors.size() - states.size()));
  }
  return tensors;
}

/// The beginning of file `index`, from what the manifest says of it.
std::string start_of(const Manifest& manifest, std::size_t index) {
  struct Found {
    std::uint64_t offset;
    FileTensor tensor;
  };
  std::vector<Found> found;
  for (const SavedTensor& tensor : manifest.tensors) {
    for (const SavedPart& part : tensor.parts) {
      if (part.file == index)
        found.push_back({part.offset, {tensor.name, tensor.dtype, part.box.extent}});
    }
  }
  std::ranges::sort(found, {}, &Found::offset);
  std::vector<FileTensor> tensors;
  for (Found& one : found) tensors.push_back(std::move(one.tensor));
  return safetensors_start(tensors);
}

/// Whether all other readers find in the file what the manifest says.
void require_start(const std::filesystem::path& directory, const Manifest& manifest,
                   std::size_t index) {
  const SavedFile& saved = manifest.files[index];
  FileReader file(directory, saved);
  const std::string expected = start_of(manifest, index);
  if (saved.data != expected.size()) {
    throw Damage(file.path(), 0,
                 fmt::format("its elements begin at {}, and its header ends at {}", saved.data,
                             expected.size()));
  }
  std::string found(expected.size(), '\0');
  file.read(0, found.size(), reinterpret_cast<std::byte*>(found.data()));
  const auto wrong = std::ranges::mismatch(found, expected).in1;
  if (wrong != found.end()) {
    throw Damage(file.path(), static_cast<std::uint64_t>(wrong - found.begin()),
                 fmt::format("its header is not that of the parts that '{}' lists", manifest_name));
  }
}

/// A byte of a bool is 0 or 1: others may be anything to a kernel.
void require_bools(std::span<const std::byte> bytes, const FileReader& file, std::uint64_t offset) {
  const auto odd = std::ranges::find_if(bytes, [](std::byte byte) { return byte > std::byte{1}; });
  if (odd == bytes.end()) return;
  throw Damage(file.path(), offset + static_cast<std::uint64_t>(odd - bytes.begin()),
               fmt::format("a bool is {}; it is 0 or 1", std::to_integer<int>(*odd)));
}

/// Reads `box` of a copy of `tensor` to `to`, its elements row-major.
void read_box(const std::filesystem::path& directory, const Manifest& manifest,
              const SavedTensor& tensor, std::int64_t copy, const ir::Part& box,
              const StateBytes& to) {
  const std::size_t element = size_of(tensor.dtype);
  for (const SavedPart& part : tensor.parts) {
    if (part.copy != copy) continue;
    std::optional<FileReader> file;
    for_each_common_run(
        part.box, box, [&](std::int64_t in_file, std::int64_t in_box, std::int64_t count) {
          if (!file) file.emplace(directory, manifest.files[part.file]);
          std::uint64_t offset = part.offset + static_cast<std::uint64_t>(in_file) * element;
          to.for_each(static_cast<std::size_t>(in_box) * element,
                      static_cast<std::size_t>(count) * element, [&](std::span<std::byte> memory) {
                        file->read(offset, memory.size(), memory.data());
                        if (tensor.dtype == DType::boolean) require_bools(memory, *file, offset);
                        offset += memory.size();
                      });
        });
  }
}

class Loader {
 public:
  Loader(Bound& bound, Runner& runner)
      : bound_(bound), runner_(runner), states_(saved_states(bound.plan)) {}

  /// What one attempt to load found.
  struct Outcome {
    std::optional<Checkpoint> loaded;
    std::string damage;  ///< why not
  };

  /// Collective. Damage is thrown, or where `returns_damage` returned on all ranks.
  Outcome load(const std::filesystem::path& path, bool returns_damage) {
    Comm& comm = bound_.comm();
    std::string text, damage;
    Manifest manifest;
    const auto guarded = [&](const std::function<void()>& body) {
      try {
        body();
      } catch (const Damage& error) {
        if (!returns_damage) throw;
        damage = error.what();
      }
    };
    together_on_disk(comm, 0, [&] {
      guarded([&] {
        if (comm.rank() == 0) text = read_saved_text(path / manifest_name);
      });
    });
    if (is_damaged(damage)) return {std::nullopt, damage};
    text = comm.broadcast(text, 0);
    together(comm,
             [&] { guarded([&] { manifest = parse_manifest(text, path / manifest_name); }); });
    if (is_damaged(damage)) return {std::nullopt, damage};
    std::uint64_t bytes = 0;
    for (const SavedFile& file : manifest.files) bytes += file.bytes;
    std::vector<const SavedTensor*> tensors;
    together(comm, [&] { tensors = match(bound_.plan, states_, manifest, path.string()); });
    together_on_disk(comm, bytes, [&] {
      guarded([&] {
        const auto ranks = static_cast<std::size_t>(comm.size());
        for (auto i = static_cast<std::size_t>(comm.rank()); i < manifest.files.size(); i += ranks)
          require_start(path, manifest, i);
      });
    });
    if (is_damaged(damage)) return {std::nullopt, damage};
    together_on_disk(comm, bytes * static_cast<std::uint64_t>(comm.size()), [&] {
      guarded([&] {
        for (std::size_t i = 0; i < states_.size(); ++i)
          read_state(path, manifest, states_[i], *tensors[i]);
        runner_.finish();
      });
    });
    if (is_damaged(damage)) return {std::nullopt, damage};
    return {Checkpoint{path, manifest.metadata, manifest.program, manifest.ranks}, {}};
  }

 private:
  /// Whether any rank found damage; `damage` is then that of the first.
  bool is_damaged(std::string& damage) {
    for (const std::string& one : bound_.comm().all_gather(damage)) {
      if (one.empty()) continue;
      damage = one;
      return true;
    }
    return false;
  }

  void read_state(const std::filesystem::path& path, const Manifest& manifest,
                  const SavedState& state, const SavedTensor& saved) {
    const ir::Part& box = bound_.plan.buffer_part(state.buffer);
    const std::size_t element = size_of(saved.dtype);
    const std::int64_t copy = copy_of(bound_.plan, state, bound_.plan.rank());
    if (bound_.platform.traits().immediate) {
      const Tensors::Tensor& tensor = bound_.tensors.with_memory(state.name);
      read_box(path, manifest, saved, copy, box, StateBytes(tensor, element));
      return;
    }
    std::vector<std::byte> staged(static_cast<std::size_t>(box.count()) * element);
    read_box(path, manifest, saved, copy, box, StateBytes(staged));
    runner_.in_order([&] {
      const Executable::ConstPiece whole{staged.data(), static_cast<std::size_t>(box.count())};
      bound_.tensors.write(runner_.queue(), state.name, saved.dtype, {&whole, 1});
    });
    runner_.finish();
  }

  Bound& bound_;
  Runner& runner_;
  std::vector<SavedState> states_;
};

/// What `load_latest` may load.
struct Candidates {
  bool is_one = false;             ///< the directory itself
  std::string damage;              ///< of what is not among `paths` and should be
  std::vector<std::string> paths;  ///< one after the other, until one is whole
};

Candidates find_candidates(const std::filesystem::path& directory, const LoadOptions& options) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(directory, error);
  if (!error && !is_there && !options.may_be_first_start) {
    throw CheckpointError(
        fmt::format("There is no directory '{}' to load a checkpoint from; where this may be the "
                    "first start, say so: LoadOptions::may_be_first_start, or "
                    "--may-be-first-start of coconet run.",
                    directory.string()));
  }
  Candidates candidates;
  candidates.is_one = is_checkpoint(directory);
  if (candidates.is_one) return candidates;
  const FoundCheckpoints found = find_checkpoints(directory);
  for (const LeftOutCheckpoint& one : found.left_out) {
    candidates.damage = one.why;
    log_warn(fmt::format("the checkpoint '{}' is left out: {}", one.path.string(), one.why));
  }
  for (const FoundCheckpoint& one : found.whole) candidates.paths.push_back(one.path.string());
  return candidates;
}

std::string pack_candidates(const Candidates& candidates) {
  std::string packed = (candidates.is_one ? "1" : "0") + candidates.damage + '\0';
  for (const std::string& path : candidates.paths) packed += path + '\0';
  return packed;
}
Candidates unpack_candidates(const std::string& packed) {
  Candidates candidates{packed.front() == '1', packed.c_str() + 1, {}};
  for (std::size_t at = packed.find('\0') + 1; at < packed.size(); at = packed.find('\0', at) + 1)
    candidates.paths.emplace_back(packed.c_str() + at);
  return candidates;
}

/// Collective: rank 0's path on all ranks, on which nothing runs any more.
std::filesystem::path begin_loading(Comm& comm, Runner& runner, const std::filesystem::path& path) {
  std::string mine;
  together(comm, [&] {
    runner.require_at_rest();
    runner.finish();
    mine = checkpoint_path(path).string();
  });
  return comm.broadcast(mine, 0);
}

}  // namespace
}  // namespace jit

Checkpoint Executable::load(const std::filesystem::path& path) {
  jit::Bound& bound = state().bound();
  jit::Comm& comm = bound.comm();
  const std::filesystem::path whole = jit::begin_loading(comm, state().runner(), path);
  jit::together_on_disk(comm, 0, [&] {
    if (comm.rank() != 0 || jit::is_checkpoint(whole)) return;
    throw CheckpointError(
        fmt::format("There is no checkpoint at '{}'; load takes the directory of one, and "
                    "load_latest that of several.",
                    whole.string()));
  });
  return *jit::Loader(bound, state().runner()).load(whole, false).loaded;
}

std::optional<Checkpoint> Executable::load_latest(const std::filesystem::path& directory,
                                                  const LoadOptions& options) {
  jit::Bound& bound = state().bound();
  jit::Runner& runner = state().runner();
  jit::Comm& comm = bound.comm();
  const std::filesystem::path whole = jit::begin_loading(comm, runner, directory);
  jit::Candidates candidates;
  jit::together_on_disk(comm, 0, [&] {
    if (comm.rank() == 0) candidates = jit::find_candidates(whole, options);
  });
  candidates = jit::unpack_candidates(comm.broadcast(jit::pack_candidates(candidates), 0));
  if (candidates.is_one) return *jit::Loader(bound, runner).load(whole, false).loaded;
  std::string damage = candidates.damage;
  for (const std::string& path : candidates.paths) {
    jit::Loader::Outcome outcome = jit::Loader(bound, runner).load(path, true);
    if (outcome.loaded) return outcome.loaded;
    damage = outcome.damage;
    if (comm.rank() == 0) {
      jit::log_warn(fmt::format("the checkpoint '{}' is left out, and the one before it taken: {}",
                                path, damage));
    }
  }
  if (!damage.empty()) {
    throw CheckpointError(
        fmt::format("Every checkpoint in '{}' is damaged or closed to this user; of the last one, "
                    "{}.",
                    whole.string(), damage));
  }
  if (comm.rank() == 0) {
    jit::log_warn(fmt::format("there is no checkpoint in '{}': nothing is loaded", whole.string()));
  }
  return std::nullopt;
}

}  // namespace coconet
