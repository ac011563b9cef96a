// What a kernel does whose ranks exchange chunks through mailboxes.
#include "jit/codegen/pointwise_kernel.h"

#include <algorithm>

#include "jit/codegen/tile_sync.h"

namespace coconet::jit {

using Kind = KernelArgument::Kind;

std::string PointwiseKernel::write_exchange(const sched::KernelStep::Phase& phase,
                                            const sched::KernelStep::Load* combined, bool spreads) {
  (void)writer_.argument({Kind::mailboxes, "mailboxes", -1, -1, 0});
  (void)writer_.argument({Kind::slices, "slices", -1, -1, 0});
  const Body body = write_body(phase, "    ");
  const std::string wide = combined != nullptr ? std::string(compute_type(at(step_.combine).dtype))
                                               : std::string("f32");  // of what is not there
  const std::string made = spreads ? std::string(storage_type(at(step_.spread).dtype)) : wide;
  std::string text = step_.phases.size() > 1 ? "  {\n" : "";  // a scope for every pass
  text += "  // what the owner of a chunk does\n";
  text += std::string("  const auto make = [&]<int N>(width<N, false>, index_t ") +
          (linear_ ? "i" : "at") + ", const vec<N, " + wide + ">& combined) {\n";
  if (!linear_) {
    text += "    const index_t row = at / " + count_ + ", i = at % " + count_ + ";\n";
    text += coordinates() + row_starts_;
  }
  text += body.loads + body.lanes + body.stores;
  text += "    return " + (spreads ? body.spread : std::string("combined")) + ";\n  };\n";
  std::string call = "make";
  if (!linear_) {
    call = "make_in_rows";
    text += "  const auto make_in_rows = [&]<int N>(width<N, false>, index_t at, const vec<N, " +
            wide + ">& combined) {\n    return in_rows<N, " + made + ">(" + count_ +
            ", at, combined, make);\n  };\n";
  }
  text += "  const auto own = [&]<int N>(width<N, false>, int owner, index_t i) {\n";
  if (combined != nullptr) {
    text += "    return widened(load_slice<N>(" + writer_.pointer(combined->buffer) +
            ", a.slices, owner, i));\n";
  }
  text += "  };\n";
  text += "  const auto keep = [&]<int N>(width<N, false>, int owner, index_t i, const vec<N, " +
          made + ">& value) {\n";
  for (const auto& store : phase.stores) {
    if (!store.spread) continue;
    text +=
        "    store_slice<N>(" + writer_.pointer(store.buffer) + ", a.slices, owner, i, value);\n";
  }
  text += "  };\n";
  const std::string tile_sync = synchronizes_tiles(phase) ? ", tile_sync" : "";
  if (!tile_sync.empty()) text += write_tile_sync(writer_, phase);
  if (sends()) {
    text += write_passing(call, made, tile_sync);
    if (step_.phases.size() > 1) text += "  }\n";
    return text;
  }
  const std::string op = combined != nullptr
                             ? std::string(operator_name(at(step_.combine).attributes.reduction))
                             : std::string("sum_of");
  text += "  if (!exchange<" + std::string(algorithm_.topology) + ", " +
          std::string(protocol_.name) + ", " + op + ", W, " +
          (combined != nullptr ? "true" : "false") + ", " + (spreads ? "true" : "false") + ", " +
          wide + ", " + made + ">(\n          block, a.sync, a.mailboxes, a.slices, " + mode_ +
          ", own, " + call + ", keep" + tile_sync + ")) {\n    return;\n  }\n";
  const bool others_store = std::any_of(phase.stores.begin(), phase.stores.end(),
                                        [](const auto& store) { return !store.spread; });
  if (root() >= 0 && others_store) {
    const std::string count = writer_.argument({Kind::count, "count", -1, -1, 0});
    text += "  // the computation of ranks that own nothing\n";
    text += "  if (index_t(a.sync.rank) != a.slices.only) {\n";
    text += await_arriving(writer_, phase, "0", count, "    ");
    text += "    for_each<W>(block, " + count + ", " + mode_ +
            ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n";
    text += "      " + call + "(width<N, false>{}, i, no_totals<sum_of, N, " + wide +
            ">());\n    });\n  }\n";
  }
  if (step_.phases.size() > 1) text += "  }\n";
  return text;
}

std::string PointwiseKernel::write_passing(const std::string& call, const std::string& made,
                                           const std::string& tile_sync) {
  return "  if (!pass_on<" + std::string(algorithm_.topology) + ", " + std::string(protocol_.name) +
         ", W, " + made + ">(\n          block, a.sync, a.mailboxes, a.slices, " + mode_ + ", " +
         std::to_string(at(step_.spread).attributes.offset) + ", " + call + ", keep" + tile_sync +
         ")) {\n    return;\n  }\n";
}

}  // namespace coconet::jit
