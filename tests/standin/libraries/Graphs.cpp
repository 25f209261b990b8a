// Captures and graphs of the stand-in driver. What a graph may not hold is refused while it is captured; and where the
// order of two nodes was left open, a launch takes the later one first.
#include "tests/standin/libraries/Driver.h"
#include "tests/standin/libraries/StandIn.h"
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>

using ztc::cuda::Result;
using namespace ztc::standin;

struct CUgraph_st {
  std::vector<GraphNode> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};

namespace {

std::mutex mutex; ///< of all captures, and of the sets below
std::set<CUgraph_st *> graphs;
std::set<CUgraphExec_st *> launchable;
thread_local std::weak_ptr<Capture> ownCapture; ///< the one that this thread has begun

std::mutex callsMutex; ///< of what follows
std::map<std::string, uint64_t, std::less<>> callCounts;

/// With the mutex held.
Result refuse(Capture &capture, Result result, const std::string &why) {
  std::fprintf(stderr, "STAND-IN CUDA: NOT LEGAL IN A CAPTURE: %s\n", why.c_str());
  capture.isBroken = true;
  return result;
}

void mergeInto(std::vector<size_t> &after, const std::vector<size_t> &more) {
  for (size_t node : more)
    if (std::find(after.begin(), after.end(), node) == after.end())
      after.push_back(node);
}

/// Nodes that nothing of what comes after `after` would wait for.
size_t countLoose(const std::vector<GraphNode> &nodes, const std::vector<size_t> &after) {
  std::vector<bool> reached(nodes.size());
  std::vector<size_t> todo = after;
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    todo.insert(todo.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return size_t(std::count(reached.begin(), reached.end(), false));
}

void run(const std::vector<GraphNode> &nodes) {
  std::vector<size_t> open(nodes.size());
  std::vector<std::vector<size_t>> followers(nodes.size());
  std::set<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    open[i] = nodes[i].after.size();
    for (size_t before : nodes[i].after)
      followers[before].push_back(i);
    if (open[i] == 0)
      ready.insert(i);
  }
  while (!ready.empty()) {
    const size_t node = *ready.rbegin();
    ready.erase(node);
    nodes[node].work();
    for (size_t next : followers[node])
      if (--open[next] == 0)
        ready.insert(next);
  }
}

} // namespace

namespace ztc::standin {

bool noteWork(cuda::Stream stream, const std::function<void()> &work, Result &result) {
  std::lock_guard lock(mutex);
  CapturePoint &point = stream->captured;
  if (!point.capture)
    return false;
  result = point.capture->isBroken ? cuda::kCaptureInvalidated : cuda::kSuccess;
  std::vector<GraphNode> &nodes = point.capture->nodes;
  nodes.push_back({work, point.after});
  point.after = {nodes.size() - 1};
  return true;
}

bool noteRecord(cuda::Stream stream, EventState &event, Result &result) {
  std::lock_guard lock(mutex);
  event.captured = stream->captured;
  if (!event.captured.capture)
    return false;
  result = event.captured.capture->isBroken ? cuda::kCaptureInvalidated : cuda::kSuccess;
  return true;
}

bool noteWait(cuda::Stream stream, EventState &event, Result &result) {
  std::lock_guard lock(mutex);
  CapturePoint &point = stream->captured;
  const CapturePoint &other = event.captured;
  if (!point.capture && !other.capture)
    return false;
  result = cuda::kSuccess;
  if (!other.capture)
    result = refuse(*point.capture, cuda::kCaptureIsolation, "a wait for an event that was recorded outside");
  else if (other.capture->hasEnded) {
    std::fprintf(stderr, "STAND-IN CUDA: a wait for an event that was recorded in a capture which has ended\n");
    result = cuda::kCapturedEvent;
    if (point.capture)
      point.capture->isBroken = true;
  } else if (!point.capture) {
    point = other;
    other.capture->streams.push_back(stream);
  } else if (point.capture != other.capture)
    result = refuse(*point.capture, cuda::kCaptureMerge, "a wait for an event of another capture");
  else
    mergeInto(point.after, other.after);
  return true;
}

bool isCaptured(cuda::Stream stream) {
  std::lock_guard lock(mutex);
  return bool(stream->captured.capture);
}

Result mayWait(cuda::Stream stream) {
  countCall("waits");
  std::lock_guard lock(mutex);
  return stream->captured.capture
             ? refuse(*stream->captured.capture, cuda::kCaptureUnsupported, "the host waits for a captured stream")
             : cuda::kSuccess;
}

Result mayWait(EventState &event) {
  countCall("waits");
  std::lock_guard lock(mutex);
  return event.captured.capture
             ? refuse(*event.captured.capture, cuda::kCapturedEvent, "the host asks for an event of a capture")
             : cuda::kSuccess;
}

Result mayChange(const char *call) {
  std::lock_guard lock(mutex);
  const std::shared_ptr<Capture> own = ownCapture.lock();
  return own && !own->hasEnded ? refuse(*own, cuda::kCaptureUnsupported, call) : cuda::kSuccess;
}

void countCall(const char *what) {
  std::lock_guard lock(callsMutex);
  ++callCounts[what];
}

} // namespace ztc::standin

namespace ztc::cuda {
extern "C" {

/// For tests: what countCall() has counted.
uint64_t ztcStandInCalls(const char *what) {
  std::lock_guard lock(callsMutex);
  const auto found = callCounts.find(what);
  return found == callCounts.end() ? 0 : found->second;
}

Result cuStreamBeginCapture_v2(Stream stream, int) {
  std::lock_guard lock(mutex);
  if (stream->captured.capture)
    return kInvalidValue;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->thread = std::this_thread::get_id();
  capture->streams = {stream};
  stream->captured = {capture, {}};
  ownCapture = capture;
  return kSuccess;
}

Result cuStreamEndCapture(Stream stream, Graph *graph) {
  std::lock_guard lock(mutex);
  const std::shared_ptr<Capture> capture = stream->captured.capture;
  if (!capture || capture->origin != stream)
    return kCaptureUnmatched;
  if (capture->thread != std::this_thread::get_id())
    return kCaptureWrongThread;
  const size_t loose = countLoose(capture->nodes, stream->captured.after);
  capture->hasEnded = true;
  for (Stream other : capture->streams)
    other->captured = {};
  if (capture->isBroken)
    return kCaptureInvalidated;
  if (loose)
    return refuse(*capture, kCaptureUnjoined,
                  std::to_string(loose) + " pieces of work on other streams that the first stream does not wait for");
  *graph = new CUgraph_st{std::move(capture->nodes)};
  graphs.insert(*graph);
  return kSuccess;
}

Result cuGraphInstantiateWithFlags(GraphExec *made, Graph graph, unsigned long long flags) {
  if (!(flags & kGraphUseNodePriority))
    countCall("graphs without priorities");
  std::lock_guard lock(mutex);
  if (!graphs.count(graph))
    return kInvalidHandle;
  *made = new CUgraphExec_st{std::make_shared<const std::vector<GraphNode>>(graph->nodes)};
  launchable.insert(*made);
  return kSuccess;
}

Result cuGraphLaunch(GraphExec graph, Stream stream) {
  countCall("cuGraphLaunch");
  std::shared_ptr<const std::vector<GraphNode>> nodes;
  {
    std::lock_guard lock(mutex);
    if (!launchable.count(graph))
      return kInvalidHandle;
    nodes = graph->nodes;
    if (stream->captured.capture)
      return refuse(*stream->captured.capture, kCaptureUnsupported, "a graph in a graph");
  }
  return standin::later(stream, [nodes] { run(*nodes); });
}

Result cuGraphExecDestroy(GraphExec graph) {
  std::lock_guard lock(mutex);
  if (!launchable.erase(graph))
    return kInvalidHandle;
  delete graph; // launches that are under way have the nodes
  return kSuccess;
}

Result cuGraphDestroy(Graph graph) {
  std::lock_guard lock(mutex);
  if (!graphs.erase(graph))
    return kInvalidHandle;
  delete graph;
  return kSuccess;
}

} // extern "C"
} // namespace ztc::cuda
