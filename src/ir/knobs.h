// The table of knobs at run time: what JSON, environment variables, checks and the printer loop
// over.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coconet/schedule.h"

namespace coconet::ir {

/// One row of algorithms.def.
struct KnobChoice {
  std::string_view name;
  std::string_view summary;
};
inline constexpr KnobChoice algorithm_choices[] = {
#define COCONET_ALGORITHM(name, summary) {#name, summary},
#include "coconet/algorithms.def"
#undef COCONET_ALGORITHM
};
inline constexpr KnobChoice protocol_choices[] = {
#define COCONET_PROTOCOL(name, summary) {#name, summary},
#include "coconet/algorithms.def"
#undef COCONET_PROTOCOL
};

/// One row of knobs.def. A knob is a name or a number; the member of the other kind is null.
struct KnobRow {
  std::string_view name;      ///< also the key in JSON
  std::string_view variable;  ///< "COCONET_THREADS"
  std::string accepted;       ///< "a multiple of 32 up to 1024"
  std::string_view effect;    ///< of the variable
  std::string Knobs::*text = nullptr;
  std::span<const KnobChoice> choices = {};  ///< of a name; the first is the default
  int Knobs::*number = nullptr;
  bool (*valid)(int number) = nullptr;
  std::string_view unit = {};  ///< " threads"

  [[nodiscard]] bool is_set(const Knobs& knobs) const;
  /// Takes the value from `from`.
  void set(Knobs& knobs, const Knobs& from) const;
  /// "ring", "64"
  [[nodiscard]] std::string value(const Knobs& knobs) const;
  /// Sets the knob to what a variable says; false when it may not say that.
  [[nodiscard]] bool parse(std::string_view value, Knobs& knobs) const;
};

/// All rows, in table order.
[[nodiscard]] std::span<const KnobRow> knob_table();

}  // namespace coconet::ir
