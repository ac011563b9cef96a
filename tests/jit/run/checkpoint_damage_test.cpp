// What is wrong with checkpoints on disk: damage is found and named, and never takes the one before
// with it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "captured_stderr.h"
#include "child_process.h"
#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "jit/run/checkpoint_checks.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
namespace fs = std::filesystem;

namespace {

const std::vector<StateOf> some_states{{"x", f32, {7}, replicated},
                                       {"y", boolean, {3}, replicated}};

/// A checkpoint of those states.
struct Saved {
  ScratchDirectory scratch;
  World world = World::self();
  Executable step = compile_states(world, some_states);
  const fs::path path = scratch.path() / "c";

  explicit Saved(const Metadata& metadata = {}) {
    write_known(step, world, some_states);
    step.save(path, {.metadata = metadata});
  }
  /// What is said of it where it is loaded.
  [[nodiscard]] std::string said() {
    return refusal<CheckpointError>([&] { (void)step.load(path); });
  }
};

}  // namespace

TEST_CASE("a checkpoint with any byte changed is refused, naming the file and the byte") {
  Saved saved(Metadata{{"step", "7"}});
  for (const char* name : {"checkpoint.json", "rank-00000.safetensors"}) {
    const fs::path file = saved.path / name;
    const std::string bytes = read_file(file);
    std::fstream in_place(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](std::size_t at, char byte) {
      in_place.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    };
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      put(i, static_cast<char>(bytes[i] ^ (1 << i % 8)));
      const std::string said = saved.said();
      put(i, bytes[i]);
      if (said.starts_with("'" + file.string() + "' is damaged at byte ")) continue;
      FAIL("byte " << i << " of " << name << ": " << said);
    }
  }
  (void)saved.step.load(saved.path);
  CHECK_NOTHROW(require_known(saved.step, saved.world, some_states));
}

TEST_CASE("a checkpoint that is cut short anywhere, or longer, is refused") {
  Saved saved;
  for (const char* name : {"checkpoint.json", "rank-00000.safetensors"}) {
    const fs::path file = saved.path / name;
    const std::string bytes = read_file(file);
    for (std::size_t length = bytes.size() + 1; length-- > 0;) {
      fs::resize_file(file, length == bytes.size() ? length + 1 : length);
      const std::string said = saved.said();
      if (said.starts_with("'" + file.string() + "' is damaged at byte ")) continue;
      FAIL(length << " bytes of " << name << ": " << said);
    }
    fs::remove(file);
    CHECK(saved.said() == "'" + file.string() + "' is damaged at byte 0: it is missing");
    write_bytes_to(file, bytes);
  }
  CHECK(saved.said() == "(accepted)");
}

TEST_CASE("damage in one rank's part is an error on every rank") {
  const ScratchDirectory scratch;
  const auto ends = outcomes_of(3, [&](World& world) {
    Executable step = compile_number(world, 6);
    save_number(step, scratch.path(), 1);
    if (world.rank() == 0) {
      const fs::path file = scratch.path() / "1/rank-00001.safetensors";
      std::string bytes = read_file(file);
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      write_bytes_to(file, bytes);
    }
    world.barrier();
    (void)step.load(scratch.path() / "1");
  });
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    CHECK(ends[rank].kind == (rank == 1 ? "CheckpointError" : "CommError"));
    CHECK_THAT(ends[rank].what, Catch::Contains("rank-00001.safetensors' is damaged at byte 0: "
                                                "the 4104 bytes from there on have the checksum"));
  }
}

TEST_CASE("a manifest that lies is refused before anything is read or allocated") {
  Saved saved;
  const fs::path file = saved.path / "checkpoint.json";
  const std::string text = read_file(file);
  const auto said = [&](const std::string& manifest) {
    write_bytes_to(file, signed_again(manifest));
    return saved.said();
  };
  REQUIRE(said(text) == "(accepted)");
  const std::string x_part = R"({"file":0,"copy":0,"begin":[0],"extent":[7],"offset":4096})";
  const struct {
    const char *from, *to, *sentence;
  } lies[] = {
      {"rank-00000.safetensors", "../../../etc/passwd",
       "files must be called 'rank-00000.safetensors' to 'rank-00000.safetensors', in that order"},
      {"rank-00000.safetensors", "rank-00000\\u0000.safetensors", "files must be called"},
      {R"("bytes":4127)", R"("bytes":99999999999999)", "99999999999999 bytes have 1 checksums"},
      {R"("bytes":4127)", R"("bytes":99999999999999999999999)", "a number is above"},
      {R"("bytes":4127)", R"("bytes":-1)", "there must be a whole number"},
      {R"("bytes":4127)", R"("bytes":4.5)", "there must be a ','"},
      {R"("bytes":4127)", R"("bytes":"4127")", "there must be a whole number"},
      {R"("bytes":4127)", R"("bytes":4128)", "the parts in 'rank-00000.safetensors' end at 4127"},
      {R"("data":4096)", R"("data":0)", "elements must begin at a multiple of 4096 bytes"},
      {R"("ranks":1)", R"("ranks":0)", "there must be ranks"},
      {R"("ranks":1)", R"("ranks":1000000000000)", "a number is above"},
      {R"("shape":[7])", R"("shape":[8])", "the parts of 'x' must have each of its elements once"},
      {R"("shape":[7])", R"("shape":[1000000000000000000,1000000000000000000])",
       "a shape has too many elements"},
      {R"("extent":[7])", R"("extent":[8])", "a part of 'x' is not in its shape"},
      {R"("extent":[7])", R"("extent":[7,1])", "a part of 'x' is not in its shape"},
      {R"("offset":4096)", R"("offset":0)", "a part must begin at 4096"},
      {R"("offset":4096)", R"("offset":4127)", "a part of 'x' is beyond its file"},
      {R"("offset":4124)", R"("offset":4120)", "a part must begin at 4124"},
      {R"("name":"y")", R"("name":"x")", "'x' is the name of something else"},
      {R"("name":"y")", R"("name":"__metadata__")", "is the name of something else"},
      {R"("name":"y")", "\"name\":\"\xc0\x80\"", "a string is not UTF-8"},
      {R"("name":"y")", R"("name":"\ud800")", "a string has an escape that is none of checkpoints"},
      {R"("name":"y")", "\"name\":\"\n\"", "a string has a control character"},
      {R"("dtype":"F32")", R"("dtype":"F8")", "there is no dtype 'F8'"},
      {R"("dtype":"F32")", R"("dtype":"I32")", "(mismatch)"},
      {R"("copies":1)", R"("copies":2)", "a number is above 1"},
      {R"("copies":1)", R"("copies":0)", "there must be copies"},
      {R"("file":0)", R"("file":1)", "there are 1 files"},
      {R"("metadata":{})", R"("metadata":{"a":"1","a":"2"})", "there are two metadata 'a'"},
      {R"("metadata":{})", R"("metadata":{"a":1})", "there must be a '\"'"},
      {R"("metadata":{})", R"("more":{})", "there must be the member 'metadata'"},
      {R"("version":1)", R"("version":2)", "its version must be 1"},
  };
  for (const auto& lie : lies) {
    INFO(lie.from << " -> " << lie.to);
    const std::string found = said(replaced(text, lie.from, lie.to));
    if (std::string_view(lie.sentence) == "(mismatch)") {
      CHECK_THAT(found, Catch::Contains("The state 'x' is f32 [7] as a whole, and i32 [7] in"));
    } else {
      CHECK_THAT(found, Catch::Contains("' is damaged at byte ") && Catch::Contains(lie.sentence));
    }
  }
  saved.step = compile_states(saved.world, {some_states[0]});  // which has no y
  CHECK_THAT(said(replaced(text, R"("name":"y")", R"("name":"z")")),
             Catch::Contains("its header is not that of the parts that 'checkpoint.json' lists"));
  const std::string half = R"({"file":0,"copy":0,"begin":[0],"extent":[4],"offset":4096},)"
                           R"({"file":0,"copy":0,"begin":[3],"extent":[3],"offset":4112})";
  CHECK_THAT(said(replaced(text, x_part, half)),
             Catch::Contains("the parts of 'x' must have each of its elements once"));
  const std::string two = R"({"file":0,"copy":0,"begin":[0],"extent":[4],"offset":4096},)"
                          R"({"file":0,"copy":0,"begin":[4],"extent":[3],"offset":4112})";
  CHECK_THAT(said(replaced(text, x_part, two)),
             Catch::Contains("a file must have one part of a tensor, not two"));
  CHECK_THAT(said(replaced(text, R"("shape":[7])", "\"shape\":" + std::string(100'000, '['))),
             Catch::Contains("there must be a whole number"));
}

TEST_CASE(
    "a manifest with any changes under a right checksum is refused, or taken for what it is") {
  Saved saved(Metadata{{"a", "b"}});
  const fs::path file = saved.path / "checkpoint.json";
  const std::string text = read_file(file);
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string changed = text;
    for (int change = 0; change <= round % 3; ++change) {
      const std::size_t at = random() % (changed.size() - 30);
      if (random() % 2 == 0) {
        changed[at] = "0123456789{}[]\",:\\ex"[random() % 21];
      } else {  // a piece of it elsewhere, or none
        const std::size_t from = random() % (changed.size() - 30);
        changed.replace(at, random() % 20, changed.substr(from, random() % 30));
      }
    }
    if (changed.size() < 20) continue;
    {
      std::fstream in_place(file, std::ios::binary | std::ios::in | std::ios::out);
      in_place << signed_again(changed);
    }
    fs::resize_file(file, changed.size());
    refused += saved.said() == "(accepted)" ? 0 : 1;
  }
  CHECK(refused > 2000);
}

TEST_CASE("a bool that is neither 0 nor 1 is refused where its checksum is right") {
  Saved saved;
  const fs::path file = saved.path / "rank-00000.safetensors";
  std::string bytes = read_file(file);
  const auto sum = [&] { return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size())); };
  const std::string before = sum();
  bytes.back() = 2;
  write_bytes_to(file, bytes);
  const fs::path manifest = saved.path / "checkpoint.json";
  write_bytes_to(manifest, signed_again(replaced(read_file(manifest), before, sum())));
  CHECK(saved.said() ==
        "'" + file.string() + "' is damaged at byte 4126: a bool is 2; it is 0 or 1");
}

TEST_CASE("the newest checkpoint that is whole is loaded, and the log says what was left out") {
  const ScratchDirectory scratch;
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = compile_number(world);
    REQUIRE_ON_RANK(!step.load_latest(scratch.path() / "not there", {.may_be_first_start = true}));
    REQUIRE_ON_RANK(!step.load_latest(scratch.path()));
    for (int number = 1; number <= 3; ++number) save_number(step, scratch.path(), number);
    REQUIRE_ON_RANK(step.load_latest(scratch.path())->metadata.at("n") == "3");
  }));
  const fs::path file = scratch.path() / "3/rank-00001.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  fs::remove(scratch.path() / "2/checkpoint.json");
  const jit::CapturedStderr log;
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = compile_number(world);
    REQUIRE_ON_RANK(step.load_latest(scratch.path())->metadata.at("n") == "1");
    REQUIRE_ON_RANK(whole_of<std::int32_t>(step, "n") == std::vector<std::int32_t>(5, 1));
    save_number(step, scratch.path(), 4);  // which is newer than the damaged ones
    REQUIRE_ON_RANK(step.load_latest(scratch.path())->metadata.at("n") == "4");
  }));
  CHECK(log.count("the checkpoint '" + (scratch.path() / "3").string() +
                  "' is left out, and the one before it taken: '" + file.string() +
                  "' is damaged at byte 4103: it has 4103 bytes, and 4104 were saved") == 1);
  CHECK(log.count("the checkpoint '" + (scratch.path() / "2").string() + "' is left out: '" +
                  (scratch.path() / "2/checkpoint.json").string() +
                  "' is damaged at byte 0: it is missing") == 2);
  fs::remove_all(scratch.path() / "4");
  fs::resize_file(scratch.path() / "1/rank-00000.safetensors", 9);
  World world = World::self();
  Executable step = compile_number(world);
  CHECK_THAT(refusal<CheckpointError>([&] { (void)step.load_latest(scratch.path()); }),
             Catch::StartsWith("Every checkpoint in '" + scratch.path().string() + "' is damaged"));
}

TEST_CASE("the last few checkpoints of the program are kept, and nothing else is touched") {
  const ScratchDirectory scratch;
  const World world = World::self();
  Executable step = compile_number(world);
  Program other("other", Mesh::over(world));
  (void)other.state("n", i32, {5}, replicated);
  Executable stranger = compile(other, Schedule(), world);
  save_number(stranger, scratch.path(), 100);
  fs::create_directory(scratch.path() / "notes");
  for (int number = 8; number <= 12; ++number) save_number(step, scratch.path(), number, 3);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"10", "100", "11", "12", "notes"});
  save_number(step, scratch.path(), 10, 2);  // saved again, it is the newest
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"10", "100", "12", "notes"});
  CHECK(step.load_latest(scratch.path())->metadata.at("n") == "10");
}

TEST_CASE("the next save removes what killed ones have left, but not what one is writing") {
  const ScratchDirectory scratch;
  const World world = World::self();
  Executable step = compile_number(world);
  const fs::path dead = scratch.path() / ".coconet-checkpoint-dead",
                 live = scratch.path() / ".coconet-checkpoint-live";
  for (const fs::path& path : {dead, live}) {
    fs::create_directory(path);
    write_bytes_to(path / "rank-00000.safetensors", "half");
  }
  const int lock = open(live.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(flock(lock, LOCK_EX) == 0);
  save_number(step, scratch.path(), 1);
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(live / "rank-00000.safetensors"));
  close(lock);
  save_number(step, scratch.path(), 2);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"1", "2"});
}

TEST_CASE("a disk that is full ends a save on every rank and leaves the checkpoint before") {
  const ScratchDirectory scratch;
  std::vector<RankOutcome> ends(2);
  World::local(2, [&](World& world) {
    Executable step = compile_number(world, 3'000'000);
    save_number(step, scratch.path(), 1);
    if (world.rank() == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{5'000'000, RLIM_INFINITY};  // stands in for a full disk
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    world.barrier();
    ends[static_cast<std::size_t>(world.rank())] =
        outcome_of([&] { save_number(step, scratch.path(), 2); });
    world.barrier();
    if (world.rank() == 0) {
      const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &none);
    }
    require_on_rank(step.load_latest(scratch.path())->metadata.at("n") == "1", "the one before");
  });
  for (const RankOutcome& end : ends) {
    CHECK_THAT(end.what, Catch::Contains("Cannot write '") &&
                             Catch::Contains(".safetensors': File too large."));
  }
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"1"});
}

TEST_CASE("a job that is killed while it saves leaves a checkpoint that is whole") {
  const ScratchDirectory scratch;
  const fs::path checkpoints = scratch.path() / "checkpoints", started = scratch.path() / "started";
  int last = 0, leftovers = 0;
  for (int round = 0; round < 12; ++round) {
    fs::remove(started);
    const std::string command =
        "CHECKPOINTS='" + checkpoints.string() + "' STARTED='" + started.string() + "' exec '" +
        fs::read_symlink("/proc/self/exe").string() + "' '[saves_for_ever]' >/dev/null 2>&1";
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!fs::exists(started) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 7'700 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    REQUIRE(fs::exists(started));
    for (const std::string& name : names_in(checkpoints))
      leftovers += name.starts_with(".coconet-checkpoint-") ? 1 : 0;
    World world = World::self();
    Executable step = compile_number(world, 1'000'000);
    const std::optional<Checkpoint> found = step.load_latest(checkpoints);
    REQUIRE(found);
    const int number = std::stoi(found->metadata.at("n"));
    CHECK(number > last);
    last = number;
    CHECK(elements_of<std::int32_t>(step, "n") == std::vector<std::int32_t>(1'000'000, number));
  }
  CHECK(leftovers > 0);
  World world = World::self();
  Executable step = compile_number(world, 1'000'000);
  save_number(step, checkpoints, last + 1, 1);
  CHECK(names_in(checkpoints) == std::vector<std::string>{std::to_string(last + 1)});
}
