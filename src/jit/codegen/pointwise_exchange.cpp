// What a kernel does whose ranks exchange chunks through mailboxes.
#include <fmt/format.h>

#include <algorithm>

#include "jit/codegen/pointwise_kernel.h"
#include "jit/codegen/tile_sync.h"

namespace coconet::jit {

using Kind = KernelArgument::Kind;

std::string PointwiseKernel::write_make(const sched::KernelStep::Phase& phase,
                                        const ExchangeTypes& types, bool spreads) {
  const Body body = write_body(phase, "    ");
  std::string text = fmt::format(
      "  // what the owner of a chunk does\n"
      "  const auto make = [&]<int N>(width<N, false>, index_t {}, const vec<N, {}>& combined) "
      "{{\n",
      linear_ ? "i" : "at", types.combined);
  if (!linear_) {
    text += fmt::format("    const index_t row = at / {0}, i = at % {0};\n", count_);
    text += coordinates() + row_starts_;
  }
  text += body.loads + body.lanes + body.stores;
  text += fmt::format("    return {};\n  }};\n", spreads ? body.spread : "combined");
  if (linear_) return text;
  return text + fmt::format(
                    "  const auto make_in_rows = [&]<int N>(width<N, false>, index_t at, "
                    "const vec<N, {}>& combined) {{\n"
                    "    return in_rows<N, {}>({}, at, combined, make);\n  }};\n",
                    types.combined, types.made, count_);
}

std::string PointwiseKernel::write_own_and_keep(const sched::KernelStep::Phase& phase,
                                                const sched::KernelStep::Load* combined,
                                                const ExchangeTypes& types) {
  std::string text = "  const auto own = [&]<int N>(width<N, false>, int owner, index_t i) {\n";
  if (combined != nullptr) {
    text += fmt::format("    return widened(load_slice<N>({}, a.slices, owner, i));\n",
                        writer_.pointer(combined->buffer));
  }
  text += fmt::format(
      "  }};\n  const auto keep = [&]<int N>(width<N, false>, int owner, index_t i, "
      "const vec<N, {}>& value) {{\n",
      types.made);
  for (const auto& store : phase.stores) {
    if (!store.spread) continue;
    text += fmt::format("    store_slice<N>({}, a.slices, owner, i, value);\n",
                        writer_.pointer(store.buffer));
  }
  return text + "  };\n";
}

std::string PointwiseKernel::write_exchange(const sched::KernelStep::Phase& phase,
                                            const sched::KernelStep::Load* combined, bool spreads) {
  (void)writer_.argument({Kind::mailboxes, "mailboxes"});
  (void)writer_.argument({Kind::slices, "slices"});
  // Unlike loops over the tensors, that over a chunk may store past the caches.
  const std::string mode = writer_.argument({Kind::mode, "mode"});
  ExchangeTypes types;
  if (combined != nullptr) types.combined = compute_type(at(step_.combine).dtype);
  types.made = spreads ? storage_type(at(step_.spread).dtype) : types.combined;
  const std::string make = linear_ ? "make" : "make_in_rows";
  std::string text = write_make(phase, types, spreads);
  text += write_own_and_keep(phase, combined, types);
  const bool tiled = synchronizes_tiles(phase);
  if (tiled) text += write_tile_sync(writer_, phase);
  const std::string functions = make + ", keep" + (tiled ? ", tile_sync" : "");
  if (sends()) {
    return text + fmt::format(
                      "  if (!pass_on<{}, {}, W, {}>(\n"
                      "          block, a.sync, a.mailboxes, a.slices, {}, {}, {})) {{\n"
                      "    return;\n  }}\n",
                      algorithm_.topology, protocol_.name, types.made, mode,
                      at(step_.spread).attributes.offset, functions);
  }
  text += fmt::format(
      "  if (!exchange<{}, {}, {}, W, {}, {}, {}, {}>(\n"
      "          block, a.sync, a.mailboxes, a.slices, {}, own, {})) {{\n    return;\n  }}\n",
      algorithm_.topology, protocol_.name,
      combined != nullptr ? operator_of(step_.combine) : "sum_of", combined != nullptr, spreads,
      types.combined, types.made, mode, functions);
  if (root() < 0 || std::ranges::all_of(phase.stores, &sched::KernelStep::Store::spread))
    return text;
  const std::string count = writer_.argument({Kind::count, "count"});
  return text +
         fmt::format(
             "  // the computation of ranks that own nothing\n"
             "  if (index_t(a.sync.rank) != a.slices.only) {{\n"
             "{}    for_each<W>(block, {}, {}, "
             "[&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {{\n"
             "      {}(width<N, false>{{}}, i, no_totals<sum_of, N, {}>());\n    }});\n  }}\n",
             await_arriving(writer_, phase, "0", count, "    "), count, mode_, make,
             types.combined);
}

}  // namespace coconet::jit
