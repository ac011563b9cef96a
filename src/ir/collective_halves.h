// The collectives that make a kernel what it is: its kind follows from its members.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace coconet::ir {

/// What a kernel of a kind combines data of all ranks with, ahead of its computation, and what it
/// hands the results on with; `none` where it has no such half.
struct Halves {
  static constexpr Op none = Op::constant;
  Fusion::Kind kind = Fusion::Kind::computation;
  Op combine = none;
  Op spread = none;
};

/// A kernel is of the first of these whose collectives are all among its members.
inline constexpr Halves all_halves[] = {
    {Fusion::Kind::send, Halves::none, Op::send},
    {Fusion::Kind::all_reduce, Op::all_reduce, Halves::none},
    {Fusion::Kind::all_reduce, Op::reduce, Op::broadcast},
    {Fusion::Kind::all_reduce, Op::reduce_scatter, Op::all_gather},
    {Fusion::Kind::reduce_scatter, Op::reduce_scatter, Halves::none},
    {Fusion::Kind::all_gather, Halves::none, Op::all_gather},
    {Fusion::Kind::reduce, Op::reduce, Halves::none},
    {Fusion::Kind::broadcast, Halves::none, Op::broadcast},
    {Fusion::Kind::computation, Halves::none, Halves::none}};

[[nodiscard]] const Halves& halves_of(const Graph& graph, const std::vector<ValueId>& members);

/// Why a kernel of `members` is of its kind: "a kernel of these ops is of kind 'all_reduce',
/// because of 'avg' (all_reduce)".
[[nodiscard]] std::string kind_reason(const Graph& graph, const std::vector<ValueId>& members);

}  // namespace coconet::ir
