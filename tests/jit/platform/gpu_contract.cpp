#include "jit/platform/gpu_contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "jit/abi/abi.h"
#include "jit/platform/gpus.h"
#include "jit/platform/platform.h"
#include "jit/platform/sass.h"
#include "texts.h"

namespace coconet::test {

namespace {

constexpr int least_blocks = 2, fences_of_barrier = 1;

int number_behind(const std::string& text, const std::string& word, int otherwise) {
  const std::size_t at = text.find(word);
  return at == std::string::npos ? otherwise : std::stoi(text.substr(at + word.size()));
}

/// What a kernel's text says of itself.
struct Facts {
  explicit Facts(const std::string& text)
      : ranks(number_behind(text, "  Sync<", 1)),
        lanes(jit::abi::GPU_VECTOR_BYTES / number_behind(text, "VECTOR_BYTES / ", 16)),
        mailboxes(text.find("exchange<") != std::string::npos ||
                  text.find("pass_on<") != std::string::npos),
        barriers(count_of(text, "rank_barrier(") + count_of(text, "grid_barrier(")) {
    const std::regex pointer("\\n  (f64|f32|f16|bf16|i64|i32|i8|u8|b8)(?: const)?\\*");
    for (std::sregex_iterator at(text.begin(), text.end(), pointer), end; at != end; ++at)
      narrowest = std::min(narrowest, bytes_of((*at)[1]));
  }
  static int bytes_of(const std::string& type) {
    return type.ends_with("64") ? 8 : type.ends_with("32") ? 4 : type.ends_with("16") ? 2 : 1;
  }
  [[nodiscard]] int least_access() const { return lanes * narrowest; }

  int ranks, lanes;
  bool mailboxes;
  int barriers;
  int narrowest = 8;  ///< bytes of the narrowest tensor's element
};

/// What the body of a loop over vectors accesses for one vector.
struct Body {
  int loads = 0, stores = 0;  ///< of vectors
  int elements = 0;           ///< loads of one element, which a compiler may move out of the loop
};

std::vector<Body> bodies_of(const std::string& text, const Facts& facts) {
  std::vector<Body> bodies;
  std::string end;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" for_each<W") != std::string::npos ||
        line.find(" for_each_of<W") != std::string::npos) {
      bodies.emplace_back();
      end = line.substr(0, line.find_first_not_of(' ')) + "});";
    } else if (line == end) {
      end.clear();
    } else if (!end.empty()) {
      Body& body = bodies.back();
      body.loads += count_of(line, "load<N>(") + facts.ranks * count_of(line, "reduce_ranks<");
      body.stores += count_of(line, " store<N>(") + facts.ranks * count_of(line, "store_ranks<") +
                     2 * count_of(line, "send_on<");  // what is sent, and zeros for who gets none
      body.elements += count_of(line, "wide(a.");
    }
  }
  return bodies;
}

int sum_of(const Accesses& accesses) {
  int sum = 0;
  for (const auto& [bytes, count] : accesses) sum += count;
  return sum;
}

int narrower(const Accesses& accesses, int least) {
  int sum = 0;
  for (const auto& [bytes, count] : accesses) sum += bytes < least ? count : 0;
  return sum;
}

/// How many vectors of `body` one round of `loop` has; 0 when it is no loop over that body.
int vectors_of(const SassLoop& loop, const Body& body, const Facts& facts) {
  const int loads = sum_of(loop.loads);
  const int stores = sum_of(loop.stores);
  const int vectors = body.stores > 0 ? stores / body.stores : loads / std::max(1, body.loads);
  const bool fits = vectors > 0 && stores == vectors * body.stores &&
                    loads >= vectors * body.loads &&
                    loads <= vectors * (body.loads + body.elements) &&
                    narrower(loop.stores, facts.least_access()) == 0 &&
                    narrower(loop.loads, facts.least_access()) <= vectors * body.elements;
  return fits ? vectors : 0;
}

std::string to_text(const char* name, const Accesses& accesses) {
  std::string text;
  for (const auto& [bytes, count] : accesses)
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", count, name, bytes);
  return text;
}

std::string to_text(const SassLoop& loop) {
  const std::string loads = to_text("loads", loop.loads);
  const std::string stores = to_text("stores", loop.stores);
  return loads + (loads.empty() || stores.empty() ? "" : ", ") + stores;
}

/// What is wrong with the main loops of a kernel.
struct Loops {
  std::string faults;
  double kib_in_flight = 0;  ///< of the multiprocessor, in the loop that has fewest
};

Loops loops_of(const SassKernel& sass, const Facts& facts, const std::string& text, int blocks) {
  Loops loops;
  const std::vector<Body> bodies = bodies_of(text, facts);
  const bool by_vectors = !facts.mailboxes && !bodies.empty();
  for (const SassLoop& loop : sass.loops) {
    int vectors = 0;
    for (const Body& body : bodies) vectors = std::max(vectors, vectors_of(loop, body, facts));
    const double kib = double(loop.bytes_ahead) * blocks * jit::default_threads / 1024;
    if (loop.bytes_ahead > 0 && (loops.kib_in_flight == 0 || kib < loops.kib_in_flight))
      loops.kib_in_flight = kib;
    if (by_vectors && vectors == 0)
      loops.faults += fmt::format(
          "a main loop has {}, which are no whole vectors of at least {} bytes of any loop of its "
          "text; ",
          to_text(loop), facts.least_access());
  }
  if (by_vectors && sass.loops.empty()) loops.faults += "no loop over its vectors was found; ";
  return loops;
}

/// Bytes that each multiprocessor must have in flight, by Little's law: for all of the bandwidth of
/// the memory; or of the link, where every pass moves several times more over that for its speed.
double least_in_flight(const Gpu& gpu, int ranks) {
  const double bytes = ranks > 1 ? gpu.link_gb_s * (gpu.memory_latency_ns + 2 * link_hop_ns)
                                 : gpu.memory_gb_s * gpu.memory_latency_ns;
  return bytes / gpu.multiprocessors;
}

/// What is wrong with a kernel's machine code.
std::string faults_of_code(const SassKernel& code, const GpuKernel& source, const Gpu& gpu,
                           int blocks) {
  const Facts facts(source.text);
  const Loops loops = loops_of(code, facts, source.text, blocks);
  std::string faults = loops.faults;
  if (facts.mailboxes) return faults;
  if (code.local_accesses > 0)
    faults += fmt::format("{} accesses of local memory; ", code.local_accesses);
  if (code.fences > fences_of_barrier * facts.barriers)
    faults += fmt::format("{} fences for {} barriers; ", code.fences, facts.barriers);
  const double least_kib = least_in_flight(gpu, facts.ranks) / 1024;
  // Kernels of scattered mixed precision have fewer on sm_100, which needs 42 KiB.
  if (gpu.arch == "sm_90" && source.is_large && loops.kib_in_flight < least_kib)
    faults +=
        fmt::format("{:.0f} KiB of loads in flight on a multiprocessor, and {} needs {:.0f}; ",
                    loops.kib_in_flight, gpu.name, least_kib);
  return faults;
}

}  // namespace

std::string contract_of(const GpuBinary& binary) {
  const Gpu& gpu = gpu_of(binary.architecture);
  const bool disassembles =
      !disassembler().empty() && std::ranges::count(read_architectures, binary.architecture) > 0;
  const auto code = disassembles ? disassembled(binary.cubin) : std::map<std::string, SassKernel>();
  std::string lines;
  for (const auto& [entry, kernel] : binary.kernels) {
    const jit::KernelResources& taken = binary.resources.at(entry);
    const int blocks =
        blocks_at_once(gpu, jit::default_threads, taken.registers, taken.shared_bytes);
    std::string faults =
        disassembles ? faults_of_code(code.at(entry), kernel, gpu, blocks) : std::string();
    if (taken.stack_bytes > 0 && !Facts(kernel.text).mailboxes)
      faults += fmt::format("{} bytes of stack; ", taken.stack_bytes);
    if (blocks < least_blocks)
      faults += fmt::format("{} blocks of {} threads on a multiprocessor, with {} registers; ",
                            blocks, jit::default_threads, taken.registers);
    if (!faults.empty())
      lines += fmt::format("{} on {}, {}: {}\n", name_of(kernel.text), binary.architecture,
                           kernel.from, faults);
  }
  return lines;
}

}  // namespace coconet::test
