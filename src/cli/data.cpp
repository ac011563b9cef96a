// Deterministic data for runs and checks; see data.h.
#include "cli/data.h"

#include <string_view>

namespace coconet::cli {
namespace {

/// One round of splitmix64 (Steele, Lea, Flood 2014): a bijection that scatters neighbouring
/// integers.
std::uint64_t scatter(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t mix(std::uint64_t key, std::uint64_t value) {
  return scatter(key ^ scatter(value));
}

std::uint64_t mix(std::uint64_t key, std::string_view text) {
  for (const char c : text) key = mix(key, static_cast<unsigned char>(c));
  return mix(key, text.size());
}

/// What all elements of one rank's part share.
std::uint64_t key_of(const ir::Graph& graph, const ir::Node& node, int rank, std::uint64_t seed,
                     std::uint64_t iteration) {
  std::uint64_t key = mix(scatter(seed), node.name);
  for (std::size_t axis = 0; axis < node.layout.size(); ++axis) {
    if (node.layout[axis].kind != Placement::Kind::local) continue;
    key = mix(key, axis);
    key = mix(key, static_cast<std::uint64_t>(graph.mesh.coordinate(rank, static_cast<int>(axis))));
  }
  return node.op == ir::Op::input ? mix(key, iteration) : key;
}

double value_of(std::uint64_t bits, DType dtype, bool is_state) {
  if (dtype == DType::boolean) return static_cast<double>(bits & 1);
  if (is_integer(dtype)) {
    if (is_state) return 1 + static_cast<double>(bits % 4);
    return static_cast<double>(bits % 7) - (dtype == DType::u8 ? 0 : 3);
  }
  const double unit = static_cast<double>(bits >> 12) * 0x1p-52;  // [0, 1)
  if (is_state) return 0.1 + 0.9 * unit;
  const double magnitude = 0.125 + 0.875 * unit;
  return (bits & 1) != 0 ? -magnitude : magnitude;
}

}  // namespace

void for_each_stretch(const ir::Part& part, const ir::Extents& global,
                      const std::function<void(const Stretch&)>& visit) {
  if (part.count() == 0) return;
  const std::size_t rank = global.size();
  if (rank == 0) {
    visit({part.begin, 0, 0, 1});
    return;
  }
  const std::size_t inner = rank - 1;
  ir::Extents index = part.begin;
  for (std::int64_t in_part = 0; in_part < part.count(); in_part += part.extent[inner]) {
    std::int64_t in_whole = 0;
    for (std::size_t d = 0; d < rank; ++d) in_whole = in_whole * global[d] + index[d];
    visit({index, in_part, in_whole, part.extent[inner]});
    for (std::size_t d = inner;
         d-- > 0;) {  // the next row: an odometer over all dimensions but the last
      if (++index[d] < part.begin[d] + part.extent[d]) break;
      index[d] = part.begin[d];
    }
  }
}

std::int64_t position_in(const ir::Part& part, const ir::Extents& index) {
  std::int64_t position = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const std::int64_t offset = index[d] - part.begin[d];
    if (offset < 0 || offset >= part.extent[d]) return -1;
    position = position * part.extent[d] + offset;
  }
  return position;
}

ir::Lists test_lists(const ir::Graph& graph, const ir::Sizes& sizes) {
  ir::Lists lists;
  for (const std::string& dim : ir::listed_dims(graph)) {
    std::vector<std::int64_t>& lengths = lists[dim];
    for (std::int64_t left = sizes.at(dim); left > 0; left -= lengths.back())
      lengths.push_back((left + 2) / 3);
  }
  return lists;
}

ir::Data test_data(const ir::Graph& graph, ir::ValueId id, const ir::Sizes& sizes, int rank,
                   std::uint64_t seed, std::uint64_t iteration) {
  const ir::Node& node = graph.at(id);
  const std::uint64_t key = key_of(graph, node, rank, seed, iteration);
  const bool is_state = node.op == ir::Op::state;
  const ir::Extents global = ir::global_extents(node.shape, sizes);
  const ir::Part part = ir::part_of(graph, id, sizes, rank);
  ir::Data data(static_cast<std::size_t>(part.count()));
  for_each_stretch(part, global, [&](const Stretch& stretch) {
    for (std::int64_t i = 0; i < stretch.length; ++i) {
      const auto place = static_cast<std::uint64_t>(stretch.in_whole + i);
      data[stretch.in_part + i] = value_of(scatter(key + place), node.dtype, is_state);
    }
  });
  return data;
}

}  // namespace coconet::cli
