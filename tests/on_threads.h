// Threads of a test whose errors are not lost.
#pragma once

#include <exception>
#include <thread>
#include <vector>

namespace coconet::test {

/// Runs body(number) on so many threads at once, and throws what one of them threw.
template <class Body>
void on_threads(int threads, const Body& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  {
    std::vector<std::jthread> running;
    for (int number = 0; number < threads; ++number) {
      running.emplace_back([&, number] {
        try {
          body(number);
        } catch (...) {
          errors[static_cast<std::size_t>(number)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace coconet::test
