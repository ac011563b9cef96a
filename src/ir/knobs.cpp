// The rows of knobs.def and what one of them does with a value.
#include "ir/knobs.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace coconet::ir {

namespace {

/// "direct, ring, tree or multimem"
std::string listed(std::span<const KnobChoice> choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 < choices.size() ? ", " : " or ";
    text += choices[i].name;
  }
  return text;
}

}  // namespace

bool KnobRow::is_set(const Knobs& knobs) const {
  return text != nullptr ? !(knobs.*text).empty() : knobs.*number != 0;
}

void KnobRow::set(Knobs& knobs, const Knobs& from) const {
  if (text != nullptr) {
    knobs.*text = from.*text;
  } else {
    knobs.*number = from.*number;
  }
}

std::string KnobRow::value(const Knobs& knobs) const {
  return text != nullptr ? knobs.*text : std::to_string(knobs.*number);
}

bool KnobRow::parse(std::string_view value, Knobs& knobs) const {
  if (text != nullptr) {
    knobs.*text = value;
    return std::ranges::any_of(choices,
                               [&](const KnobChoice& choice) { return choice.name == value; });
  }
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, knobs.*number);
  return error == std::errc() && end == last && valid(knobs.*number);
}

std::span<const KnobRow> knob_table() {
  static const std::vector<KnobRow> rows = {
#define COCONET_NAME_KNOB(knob, key, summary, what) \
  {.name = #knob,                                   \
   .variable = key,                                 \
   .accepted = listed(knob##_choices),              \
   .effect = what,                                  \
   .text = &Knobs::knob,                            \
   .choices = knob##_choices},
#define COCONET_NUMBER_KNOB(knob, key, rule, words, summary, automatic, what, noun) \
  {.name = #knob,                                                                   \
   .variable = key,                                                                 \
   .accepted = words,                                                               \
   .effect = what,                                                                  \
   .number = &Knobs::knob,                                                          \
   .valid = [](int n) { return rule; },                                             \
   .unit = noun},
#include "coconet/knobs.def"
#undef COCONET_NAME_KNOB
#undef COCONET_NUMBER_KNOB
  };
  return rows;
}

}  // namespace coconet::ir
