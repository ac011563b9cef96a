// Processes for tests: forked from this one, which must have one thread at that moment.
#pragma once

#include <sys/types.h>

#include <functional>
#include <new>
#include <string>
#include <utility>

namespace coconet::jit {

/// A forked process that runs a function and ends; killed with the object if it still runs.
class Child {
 public:
  explicit Child(const std::function<void()>& body);
  ~Child();
  Child(Child&& other) noexcept : process_(std::exchange(other.process_, -1)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;

  void signal(int number) const;
  /// Waits for its end. False when it died, or `body` threw.
  bool finish();

 private:
  pid_t process_ = -1;
};

/// A door for processes that are forked while it is shut.
class StepSync {
 public:
  StepSync();
  ~StepSync();
  StepSync(const StepSync&) = delete;
  StepSync& operator=(const StepSync&) = delete;
  void open();
  void pass();  ///< waits until it is open

 private:
  int read_end_ = -1;
  int write_end_ = -1;
};

/// Runs body(0) ... body(count - 1), each in a process of its own, from the same moment on. How
/// many failed.
int failures_of(int count, const std::function<void(int)>& body);

/// What `body` returns in a process of its own, or "died", or what it threw.
std::string in_child(const std::function<std::string()>& body);

[[nodiscard]] void* map_shared(std::size_t bytes);
void unmap_shared(void* memory, std::size_t bytes);

/// Memory that forked processes share with this one.
template <class Value>
class Shared {
 public:
  Shared() : value_(new (map_shared(sizeof(Value))) Value()) {}
  ~Shared() { unmap_shared(value_, sizeof(Value)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  Value& operator*() const { return *value_; }
  Value* operator->() const { return value_; }

 private:
  Value* value_;
};

}  // namespace coconet::jit
