// docs/programs.md and docs/schedules.md say what the tables say and show what the library prints.
#include <catch2/catch.hpp>
#include <sstream>

#include "coconet/programs.h"
#include "golden.h"
#include "ir/access.h"
#include "ir/custom_op.h"
#include "sched/documented.h"
#include "sched/plan.h"
#include "sched/shipped.h"
#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;

namespace {

/// The text between "## `heading`" and the next heading.
std::string section(const std::string& text, const std::string& heading) {
  const auto begin = text.find("\n## " + heading + "\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find("\n## ", begin + 1) - begin);
}

/// Checks that every line of the fenced block that begins with `first` is a line of `text`.
void check_excerpt(const std::string& section, const std::string& first, const std::string& text) {
  INFO(text);
  const auto begin = section.find("```\n" + first);
  REQUIRE(begin != std::string::npos);
  const auto body = begin + 4;
  std::istringstream lines(section.substr(body, section.find("```", body) - body));
  for (std::string line; std::getline(lines, line);)
    CHECK_THAT("\n" + text, Contains("\n" + line + "\n"));
}

}  // namespace

TEST_CASE("every transformation has a section with each of its parameters and their choices") {
  const std::string text = source_text("docs/schedules.md");
  for (const sched::Transformation* row : sched::transformations()) {
    INFO(row->name);
    const std::string about = section(text, std::string(row->name));
    CHECK_FALSE(about.empty());
    for (const sched::Parameter& parameter : row->parameters) {
      CHECK_THAT(about, Contains("| `" + std::string(parameter.name) + "` | "));
      CHECK(parameter.required == (about.find("| `" + std::string(parameter.name) +
                                              "` | required |") != std::string::npos));
      for (const std::string_view choice : parameter.choices) {
        if (!choice.empty()) CHECK_THAT(about, Contains("`" + std::string(choice) + "`"));
      }
    }
  }
}

TEST_CASE(
    "the documented schedule, in C++ and JSON, does to the documented program what is shown") {
  const std::string text = source_text("docs/schedules.md");
  const auto json = text.find("```json\n") + 8;
  CHECK(Schedule::parse(text.substr(json, text.find("```", json) - json)).json() ==
        documented_schedule().json());

  const auto programs = documented_schedule().apply(documented_program());
  REQUIRE(programs.size() == 6);
  CHECK_THAT(text, Contains(programs[0].str()));
  CHECK_THAT(text, Contains(sched::print(sched::lower(*ir::graph_of(programs[0])))));
  check_excerpt(section(text, "split"), "  avg.reduce_scatter", programs[1].str());
  check_excerpt(section(text, "reorder"), "  kept", programs[2].str());
  check_excerpt(section(text, "as_slice"), "  m  ", programs[3].str());
  CHECK_THAT(text, Contains(sched::print(sched::lower(*ir::graph_of(programs[5])))));
}

TEST_CASE("every op, dtype, reduction and key of the program format is documented") {
  const std::string text = source_text("docs/programs.md");
  for (const ir::PointwiseRow& row : ir::pointwise_table()) {
    INFO(row.name);
    const std::string name(row.name);
    CHECK((text.find(" " + name + " ") != std::string::npos ||
           text.find("`" + name) != std::string::npos ||
           text.find(" " + name + "`") != std::string::npos));
  }
#define COCONET_STRUCTURAL(name, ...) CHECK_THAT(text, Contains("`" #name "`"));
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
  for (const DType dtype : all_dtypes) CHECK_THAT(text, Contains(std::string(to_string(dtype))));
}

TEST_CASE("the documented definition of an op is that of the test of definitions") {
  const std::string text = source_text("docs/programs.md");
  const std::string tested = source_text("tests/ir/custom_op_test.cpp");
  const auto begin = text.find("const PointwiseOp softplus");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(text.substr(begin, text.find("Value y", begin) - begin));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    CHECK_THAT(tested, Contains(line.substr(line.find_first_not_of(' ')) + "\n"));
  CHECK(count == 11);
}

TEST_CASE("every function that device text may call is documented") {
  const std::string problem = ir::device_text_problem("no_such_name", 1);
  const std::string start = "the functions ";
  const auto begin = problem.find(start);
  REQUIRE(begin != std::string::npos);
  std::istringstream names(problem.substr(begin + start.size()));
  std::string documented;
  for (std::string name; names >> name;)
    documented += (documented.empty() ? "" : " ") + name.substr(0, name.find(','));
  CHECK_THAT(source_text("docs/programs.md"), Contains("the functions `" + documented + "`"));
}

TEST_CASE(
    "the documented program file is tests/programs/ridge.json, and the C++ beside it makes the "
    "same") {
  CHECK_THAT(source_text("docs/programs.md"), Contains(source_text("tests/programs/ridge.json")));
  Program p("ridge", two_ranks());
  const Dim n = p.dim("n", 4096);
  const Value g = p.input("g", f32, {n}, local);
  const Value w = p.state("w", f32, {n}, replicated);
  const Value lr = p.scalar("lr");
  const Value avg = all_reduce(g, mean).named("avg");
  const Value decayed = (w * 0.99).named("decayed");
  const Value scaled = (lr * avg).named("scaled");
  update(w, (decayed - scaled).named("next"));
  p.output("grad_norm", sum(square(avg).named("squares")).named("grad_norm"));
  CHECK(Program::load(std::string(COCONET_SOURCE_DIR) + "/tests/programs/ridge.json").str() ==
        p.str());
}

TEST_CASE("every shipped program and kind of schedule is documented") {
  const std::string about_programs = source_text("docs/programs.md");
  const std::string about_schedules = source_text("docs/schedules.md");
  for (const programs::Shipped& shipped : programs::shipped()) {
    CHECK_THAT(about_programs, Contains("`" + std::string(shipped.name) + "`"));
    for (const std::string_view schedule : shipped.schedules) {
      CHECK_THAT(about_schedules, Contains("| `" + std::string(schedule) + "` |"));
    }
  }
}
