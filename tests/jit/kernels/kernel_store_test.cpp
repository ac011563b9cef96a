// Finding kernels together: how often ranks meet for it, and what a batch costs in which one kernel
// does not compile.
#include "jit/kernels/kernel_store.h"

#include <catch2/catch.hpp>

#include <deque>
#include <mutex>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/cache/kernel_cache.h"
#include "jit/comm/access.h"
#include "jit/kernels/obtain_binaries.h"
#include "sched/plan.h"

using namespace coconet;

namespace {

/// A rank that counts how often it meets the others.
class CountingComm final : public jit::Comm {
 public:
  explicit CountingComm(jit::Comm& comm)
      : Comm(comm.kind(), comm.rank(), comm.nodes(), comm.membership(), comm.ranks_per_core(),
             comm.shared_config()),
        comm_(comm) {}
  [[nodiscard]] int meetings() const { return meetings_; }

  void barrier(std::chrono::milliseconds longer) override { met().barrier(longer); }
  std::shared_ptr<jit::PeerMemory> allocate(std::size_t bytes) override {
    return met().allocate(bytes);
  }
  bool any_failed(bool failed, std::uint64_t given) override {
    return met().any_failed(failed, given);
  }
  std::shared_ptr<void> share(std::shared_ptr<void> object) override {
    return met().share(std::move(object));
  }
  void require_nobody_failed() override { comm_.require_nobody_failed(); }
  [[nodiscard]] bool in_one_process() const override { return comm_.in_one_process(); }

 private:
  std::vector<std::string> gather(std::string_view mine, std::string_view) override {
    return met().all_gather(mine);
  }
  std::shared_ptr<jit::Collectives> make_collectives(const std::vector<int>& ranks,
                                                     const Division&) override {
    return met().collectives(ranks);
  }
  jit::Comm& met() {
    ++meetings_;
    return comm_;
  }

  jit::Comm& comm_;
  int meetings_ = 0;
};

/// Takes every text that has no "mistake" in it, and keeps what it was given.
class PickyCompiler final : public jit::Compiler {
 public:
  PickyCompiler() {
    // Of another identity in every run, so that nothing is in the cache.
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    facts_.target = "host";
    facts_.arch = "host";
    facts_.identity = "picky " + std::to_string(now);
  }
  [[nodiscard]] bool has_batches() const override { return true; }
  [[nodiscard]] jit::CompileResult compile(std::string_view source,
                                           std::chrono::milliseconds) const override {
    const std::lock_guard lock(mutex_);
    sources_.emplace_back(source);
    if (source.find("mistake") == std::string_view::npos) return {true, "binary", "", "picky", {}};
    return {false, "", "there is a mistake", "picky", {}};
  }
  [[nodiscard]] const std::vector<std::string>& sources() const { return sources_; }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::string> sources_;
};

/// What comes of kernels that are in no cache, for which one compiler may run: one batch.
struct OneBatch {
  explicit OneBatch(std::initializer_list<std::string> sources) {
    std::vector<const jit::BinaryRequest*> wanted;
    for (const std::string& source : sources) {
      jit::KernelText& text = texts.emplace_back();
      text.name = text.entry = source.substr(0, source.find(','));
      text.source = "// " + source + "\n";
      wanted.push_back(&requests_.emplace_back(compiler, text, config()));
    }
    jit::CompileSlots& slots = jit::cache_of(config()).slots();
    const int before = slots.in_process();
    slots.set(1, 1);
    obtained = jit::obtain_binaries(wanted);
    slots.set(before, before);
  }

  PickyCompiler compiler;
  std::deque<jit::KernelText> texts;
  std::vector<jit::ObtainedBinary> obtained;

 private:
  std::deque<jit::BinaryRequest> requests_;
};

}  // namespace

TEST_CASE("ranks that have loaded all kernels meet once to find them") {
  const Program program = programs::adam(Mesh({{"world", 2}}));
  const auto scheduled = Schedule::load("adam-fused.json").apply(program);
  const auto texts = jit::generate(sched::lower(*ir::graph_of(scheduled.back())));
  std::vector<int> meetings(2);
  World::local(2, [&](World& world) {
    const jit::Platform& platform = jit::host_platform();
    (void)jit::obtain_kernels(jit::comm_of(world), platform, texts, config());
    CountingComm comm(jit::comm_of(world));
    (void)jit::obtain_kernels(comm, platform, texts, config());
    meetings[world.rank()] = comm.meetings();
  });
  CHECK(meetings == std::vector{1, 1});
}

TEST_CASE("of several kernels those that were loaded before are found in memory") {
  const Program program = programs::lamb(Mesh({{"world", 1}}));
  const auto texts = jit::generate(sched::lower(*ir::graph_of(program)));
  REQUIRE(texts.size() > 2);
  const World world = World::self();
  const jit::Platform& platform = jit::host_platform();
  (void)jit::obtain_kernels(jit::comm_of(world), platform, std::span(texts).first(2), config());
  const CacheCounters before = jit::cache_counters();
  (void)jit::obtain_kernels(jit::comm_of(world), platform, texts, config());
  const CacheCounters after = jit::cache_counters();
  CHECK(after.hit_memory - before.hit_memory == 2);
  CHECK(after.miss + after.hit_disk - before.miss - before.hit_disk == texts.size() - 2);
}

TEST_CASE("a batch of which one kernel does not compile is compiled kernel by kernel") {
  const OneBatch batch{"first", "broken, a mistake", "last"};
  REQUIRE(batch.compiler.sources().size() == 4);
  for (const jit::KernelText& text : batch.texts)
    CHECK(batch.compiler.sources().front().find(text.source) != std::string::npos);
  for (const std::size_t good : {0, 2}) {
    CHECK(batch.obtained[good].failure == nullptr);
    CHECK(batch.obtained[good].was_compiled());
    CHECK(batch.obtained[good].binary.payload == "binary");
  }
  REQUIRE(batch.obtained[1].failure != nullptr);
  CHECK_THROWS_WITH(std::rethrow_exception(batch.obtained[1].failure),
                    Catch::StartsWith("kernel 'broken' does not compile.\ncommand: picky\n") &&
                        Catch::EndsWith("\nthe compiler says:\nthere is a mistake"));
}

TEST_CASE("every kernel of a batch gets its binary") {
  const OneBatch batch{"one", "two", "three"};
  REQUIRE(batch.compiler.sources().size() == 1);
  for (const jit::ObtainedBinary& obtained : batch.obtained) {
    CHECK(obtained.failure == nullptr);
    CHECK(obtained.binary.payload == "binary");
  }
}
