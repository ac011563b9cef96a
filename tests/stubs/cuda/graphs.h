// Captures, the graphs that they give, and what is made of those to be launched. What was captured
// from one stream runs in order, and beside what was captured from others, but for what a node was
// made to wait for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "handles.h"
#include "kernels.h"
#include "streams.h"

namespace stub {

struct Node {
  std::string what;
  std::function<CUresult()> run;         ///< null for a kernel
  std::shared_ptr<const Launch> launch;  ///< null for anything else
  std::vector<CUgraphNode> after = {};   ///< what must be done before
};

struct Graph {
  std::vector<CUgraphNode> nodes;
};

struct GraphExec {
  std::vector<std::pair<CUgraphNode, Node>> nodes;
};

struct Capture {
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  Stream* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool valid = true;
  /// By stream: the nodes that its next one depends on; none before the first.
  std::map<const Stream*, std::vector<CUgraphNode>> last;
  std::map<Stream*, bool>
      unjoined;  ///< streams that joined, and whether the origin must still wait for them
};

/// Records a node in the stream's capture.
CUresult capture(Stream& stream, Node node);

/// `stream` waits for an event that was recorded behind `nodes` by `recorder` in `capture`: it
/// becomes part of the capture.
CUresult join(Stream& stream, const std::shared_ptr<Capture>& capture, Stream* recorder,
              const std::vector<CUgraphNode>& nodes);

/// Graphs and executable ones.
std::size_t live_graphs();

/// Under the lock. The id, graph and last node of a stream's capture; null where there is none.
CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph, const CUgraphNode** dependencies, std::size_t* count);

}  // namespace stub
