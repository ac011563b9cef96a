// Captures, the graphs that they give, and what is made of those to be launched. A graph's nodes run one after the
// other, in the order in which they were captured, which is one of those that their dependencies allow.
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
  std::vector<CUgraphNode> last;  ///< the node that the next one depends on; empty before the first
  std::map<Stream*, bool>
      unjoined;  ///< streams that joined, and whether the origin must still wait for them
};

/// Records a node in the stream's capture.
CUresult capture(Stream& stream, Node node);

/// `stream` waits for an event that was recorded by `recorder` in `capture`: it becomes part of the capture.
CUresult join(Stream& stream, const std::shared_ptr<Capture>& capture, Stream* recorder);

/// Graphs and executable ones.
std::size_t live_graphs();

/// Under the lock. The id, graph and last node of a stream's capture; null where there is none.
CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph, const CUgraphNode** dependencies, std::size_t* count);

}  // namespace stub
