// What runs at once on one thread, in turns: the blocks of a launch, which may wait for each other. A thread for each
// would spend most of its time in being started and in yielding.
#pragma once

#include <functional>

namespace stub {

/// Runs `body` with every number below `count`. All are under way at the same time: one that gives way goes on when the
/// others had their turns.
void run_in_turns(unsigned count, const std::function<void(unsigned number)>& body);

/// Lets the others of this thread go on, and other threads after a round of them.
void give_way();

}  // namespace stub
