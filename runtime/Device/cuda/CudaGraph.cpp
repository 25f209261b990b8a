#include "runtime/Device/cuda/CudaGraph.h"
#include <string>
#include <utility>

namespace ztc {
namespace {

constexpr const char *kAdvice = "the program cannot be recorded as a CUDA graph; ZTC_CUDA_GRAPHS=0 runs without graphs";

class CudaGraphProgram : public RecordedProgram {
public:
  CudaGraphProgram(CudaResources &resources, ProgramEnds &ends, Traffic traffic)
      : resources_(resources), ends_(ends), traffic_(traffic),
        collectives_(resources.collective ? "a graph's collectives up to " + std::string(resources.collective) : "") {}
  ~CudaGraphProgram() override {
    if (graph_)
      resources_.driver.cuGraphExecDestroy(graph_);
  }

  Status create(cuda::Graph graph) {
    // Without this flag a graph's nodes forget the priorities of the streams that they were captured on, and
    // collectives begin after whole waves of products.
    return resources_.driver.check(
        resources_.driver.cuGraphInstantiateWithFlags(&graph_, graph, cuda::kGraphUseNodePriority),
        "cuGraphInstantiate");
  }

  Status launch() override {
    const CudaDriver &driver = resources_.driver;
    ZTC_RETURN_IF_ERROR(
        driver.check(driver.cuGraphLaunch(graph_, resources_.streams[kComputeStream]), "cuGraphLaunch"));
    if (resources_.board && !collectives_.empty())
      resources_.board->beginCollective(collectives_.c_str());
    // What the recording itself counted was that of the first launch.
    if (resources_.communicator && std::exchange(isLaunched_, true))
      resources_.communicator->addTraffic(traffic_);
    ZTC_RETURN_IF_ERROR(ends_.mark());
    return resources_.communicator ? resources_.communicator->status() : Status::ok();
  }

private:
  CudaResources &resources_;
  ProgramEnds &ends_;
  const Traffic traffic_;         ///< of one launch
  const std::string collectives_; ///< for those who ask where this rank is
  cuda::GraphExec graph_ = nullptr;
  bool isLaunched_ = false;
};

} // namespace

Status CudaRecorder::begin() {
  const CudaDriver &driver = resources_.driver;
  before_ = resources_.communicator ? resources_.communicator->traffic() : Traffic();
  ZTC_RETURN_IF_ERROR(
      driver.check(driver.cuStreamBeginCapture_v2(resources_.streams[kComputeStream], cuda::kCaptureThreadLocal),
                   "cuStreamBeginCapture"));
  resources_.collective = nullptr;
  isRecording_ = true;
  return Status::ok();
}

StatusOr<std::unique_ptr<RecordedProgram>> CudaRecorder::end(ProgramEnds &ends) {
  const CudaDriver &driver = resources_.driver;
  isRecording_ = false;
  cuda::Graph graph = nullptr;
  if (Status ended =
          driver.check(driver.cuStreamEndCapture(resources_.streams[kComputeStream], &graph), "cuStreamEndCapture");
      !ended.isOk())
    return ended.withContext(kAdvice);
  Traffic traffic;
  if (resources_.communicator) {
    const Traffic now = resources_.communicator->traffic();
    traffic = {now.allGather - before_.allGather, now.reduceScatter - before_.reduceScatter,
               now.allReduce - before_.allReduce};
  }
  auto program = std::make_unique<CudaGraphProgram>(resources_, ends, traffic);
  const Status made = program->create(graph);
  driver.cuGraphDestroy(graph);
  ZTC_RETURN_IF_ERROR(made.withContext(kAdvice));
  return std::unique_ptr<RecordedProgram>(std::move(program));
}

} // namespace ztc
