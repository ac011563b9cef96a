// Batches, and the threads that obtain them.
#include "jit/kernels/obtain_binaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>
#include <system_error>
#include <thread>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/kernels/kernel_batch.h"

namespace coconet::jit {
namespace {

/// A request, and what comes of it.
struct Item {
  const BinaryRequest* request;
  ObtainedBinary* result;
};
using Batch = std::vector<Item>;

/// Larger translation units make the compiler slower than linear.
constexpr std::size_t most_in_batch = 32;

/// A batch under construction.
struct Bin {
  Batch batch;
  std::size_t bytes = 0;            ///< of text: what its compilation takes, roughly
  std::set<std::string> entries{};  ///< which must differ

  [[nodiscard]] bool takes(const KernelText& text) const {
    return batch.size() < most_in_batch && !entries.contains(text.entry);
  }
};

/// At least `count` batches of about the same length: longest kernels first, each into the
/// shortest.
std::vector<Batch> divide(Batch missing, std::size_t count) {
  const auto bytes = [](const Item& item) { return item.request->text().source.size(); };
  std::ranges::stable_sort(missing, std::greater(), bytes);
  std::vector<Bin> bins(count);
  for (const Item& item : missing) {
    const KernelText& text = item.request->text();
    std::ranges::stable_sort(bins, {}, &Bin::bytes);
    auto bin = std::ranges::find_if(bins, [&](const Bin& one) { return one.takes(text); });
    if (bin == bins.end()) bin = bins.emplace(bins.end());
    bin->batch.push_back(item);
    bin->bytes += bytes(item);
    bin->entries.insert(text.entry);
  }
  std::vector<Batch> batches;
  for (Bin& bin : bins) batches.push_back(std::move(bin.batch));
  return batches;
}

/// What is stored is only read, each by itself.
std::vector<Batch> make_batches(const Batch& all, std::size_t jobs) {
  std::vector<Batch> batches;
  Batch missing;
  for (const Item& item : all) {
    if (item.request->compiler().has_batches() && !item.request->is_stored()) {
      missing.push_back(item);
    } else {
      batches.push_back({item});
    }
  }
  if (missing.empty()) return batches;
  std::ranges::move(divide(missing, std::min(jobs, missing.size())), std::back_inserter(batches));
  return batches;
}

/// Throws CompileError; of one kernel with words for people.
CompileResult compile(const Batch& batch) {
  const BinaryRequest& first = *batch.front().request;
  if (batch.size() == 1) return first.compile();
  KernelBatch texts(first.compiler().target());
  for (const Item& item : batch) texts.add(item.request->text());
  CompileResult compiled = first.compiler().compile(texts.source(), first.config().compile_timeout);
  if (!compiled.ok) throw CompileError(compiled.log);
  return compiled;
}

/// From disk, or compiled together.
void obtain_together(const Batch& batch, const BinaryCheck& check) {
  std::vector<const CacheKey*> keys;
  for (const Item& item : batch) keys.push_back(&item.request->key());
  KernelCache::Recipe recipe;
  if (check) {
    recipe.problem = [&](std::size_t i, const CachedBinary& binary) {
      return check(*batch[i].request, binary);
    };
  }
  recipe.make = [&](std::span<const std::size_t> indices) {
    Batch missing;
    for (const std::size_t i : indices) missing.push_back(batch[i]);
    const auto start = std::chrono::steady_clock::now();
    CompileResult compiled = compile(missing);
    const auto time = (std::chrono::steady_clock::now() - start) / missing.size();
    CachedBinary binary{std::move(compiled.binary), std::move(compiled.log)};
    for (const auto& [request, result] : missing) {
      const std::string wrong = check ? check(*request, binary) : std::string();
      if (!wrong.empty()) {
        throw BackendError(
            fmt::format("kernel '{}' was compiled, but {}", request->text().name, wrong));
      }
      result->command = compiled.command;
      result->compile_time = time;
    }
    return binary;
  };
  const auto binaries = batch.front().request->cache().obtain(
      keys, recipe, batch.front().request->config().compile_timeout);
  for (std::size_t i = 0; i < batch.size(); ++i) batch[i].result->binary = binaries[i];
}

/// One by one where that fails together, so that the failure is the kernel's that it is about.
void obtain(const Batch& batch, const BinaryCheck& check) {
  try {
    obtain_together(batch, check);
  } catch (...) {
    for (const Item& item : batch) *item.result = {};
    if (batch.size() == 1) {
      batch.front().result->failure = std::current_exception();
    } else {
      for (const Item& item : batch) obtain({item}, check);
    }
  }
}

}  // namespace

std::vector<ObtainedBinary> obtain_binaries(std::span<const BinaryRequest* const> requests,
                                            const BinaryCheck& check) {
  std::vector<ObtainedBinary> results(requests.size());
  Batch all;
  for (std::size_t i = 0; i < requests.size(); ++i) all.push_back({requests[i], &results[i]});
  if (requests.empty()) return results;
  const std::size_t slots = requests.front()->cache().slots().in_process();
  const std::vector<Batch> batches = make_batches(all, slots);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < batches.size(); i = next++) obtain(batches[i], check);
  };
  {
    std::vector<std::jthread> helpers;
    try {
      while (helpers.size() + 1 < std::min(slots, batches.size())) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads: fewer compilers at once
    }
    work();
  }
  return results;
}

}  // namespace coconet::jit
