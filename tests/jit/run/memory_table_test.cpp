// The table of docs/programs.md that says how many bytes a parameter an optimizer takes is what
// executables allocate.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "golden.h"
#include "sample.h"

using namespace coconet;
using programs::MasterWeights;
using programs::Storage;

namespace {

constexpr const char* document = "docs/programs.md";
constexpr std::string_view header =
    "| optimizer | in f32 | `copy` | `remainders` | `none` |\n|---|---|---|---|---|\n";

constexpr std::int64_t parameters = 1 << 14;

/// On one of `ranks` ranks, under `fused`, what numbers take left out: they are few.
double bytes_a_parameter(const programs::Shipped& optimizer, programs::Precision precision,
                         const programs::TrainingOptions& options, int ranks) {
  std::size_t bytes = 0;
  World::local(ranks, [&](World& world) {
    const Program program =
        optimizer.with(Mesh::over(world), precision, options, Storage::whole, {});
    const Schedule fused = Schedule::load(std::string(optimizer.name) + "-fused.json");
    const Executable step = compile(program, fused, world, {{"n", parameters}});
    if (world.rank() == 0) bytes = step.allocated_bytes();
  });
  constexpr std::int64_t least =
      parameters / 4;  // the smallest tensor: a slice of bytes on 4 ranks
  return static_cast<double>(bytes / least * least) / parameters;
}

/// "8 + 4/n": what it takes on n ranks.
std::string cell(const programs::Shipped& optimizer, programs::Precision precision,
                 const programs::TrainingOptions& options) {
  const auto on = [&](int ranks) {
    return bytes_a_parameter(optimizer, precision, options, ranks);
  };
  const double alone = on(1);
  const double sliced = (alone - on(4)) * 4 / 3;
  const double whole = alone - sliced;
  CHECK(on(2) == whole + sliced / 2);
  return sliced == 0 ? fmt::format("{}", whole) : fmt::format("{} + {}/n", whole, sliced);
}

constexpr int columns = 4;

/// The cell of the optimizer `name` in a column of the table: f32, or what is kept in mixed
/// precision.
std::string cell(const std::string& name, int column, const programs::TrainingOptions& options) {
  if (column == 0) return cell(*programs::find(name), f32, options);
  constexpr MasterWeights kept[] = {MasterWeights::copy, MasterWeights::remainders,
                                    MasterWeights::none};
  return cell(*programs::find(name), programs::mixed(bf16, kept[column - 1]), options);
}

struct Line {
  std::string name;  ///< of an optimizer
  programs::TrainingOptions options = {};
  std::string label = "`" + name + "`";
};

std::vector<Line> lines() {
  std::vector<Line> all;
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with != nullptr) all.push_back({std::string(shipped.name)});
  }
  all.push_back({"adamw", {.max_norm = 1}, "`adamw` with `max_norm` or `loss_scaling`"});
  return all;
}

/// Optimizers with the same cells are one row.
std::string table() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Line& line : lines()) {
    std::string cells;
    for (int column = 0; column < columns; ++column)
      cells += " | " + cell(line.name, column, line.options);
    const auto same = std::ranges::find(rows, cells, [](const auto& row) { return row.second; });
    if (same == rows.end()) {
      rows.emplace_back(line.label, cells);
    } else {
      same->first += ", " + line.label;
    }
  }
  std::string text;
  for (const auto& [names, cells] : rows) text += "| " + names + cells + " |\n";
  return text;
}

std::vector<std::string> split(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream stream(row.substr(2));
  for (std::string one; std::getline(stream, one, '|');)
    cells.push_back(one.substr(0, one.find_last_not_of(' ') + 1));
  for (std::string& one : cells) one.erase(0, one.find_first_not_of(' '));
  return cells;
}

}  // namespace

TEST_CASE("the table of bytes a parameter is what executables allocate") {
  const std::string text = source_text(document);
  const std::size_t begin = text.find(header);
  REQUIRE(begin != std::string::npos);
  const std::size_t first = begin + header.size();
  const std::size_t end = text.find("\n\n", begin) + 1;
  if (std::getenv("COCONET_UPDATE_GOLDEN") != nullptr) {
    check_golden(document, text.substr(0, first) + table() + text.substr(end));
    return;
  }
  std::map<std::string, std::vector<std::string>> rows;  // by label
  std::istringstream known(text.substr(first, end - first));
  for (std::string row; std::getline(known, row);) {
    const std::vector<std::string> cells = split(row);
    REQUIRE(cells.size() == columns + 1);
    std::istringstream labels(cells.front());
    for (std::string label; std::getline(labels, label, ',');)
      rows[label.substr(label.find_first_not_of(' '))] = {cells.begin() + 1, cells.end()};
  }
  CHECK(rows.size() == lines().size());
  for (const Line& line : lines()) {
    INFO(line.label << "; COCONET_UPDATE_GOLDEN=1 writes " << document << " anew");
    REQUIRE(rows.contains(line.label));
    for (int column = 0; column < columns; ++column) {
      if (coconet::test::draw())
        CHECK(rows.at(line.label)[column] == cell(line.name, column, line.options));
    }
  }
}
