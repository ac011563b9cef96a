// Batches, and the threads that obtain them.
#include "jit/kernels/obtain_binaries.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <system_error>
#include <thread>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/cache/kernel_cache.h"
#include "jit/kernels/kernel_batch.h"

namespace coconet::jit {

namespace {

using Requests = std::span<const BinaryRequest* const>;
/// Indices of requests.
using Batch = std::vector<std::size_t>;

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

/// `missing` in at least `count` batches of about the same length: the longest kernels first, each
/// into the shortest.
std::vector<Batch> divide(Requests requests, Batch missing, std::size_t count) {
  const auto bytes = [&](std::size_t i) { return requests[i]->text().source.size(); };
  std::ranges::stable_sort(missing, std::greater(), bytes);
  std::vector<Bin> bins(count);
  for (const std::size_t i : missing) {
    std::ranges::stable_sort(bins, {}, &Bin::bytes);
    auto bin = std::ranges::find_if(
        bins, [&](const Bin& candidate) { return candidate.takes(requests[i]->text()); });
    if (bin == bins.end()) bin = bins.emplace(bins.end());
    bin->batch.push_back(i);
    bin->bytes += bytes(i);
    bin->entries.insert(requests[i]->text().entry);
  }
  std::vector<Batch> batches;
  for (Bin& bin : bins) batches.push_back(std::move(bin.batch));
  return batches;
}

/// What is stored is only read, each by itself.
std::vector<Batch> make_batches(Requests requests, std::size_t jobs) {
  std::vector<Batch> batches;
  Batch missing;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const bool shares = requests[i]->compiler().has_batches() && !requests[i]->is_stored();
    if (shares) {
      missing.push_back(i);
    } else {
      batches.push_back({i});
    }
  }
  if (missing.empty()) return batches;
  std::vector<Batch> divided = divide(requests, missing, std::min(jobs, missing.size()));
  batches.insert(batches.end(), divided.begin(), divided.end());
  return batches;
}

/// Throws CompileError; of one kernel with words for people.
CompileResult compile(Requests batch) {
  if (batch.size() == 1) return batch.front()->compile();
  KernelBatch texts(batch.front()->compiler().target());
  for (const BinaryRequest* request : batch) texts.add(request->text());
  CompileResult compiled = batch.front()->compiler().compile(texts.source());
  if (!compiled.ok) throw CompileError(compiled.log);
  return compiled;
}

/// From disk, or compiled together.
void obtain_batch(Requests batch, const BinaryCheck& check, std::span<ObtainedBinary*> results) {
  std::vector<const CacheKey*> keys;
  for (const BinaryRequest* request : batch) keys.push_back(&request->key());
  KernelCache::Recipe recipe;
  if (check) {
    recipe.problem = [&](std::size_t i, const CachedBinary& binary) {
      return check(*batch[i], binary);
    };
  }
  recipe.make = [&](std::span<const std::size_t> missing) {
    std::vector<const BinaryRequest*> requests;
    for (const std::size_t i : missing) requests.push_back(batch[i]);
    const auto start = std::chrono::steady_clock::now();
    CompileResult compiled = compile(requests);
    const auto time = (std::chrono::steady_clock::now() - start) / requests.size();
    CachedBinary binary{std::move(compiled.binary), std::move(compiled.log)};
    for (const std::size_t i : missing) {
      const std::string wrong = check ? check(*batch[i], binary) : std::string();
      if (!wrong.empty())
        throw BackendError("kernel '" + batch[i]->text().name + "' was compiled, but " + wrong);
      results[i]->command = compiled.command;
      results[i]->compile_time = time;
    }
    return binary;
  };
  const std::vector<CachedBinary> binaries =
      process_cache().obtain(keys, recipe, config().compile_timeout);
  for (std::size_t i = 0; i < binaries.size(); ++i) results[i]->binary = binaries[i];
}

}  // namespace

std::vector<ObtainedBinary> obtain_binaries(Requests requests, const BinaryCheck& check) {
  const auto slots = static_cast<std::size_t>(process_cache().slots().in_process());
  const std::vector<Batch> batches = make_batches(requests, slots);
  std::vector<ObtainedBinary> results(requests.size());
  const auto obtain = [&](const Batch& indices) {
    std::vector<const BinaryRequest*> batch;
    std::vector<ObtainedBinary*> into;
    for (const std::size_t i : indices) {
      batch.push_back(requests[i]);
      into.push_back(&results[i]);
    }
    obtain_batch(batch, check, into);
  };
  const auto obtain_alone = [&](std::size_t i) {
    try {
      results[i] = {};
      obtain({i});
    } catch (...) {
      results[i].failure = std::current_exception();
    }
  };
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < batches.size(); i = next++) {
      try {
        if (batches[i].size() > 1) {
          obtain(batches[i]);
          continue;
        }
      } catch (...) {  // the kernel that it is about says it below
      }
      for (const std::size_t alone : batches[i]) obtain_alone(alone);
    }
  };
  std::vector<std::jthread> helpers;
  try {
    while (helpers.size() + 1 < std::min(slots, batches.size())) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: fewer compilers at once
  }
  work();
  helpers.clear();  // joins them
  return results;
}

}  // namespace coconet::jit
