// Comparing tensors between ranks, by checksums of blocks.
#include "jit/run/checks.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "coconet/error.h"

namespace coconet::jit {
namespace {

/// Bytes of a tensor that have one checksum.
constexpr std::size_t block_bytes = std::size_t{1} << 16;

/// Inputs and states that an application may bind, write or load, in the order of their names.
std::vector<sched::BufferId> given_tensors(const sched::Plan& plan) {
  std::vector<sched::BufferId> given;
  for (const auto& [name, id] : plan.named) {
    const sched::PlanBuffer& buffer = plan.buffers[id];
    const bool is_given = buffer.role == sched::PlanBuffer::Role::input ||
                          buffer.role == sched::PlanBuffer::Role::state;
    if (is_given && buffer.name == name) given.push_back(id);
  }
  return given;
}

/// The first of the ranks that hold what `rank` does of a tensor with this layout.
int first_with_same(const Mesh& mesh, const ir::Placements& layout, int rank) {
  for (int other = 0; other < rank; ++other) {
    bool same = true;
    for (std::size_t axis = 0; same && axis < layout.size(); ++axis) {
      const int a = static_cast<int>(axis);
      same = layout[axis].kind == Placement::Kind::replicated ||
             mesh.coordinate(other, a) == mesh.coordinate(rank, a);
    }
    if (same) return other;
  }
  return rank;
}

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// The bytes that `append` wrote.
class Unpacker {
 public:
  explicit Unpacker(std::string_view text) : text_(text) {}
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, text_.data(), sizeof value);
    text_.remove_prefix(sizeof value);
    return value;
  }
  [[nodiscard]] bool empty() const { return text_.empty(); }

 private:
  std::string_view text_;
};

using Checksums = std::vector<std::uint64_t>;

/// A tensor that differs between ranks that hold the same part of it.
struct Difference {
  sched::BufferId id = -1;
  int first = 0;            ///< the rank that the others are compared with
  std::vector<int> others;  ///< those that differ from it
  std::size_t block = 0;    ///< where the first of them does
};

/// Comparing the tensors of a step.
class Comparison {
 public:
  Comparison(Bound& bound, const ReadTensor& read) : bound_(bound), read_(read) {
    for (const sched::BufferId id : given_tensors(plan())) {
      const ir::Placements& layout = plan().buffers[id].layout;
      bool is_replicated = false;
      for (int rank = 0; rank < bound_.comm().size(); ++rank)
        is_replicated = is_replicated || first_with_same(mesh(), layout, rank) != rank;
      if (is_replicated) tensors_.push_back(id);
    }
  }

  /// Collective.
  void require_same() const {
    if (tensors_.empty()) return;
    const std::optional<Difference> found = find();
    if (found) throw_difference(*found);
  }

 private:
  [[nodiscard]] const sched::Plan& plan() const { return bound_.plan.plan(); }
  [[nodiscard]] const Mesh& mesh() const { return bound_.plan.mesh(); }

  [[nodiscard]] std::vector<std::byte> elements_of(sched::BufferId id) const {
    std::vector<std::byte> elements(bound_.tensors[id].count * bound_.plan.element_size(id));
    read_(id, elements);
    return elements;
  }

  /// The checksums of this rank's tensors, each with their number in front.
  [[nodiscard]] std::string packed() const {
    std::string text;
    for (const sched::BufferId id : tensors_) {
      const std::vector<std::byte> elements = elements_of(id);
      append(text, std::uint64_t{(elements.size() + block_bytes - 1) / block_bytes});
      for (std::size_t at = 0; at < elements.size(); at += block_bytes) {
        append(text, std::uint64_t{XXH3_64bits(elements.data() + at,
                                               std::min(block_bytes, elements.size() - at))});
      }
    }
    return text;
  }

  /// Collective: the first tensor that differs, the same on all ranks.
  [[nodiscard]] std::optional<Difference> find() const {
    std::vector<std::vector<Checksums>> of_ranks;  // by rank and tensor
    for (const std::string& text : bound_.comm().all_gather(packed())) {
      std::vector<Checksums>& tensors = of_ranks.emplace_back();
      for (Unpacker from(text); !from.empty();) {
        Checksums& one = tensors.emplace_back(from.take<std::uint64_t>());
        for (std::uint64_t& checksum : one) checksum = from.take<std::uint64_t>();
      }
    }
    for (std::size_t place = 0; place < tensors_.size(); ++place) {
      Difference found{tensors_[place], -1, {}, 0};
      for (int rank = 0; rank < bound_.comm().size(); ++rank) {
        const int first = first_with_same(mesh(), plan().buffers[found.id].layout, rank);
        const Checksums &mine = of_ranks[rank][place], &theirs = of_ranks[first][place];
        if (mine == theirs || (found.first >= 0 && found.first != first)) continue;
        if (found.others.empty())
          found.block = std::ranges::mismatch(mine, theirs).in1 - mine.begin();
        found.first = first;
        found.others.push_back(rank);
      }
      if (!found.others.empty()) return found;
    }
    return std::nullopt;
  }

  /// Collective.
  [[noreturn]] void throw_difference(const Difference& found) const {
    Comm& comm = bound_.comm();
    const int other = found.others.front();
    std::string block;
    if (comm.rank() == found.first || comm.rank() == other) {
      const std::vector<std::byte> elements = elements_of(found.id);
      block = std::string(reinterpret_cast<const char*>(elements.data()), elements.size())
                  .substr(found.block * block_bytes, block_bytes);
    }
    const std::vector<std::string> blocks = comm.all_gather(block);
    const std::string &mine = blocks[found.first], &theirs = blocks[other];
    const std::size_t size = bound_.plan.element_size(found.id);
    const auto at = std::ranges::mismatch(mine, theirs).in1 - mine.begin();
    const std::size_t index = static_cast<std::size_t>(at) / size;
    const sched::PlanBuffer& buffer = plan().buffers[found.id];
    throw CommError(fmt::format(
        "{} '{}' must be the same on ranks that hold the same part of it, but {} {} other elements "
        "than rank {}: element {} of the part is {} on rank {} and {} on rank {} (COCONET_CHECK)",
        buffer.role == sched::PlanBuffer::Role::input ? "input" : "state", buffer.name,
        name_ranks(found.others), found.others.size() == 1 ? "has" : "have", found.first,
        found.block * block_bytes / size + index, load_element(buffer.dtype, mine.data(), index),
        found.first, load_element(buffer.dtype, theirs.data(), index), other));
  }

  Bound& bound_;
  const ReadTensor& read_;
  std::vector<sched::BufferId> tensors_;  ///< that some ranks hold the same part of
};

/// Memory of a rank's tensor.
struct Piece {
  std::uint64_t begin, end;
  std::int32_t rank, tensor;
};

/// Collective over threads of one process, which have the same addresses.
void require_apart(Bound& bound) {
  const sched::Plan& plan = bound.plan.plan();
  std::string mine;
  for (sched::BufferId id = 0; id < plan.buffers.count(); ++id) {
    if (plan.buffers[id].role == sched::PlanBuffer::Role::temporary) continue;
    const Tensors::Tensor& tensor = bound.tensors[id];
    for (const Tensors::Piece& piece : tensor.pieces) {
      const auto begin = reinterpret_cast<std::uint64_t>(piece.home);
      if (piece.count > 0 && begin != 0)
        append(mine, Piece{begin, begin + piece.count * bound.plan.element_size(id),
                           bound.comm().rank(), id});
    }
  }
  std::vector<Piece> pieces;
  for (const std::string& text : bound.comm().all_gather(mine)) {
    for (Unpacker from(text); !from.empty();) pieces.push_back(from.take<Piece>());
  }
  std::ranges::sort(pieces, {}, &Piece::begin);
  const auto is_written = [&](const Piece& piece) {
    return plan.buffers[piece.tensor].role != sched::PlanBuffer::Role::input;
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (std::size_t j = i + 1; j < pieces.size() && pieces[j].begin < pieces[i].end; ++j) {
      if (pieces[i].rank == pieces[j].rank || !(is_written(pieces[i]) || is_written(pieces[j])))
        continue;
      throw BackendError(fmt::format(
          "'{}' of rank {} shares memory with '{}' of rank {}, and the step writes there; bind "
          "memory of its own to each (COCONET_CHECK)",
          plan.buffers[pieces[i].tensor].name, pieces[i].rank, plan.buffers[pieces[j].tensor].name,
          pieces[j].rank));
    }
  }
}

/// What is wrong with this rank's indices; empty: nothing.
std::string wrong_index(Bound& bound, const ReadTensor& read) {
  const sched::Plan& plan = bound.plan.plan();
  for (const sched::IndexRange& range : plan.ranges) {
    const sched::PlanBuffer& buffer = plan.buffers[range.buffer];
    const std::size_t count = bound.tensors[range.buffer].count;
    std::vector<std::byte> elements(count * bound.plan.element_size(range.buffer));
    read(range.buffer, elements);
    const std::int64_t extent = ir::global_extents({range.extent}, bound.plan.sizes()).front();
    for (std::size_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::int64_t>(load_element(buffer.dtype, elements.data(), i));
      if ((index >= 0 && index < extent) || index == range.also) continue;
      const std::string also = range.also ? fmt::format(", or {}", *range.also) : "";
      return fmt::format(
          "{} '{}' has {} as element {} of the part of rank {}; its elements are from 0 to {}{} "
          "(COCONET_CHECK)",
          buffer.role == sched::PlanBuffer::Role::input ? "input" : "state", buffer.name, index, i,
          bound.comm().rank(), extent - 1, also);
    }
  }
  return "";
}

/// Collective.
void require_in_range(Bound& bound, const ReadTensor& read) {
  if (bound.plan.plan().ranges.empty()) return;
  for (const std::string& wrong : bound.comm().all_gather(wrong_index(bound, read))) {
    if (!wrong.empty()) throw BackendError(wrong);
  }
}

}  // namespace

void check_step(Bound& bound, const ReadTensor& read) {
  if (bound.comm().in_one_process()) require_apart(bound);
  require_in_range(bound, read);
  Comparison(bound, read).require_same();
}

}  // namespace coconet::jit
