// ThreadSanitizer finds what a kernel must not lack: programs that run clean as they are end with a
// report when one barrier, or the order of one flag, is taken out of their kernels. What is planted
// is a change to the source that the compiler of kernels gets, by a script in its place; all else
// is as in the other race checks.
#include <set>

#include "jit/platform/planted_compiler.h"
#include "race/programs.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr int races_found = 66;   // ThreadSanitizer's exit code
constexpr int wrong_numbers = 1;  // Catch's, where one test case failed

struct Plant {
  const char* what;
  const char* subject;  ///< the tag of the test case below that runs its kernel
  const char* edit;     ///< for sed
};

const Plant plants[] = {
    {"the block does not wait for its threads before its leader signals", "fused_subject",
     "/^DEVICE bool rank_barrier/,/^}/ s/^  block_barrier(block);$//"},
    {"a signal does not release what was written before", "fused_subject",
     "/^DEVICE void signal/ s/__ATOMIC_RELEASE/__ATOMIC_RELAXED/"},
    {"who observes a signal does not acquire what was written before", "fused_subject",
     "/^DEVICE u64 observe/ s/__ATOMIC_ACQUIRE/__ATOMIC_RELAXED/"},
    {"ranks do not wait for each other at the end", "fused_subject",
     "/^  rank_barrier(block, a.sync, 1);$/d"},
    {"a warp's result is written where others still read the last one", "reduction_subject",
     R"(/^DEVICE T block_total/,/^}/ )"
     R"({ /^  block_barrier/ { N; s/.*\n\(  if (block.thread\)/\1/ } })"},
    {"warps' results are read before they are written", "reduction_subject",
     R"(/^DEVICE T block_total/,/^}/ { /^  block_barrier/ { N; s/.*\n\(  T all\)/\1/ } })"},
    {"a group's total is read before it is written", "sums_subject",
     "/^DEVICE void combine/,/^}/ { /of_groups.place. = totals/ { n; d } }"},
    {"a group's total is written where another one still reads the last one", "sums_subject",
     R"(/^DEVICE void combine/,/^}/ { /^    block_barrier/ { N; s/.*\n\(  });\)/\1/ } })"},
    {"a tile's segment counts as done before all threads have left their totals", "sums_subject",
     "/^DEVICE bool completes_tile/,/^}/ s/^  block_barrier(block);$//"},
    {"every block of a rank sends the rank's totals, not the last one", "norms_subject",
     R"(s/^    last = arrive(arrived) + 1 == u64(parts);$//)"},
    {"the last block does not see the totals of the others", "norms_subject",
     "/^DEVICE u64 arrive/ s/__ATOMIC_ACQ_REL/__ATOMIC_RELAXED/"},
    {"a message is announced before all threads have written it", "mail_subject",
     R"(s/^  if (!all_in_block(block, reader.ok)) return false;$//)"},
    {"the flag of a message does not release it", "mail_subject",
     "s/^    signal(flag, tag);$/    fills ? store_relaxed(flag, tag) : signal(flag, tag);/"},
    {"a slot is filled again while it may still be read", "mail_subject",
     "s/look_until(sync, peer, flag, due);$/room ? due : look_until(sync, peer, flag, due);/"},
    {"a word of data and flag is not stored at once", "ll_subject",
     "/^struct ll {/,/^};/ s/store_relaxed(to + cell, made);$/"
     "for (int k = 0; k < at_once; ++k) to[cell + k] = made[k];/"},
    {"the flag of a line does not release it", "ll128_subject",
     "/^DEVICE void store_lines/,/^}/ s/signal(/store_relaxed(/"},
    {"the flag of a line is raised before all lanes have stored their data", "ll128_subject",
     "/^DEVICE void store_lines/,/^}/ { /^  wait_at</,/;$/d }"},
    {"lanes read a line whose flag only the last of them has seen", "ll128_subject",
     "/^DEVICE u64 load_lines/,/^}/ { /^  look();/d; s/of_last_lane(block, "
     "look())/of_last_lane(block, "
     "block.thread % TEAM == TEAM - 1 ? look() : 0)/ }"},
    {"who is told of a tile does not see what was written to it", "tiles_subject",
     "/^DEVICE void add_release/ s/__ATOMIC_RELEASE/__ATOMIC_RELAXED/"},
    {"a step does not wait for the tiles that it takes", "tiles_subject",
     "s/^    ok = wait_for_tiles.*$//"},
};

ChildOutput run_planted(const std::string& subject, std::string_view edit) {
  const PlantedCompiler compiler(edit);
  return run_test_case(subject, "TSAN_OPTIONS=halt_on_error=1 " + compiler.environment());
}

}  // namespace

TEST_CASE("a fused collective", "[.fused_subject]") {
  require_no_race(subject_of("all_reduce with computation", 2));
}

TEST_CASE("reductions", "[.reduction_subject]") {
  require_no_race(softmax_rows(2), reduction_race_sizes);
}

TEST_CASE("sums of rows and columns", "[.sums_subject]") {
  require_no_race(sums(2), reduction_race_sizes);
}

TEST_CASE("reductions inside a collective", "[.norms_subject]") {
  require_no_race(subject_of("all_reduce with reductions inside, one after the other", 2));
}

// One way only: what comes back would order what is written after it.
TEST_CASE("mailboxes", "[.mail_subject]") {
  require_no_race(subject_of("broadcast with computation", 2, knobs_of("ring", "simple")),
                  long_race_sizes);
}

TEST_CASE("words with flags", "[.ll_subject]") {
  require_no_race(subject_of("broadcast with computation", 2, knobs_of("ring", "ll")));
}

TEST_CASE("lines with flags", "[.ll128_subject]") {
  require_no_race(subject_of("broadcast with computation", 2, knobs_of("ring", "ll128")));
}

TEST_CASE("kernels that run at once", "[.tiles_subject]") {
  const programs::Shipped& shipped = *programs::find("pipeline_block");
  const int ranks = shipped.stages;
  require_no_race({shipped.build(shipped.mesh(ranks), f32),
                   Schedule::load("pipeline_block-overlapped.json"), ranks},
                  {{{"B", 3}, {"S", 5}, {"H", 37}}});
}

TEST_CASE("kernels with nothing planted run clean") {
  std::set<std::string> subjects;
  for (const Plant& plant : plants) subjects.insert(plant.subject);
  for (const std::string& subject : subjects) {
    const ChildOutput child = run_planted(subject, "");
    INFO(child.text);
    CHECK(child.code == 0);
    CHECK(child.text.find("ThreadSanitizer") == std::string::npos);
  }
}

TEST_CASE("a race that is planted in a kernel is found") {
  for (const Plant& plant : plants) {
    if (!draw()) continue;
    ChildOutput child = run_planted(plant.subject, plant.edit);
    // A rank that runs far ahead may signal what a peer reads too late, which is then wrong and no
    // race: once more.
    for (int again = 0; again < 4 && child.code == wrong_numbers; ++again)
      child = run_planted(plant.subject, plant.edit);
    INFO(plant.what);
    INFO(child.text);
    CHECK(child.code == races_found);
    CHECK(child.text.find("WARNING: ThreadSanitizer: data race") != std::string::npos);
  }
}
