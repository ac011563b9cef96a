// Jobs that forked processes share, for a library that does one thing at a time in each process.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace coconet::test {

/// `job(i)` for every i below `count`, in `processes` processes forked from this one, which must
/// have no other threads. Returns what jobs returned unless it is empty, those of a process in one
/// text, and a sentence for each process that ended before there were no more jobs, whose last job
/// may not be done.
[[nodiscard]] std::vector<std::string> run_forked(
    std::size_t count, int processes, const std::function<std::string(std::size_t)>& job);

}  // namespace coconet::test
