// Sharing the states of another executable.
#include <fmt/format.h>

#include "coconet/error.h"
#include "jit/run/agreement.h"
#include "jit/run/executable_state.h"

namespace coconet {

void Executable::share_states(Executable& from) {
  State& mine = state();
  State* const owner = from.state_.get();
  std::vector<jit::Tensors::Shared> states;
  std::string text;
  jit::together(mine.comm(), [&] {
    if (owner == nullptr) {
      throw BackendError(fmt::format(
          "'{}' cannot share the states of an executable that was moved from; name the one that it "
          "was moved to",
          mine.program.name()));
    }
    if (owner == &mine) {
      throw BackendError(fmt::format(
          "'{}' cannot share states with itself; name another executable", mine.program.name()));
    }
    states = mine.tensors().common_states(owner->tensors());
    for (const State* one : {&mine, owner}) {
      one->runner().require_at_rest();
      one->runner().finish();
    }
    text = fmt::format("{}", owner->number);
    for (const auto& [here, there, moves] : states)
      text += fmt::format("\n{} {} {}", here, there, moves ? "moves" : "stays");
  });
  const jit::Given given[] = {
      {"another owner, or other memory of it,", text,
       fmt::format("'{}', executable {} of the world", owner->program.name(), owner->number)}};
  jit::require_agreement(mine.comm(), "all ranks must share the states of the same executable",
                         given);
  mine.runner().order_with(owner->runner());
  jit::together(mine.comm(),
                [&] { mine.tensors().share(owner->tensors(), states, mine.runner().queue()); });
}

}  // namespace coconet
