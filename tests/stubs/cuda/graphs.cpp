// Capturing streams, and graphs.
#include "graphs.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>

namespace stub {
namespace {

using GraphTable = Table<Graph, CUgraph, Kind::graph>;
using NodeTable = Table<Node, CUgraphNode, Kind::node>;
using ExecTable = Table<GraphExec, CUgraphExec, Kind::exec>;

GraphTable& graphs() {
  return immortal<GraphTable>();
}

NodeTable& nodes() {
  return immortal<NodeTable>();
}

ExecTable& execs() {
  return immortal<ExecTable>();
}

// The captures under way.
std::vector<std::shared_ptr<Capture>>& captures() {
  return immortal<std::vector<std::shared_ptr<Capture>>>();
}

void destroy(CUgraph handle) {
  for (const CUgraphNode node : graphs().find(handle)->nodes) nodes().remove(node);
  graphs().remove(handle);
}

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                               : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

using GraphNodes = std::vector<std::pair<CUgraphNode, Node>>;

/// A launch of a graph: a thread for every row of nodes of which each waits for the one before
/// only.
class Launched {
 public:
  explicit Launched(const GraphNodes& nodes) : nodes_(nodes) {}

  CUresult run() {
    std::map<CUgraphNode, std::size_t> row_that_ends_with;
    std::vector<std::vector<std::size_t>> rows;
    for (std::size_t index = 0; index < nodes_.size(); ++index) {
      const std::vector<CUgraphNode>& after = nodes_[index].second.after;
      const auto before =
          after.empty() ? row_that_ends_with.end() : row_that_ends_with.find(after[0]);
      std::size_t row = rows.size();
      if (before == row_that_ends_with.end()) {
        rows.emplace_back();
      } else {
        row = before->second;
        row_that_ends_with.erase(before);
      }
      rows[row].push_back(index);
      row_that_ends_with[nodes_[index].first] = row;
    }
    std::vector<std::thread> threads;
    for (std::size_t row = 1; row < rows.size(); ++row)
      threads.emplace_back([this, &rows, row] { run_row(rows[row]); });
    if (!rows.empty()) run_row(rows[0]);
    for (std::thread& thread : threads) thread.join();
    return result_;
  }

 private:
  void run_row(const std::vector<std::size_t>& row) {
    for (const std::size_t index : row) {
      const auto& [handle, node] = nodes_[index];
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&, &after = node.after] {
        return result_ != CUDA_SUCCESS ||
               std::all_of(after.begin(), after.end(),
                           [&](CUgraphNode before) { return done_.contains(before); });
      });
      if (result_ != CUDA_SUCCESS) return;
      lock.unlock();
      const CUresult result = node.launch != nullptr ? run_kernel(*node.launch) : node.run();
      lock.lock();
      if (result != CUDA_SUCCESS) result_ = result;
      done_.insert(handle);
      changed_.notify_all();
    }
  }

  const GraphNodes& nodes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<CUgraphNode> done_;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace

CUresult capture(Stream& stream, Node node) {
  Capture& capture = *stream.capture;
  if (!capture.valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  node.after = capture.last[&stream];
  const CUgraphNode handle = nodes().add(std::make_shared<Node>(std::move(node)));
  graphs().find(capture.graph)->nodes.push_back(handle);
  capture.last[&stream] = {handle};
  if (&stream != capture.origin) capture.unjoined[&stream] = true;
  return CUDA_SUCCESS;
}

CUresult join(Stream& stream, const std::shared_ptr<Capture>& capture, Stream* recorder,
              const std::vector<CUgraphNode>& nodes) {
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream.capture != nullptr && stream.capture != capture) {
    stream.capture->valid = capture->valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream.legacy) {
    capture->valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  stream.capture = capture;
  std::vector<CUgraphNode>& last = capture->last[&stream];
  for (const CUgraphNode node : nodes) {
    if (std::find(last.begin(), last.end(), node) == last.end()) last.push_back(node);
  }
  if (&stream == capture->origin) {
    if (recorder != capture->origin) capture->unjoined[recorder] = false;
  } else if (&stream != recorder) {
    capture->unjoined[&stream] = true;
    if (recorder != capture->origin) capture->unjoined[recorder] = false;
  }
  return CUDA_SUCCESS;
}

bool forbid_in_capture(Stream& stream) {
  if (stream.capture == nullptr) return false;
  stream.capture->valid = false;
  return true;
}

bool forbid_in_captures_of_thread() {
  bool forbidden = false;
  for (const auto& capture : captures()) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
         capture->thread == std::this_thread::get_id())) {
      capture->valid = false;
      forbidden = true;
    }
  }
  return forbidden;
}

std::size_t live_graphs() {
  return graphs().size() + execs().size();
}

CUresult capture_info(CUstream stream_handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph, const CUgraphNode** dependencies, std::size_t* count) {
  std::shared_ptr<Stream> stream;
  if (const CUresult found = find_stream(stream_handle, stream); found != CUDA_SUCCESS)
    return found;
  *status = status_of(*stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  Capture& capture = *stream->capture;
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) *graph = capture.graph;
  const std::vector<CUgraphNode>& last = capture.last[stream.get()];
  if (dependencies != nullptr) *dependencies = last.data();
  if (count != nullptr) *count = last.size();
  return CUDA_SUCCESS;
}

}  // namespace stub

using namespace stub;

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return call_on(handle, "cuStreamBeginCapture", Needs::context, [&](Lock&, auto& stream) {
    if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    static unsigned long long started = 0;
    const auto capture = std::make_shared<Capture>();
    capture->id = ++started;
    capture->graph = graphs().add(std::make_shared<Graph>());
    capture->origin = stream.get();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    stream->capture = capture;
    captures().push_back(capture);
    note("cuStreamBeginCapture", details("stream=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return call("cuStreamEndCapture", Needs::context, [&](Lock&) {
    *graph = nullptr;
    std::shared_ptr<Stream> stream;
    if (const CUresult found = find_stream(handle, stream); found != CUDA_SUCCESS) return found;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture->thread != std::this_thread::get_id())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    const bool unjoined = std::any_of(capture->unjoined.begin(), capture->unjoined.end(),
                                      [](const auto& row) { return row.second; });
    for (const auto& [joined, open] : capture->unjoined) joined->capture = nullptr;
    stream->capture = nullptr;
    std::erase(captures(), capture);
    if (!capture->valid || unjoined) {
      capture->valid = false;
      destroy(capture->graph);
      return unjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *graph = capture->graph;
    note("cuStreamEndCapture",
         details("stream=", number_of(handle), " nodes=", graphs().find(*graph)->nodes.size()));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return ask("cuStreamIsCapturing", Needs::initialisation, [&](Lock&) {
    std::shared_ptr<Stream> stream;
    const CUresult found = find_stream(handle, stream);
    if (found == CUDA_SUCCESS) *status = status_of(*stream);
    return found;
  });
}

CUresult cuGraphInstantiate(CUgraphExec* handle, CUgraph graph_handle, unsigned long long) {
  return call("cuGraphInstantiate", Needs::initialisation, [&](Lock&) {
    const auto graph = graphs().find(graph_handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto exec = std::make_shared<GraphExec>();
    for (const CUgraphNode node : graph->nodes) exec->nodes.emplace_back(node, *nodes().find(node));
    *handle = execs().add(exec);
    note("cuGraphInstantiate", details("nodes=", exec->nodes.size()));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec handle, CUgraphNode node_handle,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  return call("cuGraphExecKernelNodeSetParams", Needs::initialisation, [&](Lock&) {
    const auto exec = execs().find(handle);
    // The node must still be in the graph that it was captured in.
    if (exec == nullptr || nodes().find(node_handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto at = std::find_if(exec->nodes.begin(), exec->nodes.end(),
                                 [&](const auto& row) { return row.first == node_handle; });
    if (at == exec->nodes.end() || at->second.launch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto launch = std::make_shared<Launch>(*at->second.launch);
    const CUresult changed_launch = change(*launch, *params);
    if (changed_launch != CUDA_SUCCESS) return changed_launch;
    at->second.launch = launch;
    note("cuGraphExecKernelNodeSetParams",
         details("entry=", launch->kernel->name, " node=", number_of(node_handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return call_on(stream_handle, "cuGraphLaunch", Needs::context, [&](Lock&, auto& stream) {
    const auto exec = execs().find(handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // As they are now: parameters that are set later are for later launches.
    GraphNodes all = exec->nodes;
    note("cuGraphLaunch", details("nodes=", all.size(), " stream=", number_of(stream_handle)));
    return submit(*stream, "graph", [all = std::move(all)] { return Launched(all).run(); }).result;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return call("cuGraphDestroy", Needs::initialisation, [&](Lock&) {
    if (graphs().find(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    destroy(handle);
    note("cuGraphDestroy");
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return call("cuGraphExecDestroy", Needs::initialisation, [&](Lock&) {
    if (execs().find(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    execs().remove(handle);
    note("cuGraphExecDestroy");
    return CUDA_SUCCESS;
  });
}
