// Checkpoints: states come back as they were, on other ranks, under other schedules and layouts.
#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "child_process.h"
#include "elements.h"
#include "jit/run/checkpoint_checks.h"
#include "refusal.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
namespace fs = std::filesystem;

namespace {

void save_known(const World& world, const fs::path& path, const std::vector<StateOf>& states) {
  Executable step = compile_states(world, states);
  write_known(step, world, states);
  step.save(path);
}

void load_known(const World& world, const fs::path& path, const std::vector<StateOf>& states) {
  Executable step = compile_states(world, states);
  (void)step.load(path);
  require_known(step, world, states);
}

std::vector<StateOf> all_layouts() {
  std::vector<StateOf> states;
  for (const auto& some :
       {states_of_all_dtypes("replicated_", replicated), states_of_all_dtypes("rows_", sliced(0)),
        states_of_all_dtypes("columns_", sliced(1)), states_of_all_dtypes("local_", local, true)})
    states.insert(states.end(), some.begin(), some.end());
  states.push_back({"number", f32, {}, replicated});
  states.push_back({"few", f64, {2}, sliced(0)});  // of which some ranks have none
  return states;
}

/// As Python's safetensors reads a file: its tensors' bytes by name.
std::map<std::string, std::string> read_safetensors(const fs::path& file) {
  const std::string bytes = read_file(file);
  std::uint64_t length = 0;
  REQUIRE(bytes.size() >= sizeof length);
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof length, length));
  std::map<std::string, std::string> tensors;
  std::size_t end = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = tensor.at("data_offsets").get<std::vector<std::size_t>>();
    tensors[name] =
        bytes.substr(sizeof length + length + offsets.at(0), offsets.at(1) - offsets.at(0));
    end = std::max(end, offsets.at(1));
  }
  REQUIRE(sizeof length + length + end == bytes.size());
  return tensors;
}

}  // namespace

TEST_CASE("states of every dtype and layout are saved and loaded bit by bit") {
  const std::vector<StateOf> states = all_layouts();
  for (const int ranks : {1, 2, 3}) {
    const ScratchDirectory scratch;
    REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
      save_known(world, scratch.path() / "all", states);
      load_known(world, scratch.path() / "all", states);
    }));
  }
}

TEST_CASE("what 4 ranks save any number of ranks loads, sliced along whatever they like") {
  const std::vector<Layout> layouts{replicated, sliced(0), sliced(1)};
  const ScratchDirectory scratch;
  for (std::size_t saved = 0; saved < layouts.size(); ++saved) {
    const fs::path path = scratch.path() / std::to_string(saved);
    REQUIRE_NOTHROW(World::local(4, [&](World& world) {
      save_known(world, path, states_of_all_dtypes("", layouts[saved]));
    }));
    for (const int ranks : {1, 2, 3, 5}) {
      for (const Layout& layout : layouts) {
        REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
          load_known(world, path, states_of_all_dtypes("", layout));
        }));
      }
    }
  }
}

TEST_CASE("states on a mesh of two axes are saved once and loaded on another mesh") {
  const ScratchDirectory scratch;
  const fs::path path = scratch.path() / "grid";
  const auto grid = [](const char* a, const char* b) {
    return std::vector<StateOf>{{"x", f32, {5, 3}, Layout::on({{a, sliced(1)}, {b, sliced(0)}})},
                                {"y", i16, {7}, Layout::on({{b, sliced(0)}})},
                                {"z", boolean, {7, 2}, Layout::on({{a, sliced(0)}})}};
  };
  REQUIRE_NOTHROW(World::local(4, [&](World& world) {
    const Mesh mesh({{"a", 2}, {"b", 2}});
    Executable step = compile_states(world, mesh, grid("a", "b"));
    write_known(step, world, grid("a", "b"));
    step.save(path);
  }));
  std::map<std::string, std::size_t> bytes;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() != ".safetensors") continue;
    for (const auto& [name, data] : read_safetensors(entry.path())) bytes[name] += data.size();
  }
  CHECK(bytes == std::map<std::string, std::size_t>{{"x", 60}, {"y", 14}, {"z", 14}});
  REQUIRE_NOTHROW(World::local(6, [&](World& world) {
    const Mesh mesh({{"c", 3}, {"d", 2}});
    Executable step = compile_states(world, mesh, grid("d", "c"));
    (void)step.load(path);
    require_known(step, world, grid("d", "c"));
  }));
}

TEST_CASE("a state that is local along one axis comes back to each group of ranks") {
  const ScratchDirectory scratch;
  REQUIRE_NOTHROW(World::local(4, [&](World& world) {
    const Mesh mesh({{"a", 2}, {"b", 2}});
    const std::vector<StateOf> states{
        {"y", f32, {9}, Layout::on({{"a", local}, {"b", sliced(0)}})}};
    Executable step = compile_states(world, mesh, states);
    const std::vector<float> mine(9, static_cast<float>(world.rank() / 2));
    step.write_whole("y", mine);
    step.save(scratch.path() / "local");
    step.write_whole("y", std::vector<float>(9, 5));
    (void)step.load(scratch.path() / "local");
    REQUIRE_ON_RANK(whole_of(step, "y") == mine);
  }));
}

TEST_CASE("scattered states and plain ones load each other's checkpoints") {
  const ScratchDirectory scratch;
  const auto compile_one = [](const World& world, bool scattered,
                              const std::vector<std::int64_t>& lengths) {
    Program program("list", Mesh::over(world));
    const Dim n = program.dim("n", 13);
    const Value w = scattered ? program.scattered_state("w", bf16, n, replicated)
                              : program.state("w", bf16, {n}, sliced(0));
    update(w, w + 1);
    return compile(program, Schedule(), world, {},
                   scattered ? ParameterLists{{"n", lengths}} : ParameterLists{});
  };
  std::vector<BFloat16> elements(13);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = BFloat16(static_cast<double>(i));
  REQUIRE_NOTHROW(World::local(3, [&](World& world) {
    for (const bool first : {false, true}) {
      const fs::path path = scratch.path() / (first ? "scattered" : "plain");
      Executable saver = compile_one(world, first, {3, 1, 9});
      saver.write_whole("w", elements);
      saver.save(path);
      for (const bool second : {false, true}) {
        Executable loader = compile_one(world, second, {6, 5, 1, 1});
        (void)loader.load(path);
        REQUIRE_ON_RANK(std::memcmp(whole_of<BFloat16>(loader, "w").data(), elements.data(), 26) ==
                        0);
      }
    }
  }));
}

TEST_CASE("training goes on bit by bit from a checkpoint of other ranks and another schedule") {
  const ScratchDirectory scratch;
  constexpr std::int64_t n = 1037;
  std::vector<float> expected(n);
  const auto adam = [&](const World& world, const char* schedule) {
    Executable step = compile_shipped(world, "adam", schedule, n);
    step.write("g", std::vector<float>(n, 0.5F));
    return step;
  };
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = adam(world, "fused");
    for (int t = 1; t <= 5; ++t) {
      step.run({{"lr", 0.01}, {"t", t}});
      if (t == 3) step.save(scratch.path() / "three", {.metadata = {{"t", "3"}}});
    }
    const std::vector<float> w = whole_of(step, "w");
    if (world.rank() == 0) expected = w;
  }));
  for (const int ranks : {1, 2, 4}) {
    for (const char* schedule : {"unfused", "sliced", "fused"}) {
      REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
        Executable step = adam(world, schedule);
        const Checkpoint checkpoint = step.load(scratch.path() / "three");
        REQUIRE_ON_RANK(checkpoint.program == "adam");
        REQUIRE_ON_RANK(checkpoint.ranks == 2);
        for (int t = std::stoi(checkpoint.metadata.at("t")) + 1; t <= 5; ++t)
          step.run({{"lr", 0.01}, {"t", t}});
        REQUIRE_ON_RANK(whole_of(step, "w") == expected);
      }));
    }
  }
}

TEST_CASE("what all ranks have alike is saved once, in even shares, and any reader finds it") {
  const ScratchDirectory scratch;
  const std::vector<StateOf> states{{"large", f32, {600'000}, replicated},
                                    {"flags", boolean, {1, 2'000'001}, replicated},
                                    {"small", i16, {3}, replicated}};
  REQUIRE_NOTHROW(
      World::local(3, [&](World& world) { save_known(world, scratch.path() / "shared", states); }));
  std::map<std::string, std::string> found;
  for (int rank = 0; rank < 3; ++rank) {
    const fs::path file =
        scratch.path() / "shared" / ("rank-0000" + std::to_string(rank) + ".safetensors");
    CHECK(fs::file_size(file) < 4096 + 800'000 + 666'668 + 7);
    for (const auto& [name, data] : read_safetensors(file)) found[name] += data;
  }
  for (const StateOf& one : states) {
    const std::vector<std::byte> bytes = known_bytes(one.dtype,
                                                     one.name == "large"   ? 600'000
                                                     : one.name == "flags" ? 2'000'001
                                                                           : 3,
                                                     one.name);
    CHECK((found[one.name].size() == bytes.size() &&
           std::memcmp(found[one.name].data(), bytes.data(), bytes.size()) == 0));
  }
  REQUIRE_NOTHROW(
      World::local(2, [&](World& world) { load_known(world, scratch.path() / "shared", states); }));
}

TEST_CASE("the manifest says where each part of a state is, for readers in any language") {
  const ScratchDirectory scratch;
  const std::vector<StateOf> states{{"x", i32, {5, 6}, sliced(1)}};
  REQUIRE_NOTHROW(
      World::local(4, [&](World& world) { save_known(world, scratch.path() / "x", states); }));
  const auto manifest = nlohmann::json::parse(read_file(scratch.path() / "x" / "checkpoint.json"));
  CHECK(manifest.at("format") == "coconet-checkpoint");
  CHECK(manifest.at("program") == "states");
  CHECK(manifest.at("ranks") == 4);
  const auto& tensor = manifest.at("tensors").at(0);
  CHECK(tensor.at("dtype") == "I32");
  CHECK(tensor.at("layout") == "sliced(1)");
  std::vector<std::int32_t> whole(30);
  for (const auto& part : tensor.at("parts")) {
    const std::string file = read_file(
        scratch.path() / "x" / manifest.at("files").at(part.at("file").get<int>()).at("name"));
    const auto begin = part.at("begin").get<std::vector<std::size_t>>();
    const auto extent = part.at("extent").get<std::vector<std::size_t>>();
    for (std::size_t i = 0; i < extent[0] * extent[1]; ++i) {
      const std::size_t row = begin[0] + i / extent[1], column = begin[1] + i % extent[1];
      std::memcpy(&whole[row * 6 + column],
                  file.data() + part.at("offset").get<std::size_t>() + 4 * i, 4);
    }
  }
  const std::vector<std::byte> expected = known_bytes(i32, 30, "x");
  CHECK(std::memcmp(whole.data(), expected.data(), expected.size()) == 0);
}

TEST_CASE("metadata of any text come back, and a checkpoint of the same name is replaced") {
  const ScratchDirectory scratch;
  const World world = World::self();
  const std::vector<StateOf> states{{"x", f32, {3}, replicated}};
  Executable step = compile_states(world, states);
  const Metadata metadata{{"step", "12"}, {"a \"quoted\\ name", "line\nand tab\t"}, {"größe", ""}};
  step.save(scratch.path() / "one/two/three/", {.metadata = metadata});
  write_known(step, world, states);
  CHECK(step.load(scratch.path() / "one/two/three").metadata == metadata);
  step.save(scratch.path() / "one/two/three");
  const Checkpoint found = step.load(scratch.path() / "one/two/../two/three");
  CHECK(found.metadata.empty());
  CHECK(found.path == scratch.path() / "one/two/three");
  CHECK_NOTHROW(load_known(world, found.path, {}));  // a program without states takes none
  Executable other = compile_states(world, states);
  (void)other.load(found.path);
  CHECK_NOTHROW((write_known(step, world, states), require_known(step, world, states)));
  CHECK(files_in(scratch.path()) == 1 + 1);
}

TEST_CASE("a checkpoint that does not fit the program is refused, and changes nothing") {
  const ScratchDirectory scratch;
  const fs::path path = scratch.path() / "saved";
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    save_known(world, path, {{"x", f32, {4}, replicated}, {"y", f32, {4}, local, true}});
  }));
  const World world = World::self();
  const auto said = [&](const std::vector<StateOf>& states) {
    Executable step = compile_states(world, states);
    return refusal<CheckpointError>([&] { (void)step.load(path); });
  };
  CHECK(said({{"x", f32, {4}, replicated}, {"z", f32, {4}, replicated}}) ==
        "The checkpoint '" + path.string() +
            "' of the program 'states' has no state 'z'; it has x, y.");
  CHECK(said({{"x", f16, {4}, replicated}}) ==
        "The state 'x' is f16 [4] as a whole, and f32 [4] in the checkpoint '" + path.string() +
            "'; both must be the same.");
  CHECK_THAT(said({{"x", f32, {2, 2}, replicated}}),
             Catch::Contains("is f32 [2, 2] as a whole, and f32 [4] in"));
  CHECK(said({{"y", f32, {4}, local}}) ==
        "The state 'y' has different values on 1 groups of ranks, and on 2 in the checkpoint '" +
            path.string() + "'; what is local must be loaded into as many.");
  CHECK(said({{"x", f32, {4}, sliced(0)}}) == "(accepted)");
}

TEST_CASE("what cannot be saved is refused in a sentence, and leaves nothing behind") {
  const ScratchDirectory scratch;
  const World world = World::self();
  Executable step = compile_states(world, {{"x", f32, {3}, replicated}});
  const auto said = [&](const fs::path& path, const SaveOptions& options = {}) {
    return refusal<CheckpointError>([&] { step.save(path, options); });
  };
  CHECK(said("/") ==
        "'/' is no place for a checkpoint; name a directory, such as 'checkpoints/step-100'.");
  CHECK_THAT(said(""), Catch::Contains("'' is no place for a checkpoint"));
  CHECK(said(scratch.path() / "x", {.keep = -1}) ==
        "SaveOptions::keep is -1; it is a number of checkpoints, or 0 for all.");
  CHECK_THAT(said(scratch.path() / "x", {.metadata = {{"a", "\xff"}}}),
             Catch::Contains("metadata must be UTF-8; byte 0 of"));
  fs::create_directory(scratch.path() / "mine");
  CHECK(said(scratch.path() / "mine") ==
        "'" + (scratch.path() / "mine").string() +
            "' is there, and is no checkpoint; save to a place of its own.");
  write_bytes_to(scratch.path() / "file", "");
  CHECK(said(scratch.path() / "file/x") ==
        "Cannot read the directory '" + (scratch.path() / "file").string() + "': Not a directory.");
  CHECK(files_in(scratch.path()) == 1);
  Executable reserved = compile_states(world, {{"__metadata__", f32, {3}, replicated}});
  CHECK_THAT(refusal<CheckpointError>([&] { reserved.save(scratch.path() / "y"); }),
             Catch::Contains("cannot be saved under the name '__metadata__'"));
}

TEST_CASE("ranks that save to different places are told so") {
  const ScratchDirectory scratch;
  std::string said[2];
  World::local(2, [&](World& world) {
    Executable step = compile_states(world, {{"x", f32, {3}, replicated}});
    said[world.rank()] =
        refusal<CommError>([&] { step.save(scratch.path() / std::to_string(world.rank())); });
  });
  for (const std::string& one : said) {
    CHECK_THAT(one, Catch::Contains("all ranks must save the same checkpoint, but rank 1 has "
                                    "another place or other options than rank 0"));
  }
  CHECK(fs::is_empty(scratch.path()));
}
