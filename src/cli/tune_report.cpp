// Drawing the page: charts as SVG in the text, so that no script runs.
#include "cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cli/dot.h"
#include "coconet/error.h"
#include "ir/extents.h"
#include "sched/schedule.h"

namespace coconet::cli {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --line: #8884; --paper: #fff; --ink: #1b1f24; --soft: #5b6470;
  --panel: #f6f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #e7eaee; --soft: #a3acb8; --panel: #1d2127; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: .5rem 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p { color: var(--soft); margin: .3rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap }
th:first-child, td:first-child { text-align: left }
svg.chart { width: 100%; min-width: 34rem; height: auto; background: var(--panel);
  border-radius: 8px }
svg.chart text { fill: var(--soft); font: 12px system-ui, sans-serif }
svg.chart .grid { stroke: var(--line) }
svg.chart .mark { stroke: var(--soft); stroke-dasharray: 3 4 }
.c0 { --c: #6b7280 } .c1 { --c: #d9822b } .c2 { --c: #2f7fd1 } .c3 { --c: #2e9e5b }
.c4 { --c: #b04fc4 } .c5 { --c: #c9403a } .c6 { --c: #0d9aa6 } .c7 { --c: #9a7d0a }
path.line { fill: none; stroke: var(--c); stroke-width: 2 } circle { fill: var(--c) }
svg.chart text.name { fill: var(--c); font-weight: 600 }
ol { padding-left: 0; list-style: none } ol li { margin: .4rem 0; overflow-wrap: anywhere }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 3px;
  background: var(--c); margin-right: .5em }
code { font: 13px/1.4 ui-monospace, monospace }
details { margin-left: 1rem } summary { cursor: pointer; overflow-wrap: anywhere }
.leaf { margin-left: 2rem; overflow-wrap: anywhere }
.ms { color: var(--soft); margin-left: .5em; white-space: nowrap }
.picture { background: #fff; border-radius: 8px; overflow-x: auto; padding: .5rem }
)";

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '&'   ? "&amp;"
            : c == '<' ? "&lt;"
            : c == '>' ? "&gt;"
            : c == '"' ? "&quot;"
                       : std::string(1, c);
  }
  return safe;
}

/// "3.2 us", "4.1 ms"
std::string time_text(double ms) {
  return ms < 0.1 ? fmt::format("{:.3g} us", 1000 * ms) : fmt::format("{:.3g} ms", ms);
}

/// A logarithmic axis over pixels.
struct Axis {
  double least = 1, most = 10, from = 0, to = 1;
  [[nodiscard]] double at(double value) const {
    const double share = std::log(value / least) / std::log(most / least);
    return from + share * (to - from);
  }
  /// Powers of ten, from the one at or below `least` to the one at or above `most`.
  [[nodiscard]] std::vector<double> decades() const {
    std::vector<double> all;
    for (double power = std::floor(std::log10(least)); power <= std::ceil(std::log10(most));
         ++power)
      all.push_back(std::pow(10, power));
    return all;
  }
};

/// From the power of ten at or below all `values` to the one at or above them.
Axis axis_of(const std::vector<double>& values, double from, double to) {
  const auto [least, most] = std::ranges::minmax(values);
  Axis axis{std::pow(10, std::floor(std::log10(least))), std::pow(10, std::ceil(std::log10(most))),
            from, to};
  if (axis.least == axis.most) axis.most *= 10;
  return axis;
}

constexpr double width = 720, height = 360, left = 64, right = 690, top = 16, bottom = 320;

std::string grid_of(const Axis& y) {
  std::string text;
  for (const double ms : y.decades()) {
    text += fmt::format(
        "<line class='grid' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/><text x='{}' y='{:.1f}' "
        "text-anchor='end'>{}</text>\n",
        left, right, y.at(ms), y.at(ms), left - 6, y.at(ms) + 4, time_text(ms));
  }
  return text;
}

std::string open_chart(const std::string& label) {
  return fmt::format(
      "<div class='wide'><svg class='chart' viewBox='0 0 {} {}' role='img' aria-label='{}'>\n",
      width, height, label);
}

class Report {
 public:
  Report(const Program& program, const jit::Tuned& tuned) : program_(program), tuned_(tuned) {
    shown_ = lettered(tuned);
    if (shown_.size() > most_shown) shown_.resize(most_shown);
  }

  [[nodiscard]] std::string str(const std::string& device) const {
    std::string text = fmt::format(
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width, initial-scale=1'><title>{0}, tuned</title><style>{1}</style>"
        "</head>\n<body>\n<h1>{0}, tuned</h1>\n<p>{2} ranks, {3}</p>\n",
        escaped(program_.name()), style, program_.mesh().size(), escaped(device));
    text += "<h2>The quickest schedule of every size</h2>\n" + sizes_table() + legend();
    text += "<h2>Time against size</h2>\n" + time_chart();
    text += "<h2>Predicted and measured</h2>\n" + prediction_chart();
    text += "<h2>The search</h2>\n" + counts() + tree();
    text += "<h2>The schedule of the last size</h2>\n" + picture();
    return text + "</body></html>\n";
  }

 private:
  static constexpr std::size_t most_shown = 8;

  [[nodiscard]] std::optional<double> measured(const jit::TunedSize& size,
                                               const jit::Variant& variant) const {
    for (const jit::Trial& trial : size.trials) {
      if (trial.variant == variant) return trial.ms;
    }
    return {};
  }

  [[nodiscard]] std::size_t place_of(const jit::Variant& variant) const {
    return static_cast<std::size_t>(std::ranges::find(shown_, variant) - shown_.begin());
  }

  [[nodiscard]] std::string name_of(const jit::Variant& variant) const {
    const std::size_t place = place_of(variant);
    return place < shown_.size() ? letter(place) : jit::describe(tuned_.space, variant);
  }

  [[nodiscard]] std::string sizes_table() const {
    std::string text =
        "<div class='wide'><table><tr><th>size</th><th>schedule</th><th>time</th><th>over no "
        "schedule</th><th>measured</th><th>rank correlation</th></tr>\n";
    for (const jit::TunedSize& size : tuned_.sizes) {
      text += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td><td>{}</td><td>{:.2f}</td></tr>\n",
          escaped(ir::extents_text(size.sizes)), escaped(name_of(size.best)),
          time_text(size.best_ms), size.unfused_ratio, size.trials.size(),
          jit::rank_correlation(size.trials));
    }
    return text + "</table></div>\n";
  }

  [[nodiscard]] std::string legend() const {
    std::string text = "<ol>\n";
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      text += fmt::format("<li class='c{}'><span class='swatch'></span>{}: <code>{}</code></li>\n",
                          i, letter(i), escaped(jit::describe(tuned_.space, shown_[i])));
    }
    return text + "</ol>\n";
  }

  /// Sizes are apart alike: they double, or are a few that somebody chose.
  [[nodiscard]] double x_of(std::size_t size) const {
    const std::size_t gaps = std::max<std::size_t>(tuned_.sizes.size() - 1, 1);
    return left + 20 + (right - left - 60) * static_cast<double>(size) / static_cast<double>(gaps);
  }

  [[nodiscard]] std::string time_chart() const {
    std::vector<double> all;
    for (const jit::TunedSize& size : tuned_.sizes) {
      for (const jit::Variant& variant : shown_) {
        if (const auto ms = measured(size, variant)) all.push_back(*ms);
      }
    }
    if (all.empty()) return "<p>Nothing was measured.</p>\n";
    const Axis y = axis_of(all, bottom, top);
    std::string text = open_chart("time of the schedules by size") + grid_of(y);
    for (std::size_t i = 0; i < tuned_.sizes.size(); ++i) {
      text += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", x_of(i),
                          bottom + 20, escaped(short_size(tuned_.sizes[i].sizes)));
      if (i > 0 && !(tuned_.sizes[i].best == tuned_.sizes[i - 1].best)) {
        const double x = (x_of(i) + x_of(i - 1)) / 2;
        text += fmt::format(
            "<line class='mark' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'><title>another "
            "schedule is the quickest from here on</title></line>\n",
            x, top, bottom);
      }
    }
    for (std::size_t i = 0; i < shown_.size(); ++i) text += line_of(i, y);
    return text + "</svg></div>\n<p>Dashed: from there on another schedule is the quickest.</p>\n";
  }

  [[nodiscard]] std::string line_of(std::size_t index, const Axis& y) const {
    std::string path, points;
    double last_x = 0, last_y = 0;
    for (std::size_t i = 0; i < tuned_.sizes.size(); ++i) {
      const auto ms = measured(tuned_.sizes[i], shown_[index]);
      if (!ms) continue;
      last_x = x_of(i);
      last_y = y.at(*ms);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", last_x, last_y);
      points += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3.5'><title>{}, {}: {}</title></circle>", last_x,
          last_y, letter(index), escaped(ir::extents_text(tuned_.sizes[i].sizes)), time_text(*ms));
    }
    if (path.empty()) return {};
    return fmt::format(
        "<g class='c{}'><path class='line' d='{}'/>{}<text class='name' x='{:.1f}' "
        "y='{:.1f}'>{}</text></g>\n",
        index, path, points, last_x + 8, last_y + 4, letter(index));
  }

  /// The extents that are not the same everywhere.
  [[nodiscard]] std::string short_size(const Sizes& sizes) const {
    std::string text;
    for (const auto& [name, extent] : sizes) {
      const auto differs = [&name = name, extent = extent](const jit::TunedSize& other) {
        const auto found = other.sizes.find(name);
        return found == other.sizes.end() || found->second != extent;
      };
      if (!std::ranges::any_of(tuned_.sizes, differs)) continue;
      const double power = std::log2(static_cast<double>(extent));
      text +=
          (text.empty() ? "" : ", ") + name + "=" +
          (power == std::floor(power) && power > 6 ? fmt::format("2^{}", static_cast<int>(power))
                                                   : std::to_string(extent));
    }
    return text;
  }

  [[nodiscard]] std::string prediction_chart() const {
    std::vector<double> all;
    for (const jit::TunedSize& size : tuned_.sizes) {
      for (const jit::Trial& trial : size.trials) {
        if (trial.predicted_us == 0) continue;
        all.push_back(trial.ms);
        all.push_back(trial.predicted_us / 1000);
      }
    }
    if (all.empty()) return {};
    const Axis y = axis_of(all, bottom, top);
    Axis x = y;
    x.from = left;
    x.to = right;
    std::string text = open_chart("predicted and measured times") + grid_of(y);
    text += fmt::format("<line class='mark' x1='{}' y1='{}' x2='{}' y2='{}'/>\n", left, bottom,
                        right, top);
    for (const double ms : x.decades())
      text += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", x.at(ms),
                          bottom + 20, time_text(ms));
    for (std::size_t i = 0; i < tuned_.sizes.size(); ++i) {
      text += fmt::format("<g class='c{}' opacity='.7'>", i % most_shown);
      for (const jit::Trial& trial : tuned_.sizes[i].trials) {
        if (trial.predicted_us == 0) continue;
        text += fmt::format(
            "<circle cx='{:.1f}' cy='{:.1f}' r='3'><title>{}, {}: predicted {}, "
            "measured {}</title></circle>",
            x.at(trial.predicted_us / 1000), y.at(trial.ms),
            escaped(ir::extents_text(tuned_.sizes[i].sizes)),
            escaped(jit::describe(tuned_.space, trial.variant)),
            time_text(trial.predicted_us / 1000), time_text(trial.ms));
      }
      text += "</g>\n";
    }
    return text +
           "</svg></div>\n<p>Across: predicted; upwards: measured. A point is a schedule at a "
           "size, a colour a size; on the dashed line both are the same.</p>\n";
  }

  [[nodiscard]] std::string counts() const {
    const sched::Space& space = tuned_.space;
    return fmt::format(
        "<p>{} programs generated, of which {} were there and {} had the plan of another: {} "
        "candidates. {} measurements left out by prediction, {} made, {} kernels.</p>\n",
        space.generated, space.same_program, space.same_plan, space.candidates.size(),
        tuned_.left_out.total(), measurements(), tuned_.kernels);
  }

  [[nodiscard]] std::size_t measurements() const {
    std::size_t count = 0;
    for (const jit::TunedSize& size : tuned_.sizes) count += size.trials.size();
    return count;
  }

  /// Schedules by their steps: those that begin alike are under one branch.
  struct Branch {
    std::map<std::string, Branch> next;
    std::optional<std::size_t> candidate;
  };

  [[nodiscard]] std::string tree() const {
    Branch root;
    for (std::size_t i = 0; i < tuned_.space.candidates.size(); ++i) {
      Branch* at = &root;
      for (const sched::Step& step : tuned_.space.candidates[i].steps)
        at = &at->next[sched::to_string(step)];
      at->candidate = i;
    }
    return "<p>Every schedule by its steps, with its time at the last size.</p>\n" +
           branch_text("no steps", root, true);
  }

  [[nodiscard]] std::string branch_text(const std::string& step, const Branch& branch,
                                        bool is_open) const {
    const std::string head = fmt::format("<code>{}</code><span class='ms'>{}</span>", escaped(step),
                                         branch.candidate ? found_at_last(*branch.candidate) : "");
    if (branch.next.empty()) return "<div class='leaf'>" + head + "</div>\n";
    std::string text =
        fmt::format("<details{}><summary>{}</summary>\n", is_open ? " open" : "", head);
    for (const auto& [next_step, next] : branch.next) text += branch_text(next_step, next, false);
    return text + "</details>\n";
  }

  [[nodiscard]] std::string found_at_last(std::size_t candidate) const {
    if (tuned_.sizes.empty()) return {};
    const auto ms = measured(tuned_.sizes.back(), {candidate, {}});
    if (!ms) return "left out";
    return time_text(*ms) +
           (tuned_.sizes.back().best.candidate == candidate ? ", the quickest" : "");
  }

  [[nodiscard]] std::string picture() const {
    if (tuned_.sizes.empty()) return {};
    const Schedule schedule = jit::best_schedule(program_, tuned_, tuned_.sizes.back());
    std::string text =
        "<div class='wide'><pre><code>" + escaped(schedule.json()) + "</code></pre></div>\n";
    try {
      std::string drawn = svg(dot(program_, schedule.apply(program_).back()));
      drawn.erase(0, drawn.find("<svg"));
      return text + "<div class='picture'>" + drawn + "</div>\n";
    } catch (const BackendError& error) {
      return text + "<p>No picture: " + escaped(error.what()) + "</p>\n";
    }
  }

  const Program& program_;
  const jit::Tuned& tuned_;
  std::vector<jit::Variant> shown_;  ///< the program without a schedule, and the winners
};

}  // namespace

std::string letter(std::size_t index) {
  const std::string last(1, static_cast<char>('A' + index % 26));
  return index < 26 ? last : letter(index / 26 - 1) + last;
}

std::vector<jit::Variant> lettered(const jit::Tuned& tuned) {
  std::vector<jit::Variant> all = {jit::Variant{}};
  for (const jit::TunedSize& size : tuned.sizes) {
    if (std::ranges::find(all, size.best) == all.end()) all.push_back(size.best);
  }
  return all;
}

std::string tune_report(const Program& program, const jit::Tuned& tuned,
                        const std::string& device) {
  return Report(program, tuned).str(device);
}

}  // namespace coconet::cli
