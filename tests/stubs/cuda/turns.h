// What runs at once on one thread, in turns: the blocks of a launch, which may wait for each other.
// A thread for each would spend most of its time in being started and in yielding.
#pragma once

#include <functional>

namespace stub {

/// Runs `body` with every number below `count`, in this order. One that gives way goes on when the
/// others had their turns, among them a next one, which begins if `enter()` is true; `leave()`
/// follows when one of those has ended and none is left to begin. The first one enters unasked.
void run_in_turns(unsigned count, const std::function<void(unsigned number)>& body,
                  const std::function<bool()>& enter, const std::function<void()>& leave);

/// Lets the others of this thread go on, and other threads after a round of them.
void give_way();

}  // namespace stub
