// Two functions by names that cuda.h gives to newer versions of them: what the library looks up in
// drivers of any age.
#include "events.h"
#include "graphs.h"
#include "runtime.h"

#undef cuEventElapsedTime

#define STUB_FUNCTION extern "C" __attribute__((visibility("default"))) CUresult

STUB_FUNCTION cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return stub::ask("cuEventElapsedTime", stub::Needs::initialisation,
                   [&](stub::Lock&) { return stub::elapsed(ms, start, end); });
}

STUB_FUNCTION cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                        cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies, std::size_t* count) {
  return stub::ask("cuStreamGetCaptureInfo", stub::Needs::initialisation, [&](stub::Lock&) {
    return stub::capture_info(stream, status, id, graph, dependencies, count);
  });
}
