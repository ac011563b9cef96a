// A context with a stack of its own for each number. Those that are under way are a ring, which turns go around.
#include "turns.h"

#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "runtime.h"

namespace stub {
namespace {

/// A stack above a page that nobody may touch.
class Stack {
 public:
  Stack() {
    void* const memory = mmap(nullptr, guard() + bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
    mprotect(memory_, guard(), PROT_NONE);
  }
  ~Stack() { munmap(memory_, guard() + bytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  static constexpr std::size_t bytes = std::size_t{1} << 18;
  [[nodiscard]] char* begin() const { return memory_ + guard(); }

 private:
  static std::size_t guard() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

  char* memory_ = nullptr;
};

/// Stacks that nobody uses, for the next launch.
class Stacks {
 public:
  std::unique_ptr<Stack> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Stack>();
    std::unique_ptr<Stack> stack = std::move(free_.back());
    free_.pop_back();
    return stack;
  }
  void give_back(std::unique_ptr<Stack> stack) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(stack));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Stack>> free_;
};

class Turns;
thread_local Turns* running = nullptr;

class Turns {
 public:
  Turns(unsigned count, const std::function<void(unsigned)>& body) : body_(body), ring_(count) {
    for (unsigned number = 0; number < count; ++number) {
      Member& member = ring_[number];
      member.stack = immortal<Stacks>().take();
      member.next = number + 1 == count ? 0 : number + 1;
      member.previous = number == 0 ? count - 1 : number - 1;
      getcontext(&member.context);
      member.context.uc_stack.ss_sp = member.stack->begin();
      member.context.uc_stack.ss_size = Stack::bytes;
      member.context.uc_link = &home_;
      makecontext(&member.context, &begin, 0);
    }
  }
  ~Turns() {
    for (Member& member : ring_) immortal<Stacks>().give_back(std::move(member.stack));
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  void run() {
    running = this;
    for (std::size_t left = ring_.size(); left > 0; --left) {
      swapcontext(&home_, &ring_[now_].context);  // comes back when one is done
      const Member& done = ring_[now_];
      ring_[done.previous].next = done.next;
      ring_[done.next].previous = done.previous;
      now_ = done.next;
    }
    running = nullptr;
  }

  void pass() {
    const unsigned from = now_;
    now_ = ring_[from].next;
    if (now_ <= from) sched_yield();
    if (now_ != from) swapcontext(&ring_[from].context, &ring_[now_].context);
  }

 private:
  struct Member {
    ucontext_t context{};
    std::unique_ptr<Stack> stack;
    unsigned next = 0, previous = 0;  ///< of those that are not done
  };

  static void begin() { running->body_(running->now_); }

  const std::function<void(unsigned)>& body_;
  std::vector<Member> ring_;
  ucontext_t home_{};
  unsigned now_ = 0;  ///< whose turn it is
};

}  // namespace

void run_in_turns(unsigned count, const std::function<void(unsigned)>& body) {
  Turns(count, body).run();
}

void give_way() {
  if (running == nullptr) {
    sched_yield();
  } else {
    running->pass();
  }
}

}  // namespace stub
