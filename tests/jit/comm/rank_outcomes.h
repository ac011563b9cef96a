// What each rank of a local world threw: for tests of what goes wrong, where every rank must hear
// of it.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "coconet/error.h"
#include "coconet/world.h"

namespace coconet::test {

struct RankOutcome {
  std::string kind;  ///< "BackendError"; empty when nothing was thrown
  std::string what;
};

/// The outcome of `body`.
template <class Body>
[[nodiscard]] RankOutcome outcome_of(const Body& body) {
  try {
    body();
  } catch (const ProgramError& error) {
    return {"ProgramError", error.what()};
  } catch (const ScheduleError& error) {
    return {"ScheduleError", error.what()};
  } catch (const CompileError& error) {
    return {"CompileError", error.what()};
  } catch (const CommError& error) {
    return {"CommError", error.what()};
  } catch (const BackendError& error) {
    return {"BackendError", error.what()};
  } catch (const CheckpointError& error) {
    return {"CheckpointError", error.what()};
  } catch (const std::exception& error) {
    return {"another exception", error.what()};
  }
  return {};
}

/// The outcomes of `body` on the ranks of a local world.
[[nodiscard]] inline std::vector<RankOutcome> outcomes_of(int ranks,
                                                          const std::function<void(World&)>& body,
                                                          const Options& options = {}) {
  std::vector<RankOutcome> outcomes(static_cast<std::size_t>(ranks));
  World::local(
      ranks,
      [&](World& world) {
        outcomes[static_cast<std::size_t>(world.rank())] = outcome_of([&] { body(world); });
      },
      options);
  return outcomes;
}

/// Checks that all ranks threw an error of `kind` with the sentence `what`, or one that matches it.
template <class What>
void check_outcomes(const std::vector<RankOutcome>& outcomes, const std::string& kind,
                    const What& what) {
  for (const RankOutcome& one : outcomes) {
    CHECK(one.kind == kind);
    if constexpr (std::is_convertible_v<What, std::string>) {
      CHECK(one.what == what);
    } else {
      CHECK_THAT(one.what, what);
    }
  }
}

}  // namespace coconet::test
