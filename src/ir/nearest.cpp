// Suggestions for misspelt names: the known name that takes the fewest typing errors to become the
// given one.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "ir/graph.h"

namespace coconet::ir {

namespace {

/// Longer names are written by programs, which do not mistype, and comparing takes the square of
/// the length.
constexpr std::size_t longest_typed = 256;

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal
// string alignment); something above `limit` where they are more.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    // A swap leads from the row before the last to the next one.
    if (std::ranges::min(row) > limit && std::ranges::min(last) > limit) return limit + 1;
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = 0;
  std::size_t best_prefix = 0;
  for (const std::string& candidate : known) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    // One error in three letters still looks like the same word. Two words that share no letter
    // never do.
    const std::size_t most = std::max<std::size_t>(1, longer / 3);
    if (longer > longest_typed || longer - shorter > most) continue;
    const std::size_t limit = best.empty() ? most : std::min(most, best_distance);
    const std::size_t distance = edit_distance(name, candidate, limit);
    if (distance > limit || distance == longer) continue;
    // Words are more often wrong at their end than at their beginning.
    const std::size_t prefix = common_prefix(name, candidate);
    if (best.empty() || distance < best_distance ||
        (distance == best_distance && prefix > best_prefix)) {
      best = candidate;
      best_distance = distance;
      best_prefix = prefix;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known,
                       const std::string& otherwise) {
  const std::string near = nearest(name, known);
  return near.empty() ? otherwise : "; did you mean '" + near + "'?";
}

}  // namespace coconet::ir
