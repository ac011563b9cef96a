// A shipped program and schedule with a few edits of their JSON, which the bytes choose: most stay
// legal far enough to be lowered and generated, which bytes that are JSON themselves seldom do.
#include <nlohmann/json.hpp>
#include <vector>

#include "coconet/schedule.h"
#include "fuzz/generated_text.h"
#include "fuzz/subjects.h"
#include "fuzz/targets.h"
#include "ir/access.h"

namespace coconet::fuzz {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view hostile[] = {
    "",
    "a\"b",
    "a\nb",
    "*/ int x; /*",
    "//",
    "x\\",
    "w; } int evil() { return 0; } struct Args2 {",
    "n\u00e4me",
    "\u202e",
    std::string_view("a\0b", 3),
    "__asm__",
    "int",
    "a",
    "i",
    "block",
    "lr_n",
    "w_data",
    "w.new",
    "../../etc/passwd",
    "${HOME}",
    "avg.reduce_scatter",
    "n.buffers",
    "*",
    "[!w]*",
    "%s%n",
    "{name}",
    "{}",
};
constexpr std::string_view words[] = {
    "replicated",  "local",      "sliced(0)",  "sliced(1)", "f16",    "bf16",    "f64",
    "i8",          "bool",       "sum",        "mean",      "max",    "add",     "multiply",
    "exp",         "all_reduce", "all_gather", "update",    "ring",   "tree",    "ll128",
    "computation", "send",       "scalar",     "state",     "select", "dropout", "all_to_all",
    "matmul",      "reduction",  "multimem"};
constexpr double numbers[] = {
    0,    1,    2,          3,    -1,   0.5,    1e308, -1e308,
    1e-5, 1e18, 2147483647, 4096, 1024, 5e-324, -0.0,  9007199254740993.0};

/// Choices, taken from the bytes; 0 when they are used up.
class Choices {
 public:
  explicit Choices(Bytes bytes) : bytes_(bytes) {}
  [[nodiscard]] bool is_empty() const { return bytes_.empty(); }
  std::size_t below(std::size_t limit) {
    std::size_t value = 0;
    for (std::size_t most = 1; most < limit; most *= 256) {
      value = value * 256 + (bytes_.empty() ? 0 : bytes_.front());
      bytes_ = bytes_.subspan(bytes_.empty() ? 0 : 1);
    }
    return limit == 0 ? 0 : value % limit;
  }
  template <class Range>
  const auto& any(const Range& range) {
    return range[below(std::size(range))];
  }

 private:
  Bytes bytes_;
};

/// Every value below `root`, with what holds it.
struct Place {
  json* parent;
  std::string key;        ///< of an object's member
  std::size_t index = 0;  ///< of an array's element
  [[nodiscard]] json& value() const {
    return parent->is_object() ? (*parent)[key] : (*parent)[index];
  }
};

void find_places(json& root, std::vector<Place>& into) {
  if (root.is_object()) {
    for (auto& [key, value] : root.items()) {
      into.push_back({&root, key});
      find_places(value, into);
    }
  } else if (root.is_array()) {
    for (std::size_t i = 0; i < root.size(); ++i) {
      into.push_back({&root, {}, i});
      find_places(root[i], into);
    }
  }
}

/// All values that read or are called `from` are so with `to`.
void rename(json& root, const std::string& from, const std::string& to) {
  if (root.is_string() && root.get<std::string>() == from) root = to;
  if (!root.is_structured()) return;
  for (auto& item : root.items()) rename(item.value(), from, to);
}

json leaf(Choices& choices) {
  switch (choices.below(4)) {
    case 0:
      return choices.any(hostile);
    case 1:
      return choices.any(words);
    case 2:
      return choices.any(numbers);
    default:
      return choices.below(2) == 1;
  }
}

void edit(json& document, json& other, Choices& choices) {
  std::vector<Place> places;
  find_places(document, places);
  if (places.empty()) return;
  const Place& place = choices.any(places);
  json& value = place.value();
  switch (choices.below(8)) {
    case 0:
      value = leaf(choices);
      break;
    case 1:  // a name, wherever it is: the document stays as legal as it was
      if (value.is_string()) {
        const auto from = value.get<std::string>();
        const std::string to(choices.any(hostile));
        rename(document, from, to);
        rename(other, from, to);
      }
      break;
    case 2:
      value = json(choices.any(places).value());
      break;
    case 3:
      if (place.parent->is_array()) {
        place.parent->erase(place.index);
      } else {
        place.parent->erase(place.key);
      }
      break;
    case 4:
      if (place.parent->is_array()) place.parent->push_back(json(value));
      break;
    case 5:
      if (place.parent->is_array())
        std::swap(value, (*place.parent)[choices.below(place.parent->size())]);
      break;
    case 6:
      if (place.parent->is_object())
        (*place.parent)[std::string(choices.any(hostile))] = leaf(choices);
      break;
    default:  // another number or word, of its kind
      if (value.is_number()) value = choices.any(numbers);
      if (value.is_string()) value = choices.any(words);
      if (value.is_boolean()) value = !value.get<bool>();
  }
}

}  // namespace

void fuzz_edits(Bytes bytes) {
  constexpr std::size_t most_edits = 8;
  Choices choices(bytes);
  const Subject& subject = choices.any(subjects());
  const std::size_t chosen = choices.below(subject.schedules.size() + 1);
  const bool is_scheduled_first = choices.below(2) == 1;
  Program program = subject.program;
  json schedule = chosen == 0 ? json::object() : json::parse(subject.schedules[chosen - 1]);
  if (is_scheduled_first && chosen > 0)  // kernels, origins and slices are in the program's JSON
    program = Schedule::parse(schedule.dump()).apply(program).back();
  json document = json::parse(program.json());
  for (std::size_t i = 0; i < most_edits && !choices.is_empty(); ++i) {
    if (chosen > 0 && choices.below(3) == 2) {
      edit(schedule, document, choices);
    } else {
      edit(document, schedule, choices);
    }
  }
  program = Program::parse(document.dump());
  ir::verify(*ir::graph_of(program));
  require(Program::parse(program.json()).json() == program.json(), "a program survives its JSON");
  check_kernels_of(program);
  if (chosen > 0 && !is_scheduled_first)
    check_kernels_of(Schedule::parse(schedule.dump()).apply(program).back());
}

}  // namespace coconet::fuzz
