// A context with a stack of its own for each number. Those that are under way are a ring, which
// turns go around.
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
  Turns(unsigned count, const std::function<void(unsigned)>& body,
        const std::function<bool()>& enter, const std::function<void()>& leave)
      : count_(count), body_(body), enter_(enter), leave_(leave) {}
  ~Turns() {
    for (const auto& member : members_) immortal<Stacks>().give_back(std::move(member->stack));
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  void run() {
    running = this;
    if (count_ > 0) begin_member();
    while (!ring_.empty()) {
      swapcontext(&home_, &ring_[now_]->context);  // comes back when one is done
      ring_.erase(ring_.begin() + now_);
      if (now_ == static_cast<std::ptrdiff_t>(ring_.size())) now_ = 0;
      leave_();
    }
    running = nullptr;
  }

  void pass() {
    Member& from = *ring_[now_];
    const bool was_last = now_ + 1 == static_cast<std::ptrdiff_t>(ring_.size());
    if (was_last && next_ < count_ && enter_()) begin_member();
    now_ = (now_ + 1) % static_cast<std::ptrdiff_t>(ring_.size());
    if (now_ == 0) sched_yield();
    Member& to = *ring_[now_];
    if (&to != &from) swapcontext(&from.context, &to.context);
  }

 private:
  struct Member {
    ucontext_t context{};
    std::unique_ptr<Stack> stack;
  };

  void begin_member() {
    Member& member = *members_.emplace_back(std::make_unique<Member>());
    member.stack = immortal<Stacks>().take();
    getcontext(&member.context);
    member.context.uc_stack.ss_sp = member.stack->begin();
    member.context.uc_stack.ss_size = Stack::bytes;
    member.context.uc_link = &home_;
    makecontext(&member.context, &begin, 0);
    ring_.push_back(&member);
  }

  // Blocks that wait for nobody run one after the other here.
  static void begin() {
    Turns& turns = *running;
    while (turns.next_ < turns.count_) turns.body_(turns.next_++);
  }

  unsigned count_;
  const std::function<void(unsigned)>& body_;
  const std::function<bool()>& enter_;
  const std::function<void()>& leave_;
  unsigned next_ = 0;  ///< who begins next
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Member*> ring_;  ///< those that are not done
  ucontext_t home_{};
  std::ptrdiff_t now_ = 0;  ///< whose turn it is
};

}  // namespace

void run_in_turns(unsigned count, const std::function<void(unsigned)>& body,
                  const std::function<bool()>& enter, const std::function<void()>& leave) {
  Turns(count, body, enter, leave).run();
}

void give_way() {
  if (running == nullptr) {
    sched_yield();
  } else {
    running->pass();
  }
}

}  // namespace stub
