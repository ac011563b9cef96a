// A mesh names axes over the ranks of a world; a layout says per axis how a tensor lies on them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coconet/export.h"

namespace coconet {

class World;

/// Named axes over ranks, row-major: the last axis varies fastest with the rank number.
/// `Mesh({{"node", 2}, {"gpu", 8}})` puts rank 9 at node 1, gpu 1. It never changes, so any threads
/// may use it.
class COCONET_API Mesh {
 public:
  /// One axis.
  struct Axis {
    std::string name;  ///< unique in its mesh
    int size = 1;      ///< ranks along it
    /// Same name and size.
    bool operator==(const Axis&) const = default;
  };

  /// Throws ProgramError when an axis has no name, a repeated name or a size below 1, or there is
  /// no axis.
  explicit Mesh(std::vector<Axis> axes);

  /// One axis, "world", over all ranks of `world`.
  [[nodiscard]] static Mesh over(const World& world);

  /// In order, the last varying fastest.
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  /// Number of ranks: the product of the axis sizes.
  [[nodiscard]] int size() const;
  /// Position of the axis named `name`, or -1.
  [[nodiscard]] int find(std::string_view name) const;
  /// Coordinate of `rank` along `axis`.
  [[nodiscard]] int coordinate(int rank, int axis) const;
  /// The ranks that differ from `rank` only along `axis`, in axis order (`rank` included).
  [[nodiscard]] std::vector<int> group(int rank, int axis) const;
  /// `{world: 2}` as text.
  [[nodiscard]] std::string str() const;

  /// Same axes in the same order.
  bool operator==(const Mesh&) const = default;

 private:
  std::vector<Axis> axes_;
};

/// How a tensor lies along one mesh axis.
struct Placement {
  /// What a rank holds.
  enum class Kind : std::uint8_t {
    replicated,  ///< every rank holds the same values
    sliced,      ///< the i-th rank holds the i-th block of dimension `dim`; see `block_length`
    local        ///< every rank holds values of its own
  };
  Kind kind = Kind::replicated;  ///< what a rank holds
  int dim = 0;                   ///< the sliced dimension; 0 unless sliced
  /// Same kind and dimension.
  bool operator==(const Placement&) const = default;
};

/// Every rank holds the same values.
inline constexpr Placement replicated{Placement::Kind::replicated, 0};
/// Every rank holds values of its own.
inline constexpr Placement local{Placement::Kind::local, 0};
/// The i-th rank holds the i-th block of dimension `dim`.
[[nodiscard]] constexpr Placement sliced(int dim) {
  return {Placement::Kind::sliced, dim};
}

/// Length of the blocks of a dimension with `extent` elements that is sliced over `ranks`:
/// ceil(extent / ranks), and where that is 1024 or more, rounded up to a multiple of 16, so that
/// blocks of every dtype begin at a multiple of 16 bytes and kernels access them in vectors. The
/// last blocks may be short or empty.
[[nodiscard]] constexpr std::int64_t block_length(std::int64_t extent, std::int64_t ranks) {
  constexpr std::int64_t rounded_from = 1024, multiple = 16;
  const std::int64_t least = extent / ranks + (extent % ranks != 0 ? 1 : 0);
  if (ranks == 1 || least < rounded_from) return least;
  return (least + multiple - 1) / multiple * multiple;
}

/// One placement per mesh axis, as an application writes it: `local` for all axes, or
/// `Layout::on({{"tp", sliced(0)}})`, where axes that are not named are replicated. It never
/// changes, so any threads may use it.
class COCONET_API Layout {
 public:
  /// One placement for all axes. `sliced` needs a mesh with one axis.
  Layout(Placement everywhere)
      : everywhere_(true), all_(everywhere) {}  // NOLINT: implicit by design
  /// The placements on the axes that are named; on the others, replicated.
  [[nodiscard]] static Layout on(std::vector<std::pair<std::string, Placement>> axes);

  /// One placement per axis of `mesh`. Throws ProgramError for an unknown axis.
  [[nodiscard]] std::vector<Placement> resolve(const Mesh& mesh) const;

 private:
  Layout() = default;
  bool everywhere_ = false;
  Placement all_;
  std::vector<std::pair<std::string, Placement>> named_;
};

}  // namespace coconet
