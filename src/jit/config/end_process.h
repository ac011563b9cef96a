// The end of a process that cannot end as others do, since a thread of it will never come back.
#pragma once

#include <functional>
#include <string>

#include "coconet/export.h"

namespace coconet::jit {

/// Ends this process with `code`, as `_exit` does: no handler runs and no thread is waited for.
/// Before, another thread prints `message`, on standard error, and what streams hold. It gets a
/// second for that, since whoever holds a stream may hold it for ever. This one runs `meanwhile`.
[[noreturn]] COCONET_API void end_process(int code, const std::string& message = {},
                                          const std::function<void()>& meanwhile = {});

}  // namespace coconet::jit
