// Waiting for tiles and telling of them, as text.
#include "jit/codegen/tile_sync.h"

#include <algorithm>

namespace coconet::jit {

namespace {

std::string tiles_of(KernelWriter& writer, sched::BufferId buffer) {
  return writer.argument(
      {KernelArgument::Kind::tiles, writer.buffer(buffer).name + "_tiles", buffer});
}

/// "      [&](index_t begin) {...}": a function of the prelude's TileSync; it ends the line without
/// a comma.
std::string function(const std::string& parameters, const std::string& body) {
  return "      [&](" + parameters + ") {" + (body.empty() ? "}" : "\n" + body + "      }");
}

}  // namespace

bool synchronizes_tiles(const sched::KernelStep::Phase& phase) {
  return std::ranges::any_of(phase.loads, &sched::KernelStep::Load::arriving) ||
         std::ranges::any_of(phase.stores, &sched::KernelStep::Store::departing);
}

bool synchronizes_tiles(const sched::KernelStep& step) {
  return std::ranges::any_of(step.phases,
                             [](const auto& phase) { return synchronizes_tiles(phase); });
}

std::string await_arriving(KernelWriter& writer, const sched::KernelStep::Phase& phase,
                           const std::string& begin, const std::string& end,
                           const std::string& indent) {
  std::string text;
  for (const auto& load : phase.loads) {
    if (!load.arriving || load.combined) continue;
    text += indent + "if (!await_tiles(block, a.sync, " + tiles_of(writer, load.buffer) + ", " +
            begin + ", " + end + ")) return;\n";
  }
  return text;
}

std::string signal_departing(KernelWriter& writer, const sched::KernelStep::Phase& phase,
                             const std::string& begin, const std::string& end,
                             const std::string& indent) {
  std::string text;
  for (const auto& store : phase.stores) {
    if (!store.departing || store.spread) continue;
    text += indent + "signal_tiles(block, " + tiles_of(writer, store.buffer) + ", " + begin + ", " +
            end + ");\n";
  }
  return text.empty() ? text : indent + "block_barrier(block);\n" + text;
}

std::string write_tile_sync(KernelWriter& writer, const sched::KernelStep::Phase& phase) {
  const std::string indent(8, ' ');
  std::string await;
  std::string made;
  std::string kept;
  for (const auto& load : phase.loads) {
    if (!load.arriving) continue;
    const std::string tiles = tiles_of(writer, load.buffer);
    await += load.combined
                 ? indent + "if (!await_tiles(block, a.sync, " + tiles +
                       ", a.slices, owner, begin, count)) return false;\n"
                 : indent + "if (owner == int(a.sync.rank) && !await_tiles(block, a.sync, " +
                       tiles + ", begin, begin + count)) return false;\n";
  }
  for (const auto& store : phase.stores) {
    if (!store.departing) continue;
    const std::string tiles = tiles_of(writer, store.buffer);
    if (store.spread) {
      kept += indent + "signal_tiles(block, " + tiles + ", a.slices, owner, begin, count);\n";
    } else {
      made += indent + "signal_tiles(block, " + tiles + ", begin, begin + count);\n";
    }
  }
  const char* const slice = "int owner, index_t begin, index_t count";
  const char* const ignored = "int, index_t, index_t";
  const std::string waits =
      function(await.empty() ? ignored : slice, await + indent + "return true;\n");
  return "  // what arrives and departs tile by tile, between chunks\n  const auto tile_sync = "
         "make_tile_sync(\n" +
         waits + ",\n" +
         function(made.empty() ? "index_t, index_t" : "index_t begin, index_t count", made) +
         ",\n" + function(kept.empty() ? ignored : slice, kept) + ");\n";
}

}  // namespace coconet::jit
