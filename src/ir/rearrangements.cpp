// Functions that put elements elsewhere, and find where they are. As in compositions.cpp, no
// expression makes values in two of its operands.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "coconet/error.h"
#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/composing.h"

namespace coconet {

using ir::graph_of;

namespace {

/// Throws ProgramError: `function` of program, and what is wrong.
[[noreturn]] void fail(const ir::Graph& graph, std::string_view function, const std::string& what) {
  throw ProgramError(fmt::format("in program '{}', {}: {}", graph.name, function, what));
}

/// `dim`, of a tensor, counted from 0.
int resolved(const Value& value, int dim, std::string_view function) {
  const auto& graph = graph_of(value, function);
  const ir::Node& node = graph->at(ir::id_of(value));
  const auto rank = static_cast<int>(node.shape.size());
  if (node.weak || dim < -rank || dim >= rank) {
    fail(*graph, function,
         fmt::format("{}; it takes a tensor, and has no dimension {}",
                     ir::describe(*graph, ir::id_of(value)), dim));
  }
  return dim < 0 ? dim + rank : dim;
}

/// The index along dimension `dim` of `value`, to be combined with that.
Value places_of(const Value& value, int dim, DType dtype) {
  Shape shape = value.shape();
  shape.erase(shape.begin(), shape.begin() + dim);
  std::fill(shape.begin() + 1, shape.end(), Dim(1));
  return ir::program_of(graph_of(value)).iota(shape, dtype);
}

/// The narrower type of an iota that counts to `extent`.
DType counting(std::int64_t extent) {
  return extent > std::numeric_limits<std::int32_t>::max() ? i64 : i32;
}

/// The extent of a dimension that the program states.
std::int64_t stated(const Value& value, int dim, std::string_view function) {
  const Dim extent = value.shape()[dim];
  if (extent.symbolic()) {
    fail(*graph_of(value), function,
         fmt::format("{}; the extent of dimension {} is one that the program states, not '{}'",
                     ir::describe(*graph_of(value), ir::id_of(value)), dim, extent.name));
  }
  return extent.extent;
}

Value first_of(Reduction reduction, const Value& value, int given, std::string_view function) {
  const int dim = resolved(value, given, function);
  if (value.dtype() == boolean) {
    fail(*graph_of(value), function,
         ir::describe(*graph_of(value), ir::id_of(value)) + "; it takes numbers: cast it to i8");
  }
  const Value extreme = Reducer{reduction}(value, {dim}, true);
  const Value places = places_of(value, dim, i64);
  Value is_extreme = equal(value, extreme);
  // A NaN is not equal to itself.
  if (is_float(value.dtype())) is_extreme = logical_or(is_extreme, not_equal(value, value));
  return min(select(is_extreme, places, std::int64_t{1} << 53), {dim});
}

}  // namespace

Value concatenate(const std::vector<Value>& values, int dim) {
  if (values.empty()) throw ProgramError("concatenate takes a tensor or more, and was given none");
  const int along = resolved(values.front(), dim, "concatenate");
  const auto& graph = graph_of(values.front());
  std::int64_t total = 0;
  for (const Value& value : values) {
    const bool is_of_program = graph_of(value, "concatenate") == graph;
    if (!is_of_program) fail(*graph, "concatenate", "the tensors are of several programs");
    Shape shape = value.shape();
    if (shape.size() == values.front().shape().size()) shape[along] = values.front().shape()[along];
    if (shape != values.front().shape() || value.dtype() != values.front().dtype()) {
      fail(*graph, "concatenate",
           fmt::format("{} and {}; they differ in dimension {} alone",
                       ir::describe(*graph, ir::id_of(values.front())),
                       ir::describe(*graph, ir::id_of(value)), along));
    }
    ir::require_layouts(values.front(), value, "concatenate", [](Placement one, Placement other) {
      return one == other || one == replicated || other == replicated;
    });
    total += stated(value, along, "concatenate");
  }
  return ir::whole_or_nothing(graph, [&] {
    Value result;
    std::int64_t begin = 0;
    for (const Value& value : values) {
      const std::int64_t end = begin + value.shape()[along].extent;
      const Value padded = pad(value, along, begin, total - end);
      if (begin > 0) {
        const Value is_before = places_of(padded, along, counting(total)) < begin;
        result = select(is_before, result, padded);
      } else {
        result = padded;
      }
      begin = end;
    }
    return result;
  });
}

namespace {

/// `value`, of which every rank has all along dimension `dim`, moved by `by`.
Value moved(const Value& value, int dim, std::int64_t by) {
  const std::int64_t extent = value.shape()[dim].extent;
  if (by <= -extent || by >= extent)
    return select(places_of(value, dim, counting(extent)) < 0, value, 0);
  if (by > 0) return pad(window(value, dim, 0, extent - by), dim, by, 0);
  return by == 0 ? value : pad(window(value, dim, -by, extent), dim, 0, -by);
}

/// `value` with all along dimension `dim` on every rank.
Value gathered(Value value, int dim) {
  const std::vector<Mesh::Axis> axes = graph_of(value)->mesh.axes();
  for (std::size_t axis = axes.size(); axis-- > 0;) {
    if (value.layout()[axis] == sliced(dim)) value = all_gather(value, axes[axis].name);
  }
  return value;
}

}  // namespace

Value shift(const Value& value, int given, std::int64_t by) {
  const int dim = resolved(value, given, "shift");
  (void)stated(value, dim, "shift");
  return ir::made_sliced(moved(gathered(value, dim), dim, by), value.layout());
}

Value cumsum(const Value& value, int given, bool reversed) {
  const int dim = resolved(value, given, "cumsum");
  const std::int64_t extent = stated(value, dim, "cumsum");
  ir::require_valid(graph_of(value), [&] { return value + value; });
  Value total = gathered(ir::widened(value), dim);
  // Of 1, 2, 4 .. elements each.
  for (std::int64_t before = 1; before < extent; before *= 2)
    total = total + moved(total, dim, reversed ? -before : before);
  return ir::narrowed(ir::made_sliced(total, value.layout()), value.dtype());
}

Value argmax(const Value& value, int dim) {
  return first_of(Reduction::max, value, dim, "argmax");
}

Value argmin(const Value& value, int dim) {
  return first_of(Reduction::min, value, dim, "argmin");
}

Value rotary(const Value& value, int given, double base) {
  const int dim = resolved(value, given, "rotary");
  const int last = static_cast<int>(value.shape().size()) - 1;
  const std::int64_t width = stated(value, last, "rotary");
  if (!is_float(value.dtype()) || dim == last || width % 2 != 0) {
    fail(*graph_of(value), "rotary",
         fmt::format("{}; it takes floats, an even number of them in the last dimension, and "
                     "positions along another one",
                     ir::describe(*graph_of(value), ir::id_of(value))));
  }
  if (!(base > 0) || !std::isfinite(base))
    fail(*graph_of(value), "rotary", fmt::format("base is {}; it must be above 0", base));
  const Value x = ir::widened(value);
  const std::int64_t half = width / 2;
  const Value front = window(x, last, 0, half), back = window(x, last, half, width);
  const Value turned = concatenate({-back, front}, last);
  const Value i = places_of(x, last, i32);
  const Value pair = cast(select(i < half, i, i - half), x.dtype());
  const Value slowness = exp(pair * (-2 * std::log(base) / static_cast<double>(width)));
  const Value angle = cast(places_of(x, dim, i32), x.dtype()) * slowness;
  const Value along = x * cos(angle), across = turned * sin(angle);
  return ir::narrowed(along + across, value.dtype());
}

}  // namespace coconet
