// Collectives, and the events that tie their stream to that of the computation.
#include "runtime/Device/LowerMemory.h"
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/HostStreams.h"
#include "runtime/Format/PlanValidator.h"
#include <atomic>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

class HostCollective : public HostStep, public StreamTask {
public:
  explicit HostCollective(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Collective &collective = from.step.collective();
    communicator_ = from.context.communicator;
    board_ = from.context.board;
    name_ = from.step.name().c_str();
    kind_ = collective.kind();
    type_ = collective.type();
    waits_ = from.step.stream() == 0;
    world_ = from.context.shape.world;
    ZTC_RETURN_IF_ERROR(resolve(from, {2}));
    ZTC_RETURN_IF_ERROR(checkSizes(from));
    ZTC_RETURN_IF_ERROR(checkCommunicator(from.context));
    if (world_ > 1)
      resources_.streams.start();
    return Status::ok();
  }

  Status execute(uint32_t) override {
    if (world_ == 1)
      return alone();
    ZTC_RETURN_IF_ERROR(resources_.streams.enqueue(*this));
    return waits_ ? resources_.streams.drain() : Status::ok();
  }

  uint64_t queuedNanoseconds() const override { return waits_ ? 0 : nanoseconds_.load(std::memory_order_relaxed); }

  const char *name() const override { return name_; }
  Communicator *communicator() const override { return communicator_; }
  ProgressBoard *board() const override { return board_; }

  Status run() override {
    const uint64_t before = traceClock();
    Status status = collect();
    nanoseconds_.fetch_add(traceClock() - before, std::memory_order_relaxed);
    return status;
  }

private:
  Status checkSizes(const HostPrepare &from) {
    const plan::Collective &collective = from.step.collective();
    if (kind_ == plan::Collective::ALL_REDUCE) {
      ZTC_RETURN_IF_ERROR(require(from, 0, sizeof(float)));
      return world_ == 1 ? Status::ok() : require(from, 1, world_ * sizeof(float));
    }
    if (kind_ == plan::Collective::ALL_REDUCE_MAX) {
      count_ = operandBytes(0) / sizeof(float);
      return world_ == 1 ? Status::ok() : requireElements(from, 1, {count_, world_}, sizeof(float));
    }
    const uint64_t elementBytes = dataTypeBytes(type_);
    ZTC_ASSIGN_OR_RETURN(shardElements_, shardOfCollective(collective, from.context));
    if (kind_ == plan::Collective::ALL_GATHER) {
      ZTC_RETURN_IF_ERROR(requireElements(from, 0, {shardElements_}, elementBytes));
      return requireElements(from, 1, {shardElements_, world_}, elementBytes);
    }
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {shardElements_, world_}, elementBytes));
    return world_ == 1 ? Status::ok()
                       : require(from, 1, Communicator::minimumScratchBytes(uint32_t(world_), elementBytes));
  }

  /// One rank has everything already. Where the plan did not make shard and full an alias, it is a copy.
  Status alone() {
    if (kind_ == plan::Collective::ALL_GATHER && pointer(0) != pointer(1))
      std::memcpy(pointer(1), pointer(0), shardElements_ * dataTypeBytes(type_));
    return Status::ok();
  }

  Status collect() {
    const CollectiveCall call{name_};
    switch (kind_) {
    case plan::Collective::ALL_GATHER:
      return communicator_->allGather(pointer(0), pointer(1), shardElements_, type_, call);
    case plan::Collective::REDUCE_SCATTER:
      return communicator_->reduceScatter(pointer(0), shardElements_, type_, pointer(1), operandBytes(1), call);
    case plan::Collective::ALL_REDUCE:
      return communicator_->allReduce(pointer<float>(0), 1, pointer(1), operandBytes(1), call);
    case plan::Collective::ALL_REDUCE_MAX:
      return communicator_->allReduceMax(pointer<float>(0), count_, pointer(1), operandBytes(1), call);
    default:
      return dataLoss("a collective of no known kind");
    }
  }

  Communicator *communicator_ = nullptr;
  ProgressBoard *board_ = nullptr;
  const char *name_ = ""; ///< belongs to the plan
  plan::Collective::Kind kind_ = plan::Collective::ALL_GATHER;
  plan::DataType type_ = plan::F32;
  bool waits_ = false; ///< it stands on stream 0, which goes on when it is done
  uint64_t world_ = 1;
  uint64_t shardElements_ = 0;
  uint64_t count_ = 0; ///< of maxima
  std::atomic<uint64_t> nanoseconds_{0};
};

/// An event of another stream than 0. One of stream 0 has happened by the time that anybody can wait for it: nothing to
/// do. The same holds for collectives at one rank, where nothing is sent.
class HostEvent : public DeviceStep {
public:
  /// `waited`: nanoseconds that the computation stood still; may be null.
  HostEvent(HostStreams &streams, uint32_t event, bool isWait, std::atomic<uint64_t> *waited)
      : streams_(streams), event_(event), isWait_(isWait), waited_(waited) {}
  Status initialize(std::byte *) override { return Status::ok(); }
  Status execute(uint32_t) override {
    if (!isWait_) {
      streams_.record(event_);
      return Status::ok();
    }
    const uint64_t before = traceClock();
    Status status = streams_.wait(event_);
    if (waited_)
      waited_->fetch_add(traceClock() - before, std::memory_order_relaxed);
    return status;
  }

private:
  HostStreams &streams_;
  const uint32_t event_;
  const bool isWait_;
  std::atomic<uint64_t> *const waited_;
};

/// A Wait of another stream than 0, a Record of stream 0.
bool happensByItself(const plan::Step &step) {
  return (step.stream() == 0) == step.has_record();
}

/// The stream that records the event. Records stand before their waits.
uint32_t recordingStream(const HostPrepare &from, uint32_t event) {
  std::vector<uint8_t> &streams = from.resources.eventStreams;
  if (streams.size() <= event)
    streams.resize(size_t(event) + 1, 1);
  if (from.step.has_record())
    streams[event] = uint8_t(from.step.stream());
  return streams[event];
}

PreparedStep prepareEvent(const HostPrepare &from, uint32_t event) {
  if (event >= 1u << 20)
    return dataLoss(fmt::format("event {} is out of any range", event));
  const bool isMove = recordingStream(from, event) == 2;
  if ((from.context.shape.world == 1 && !isMove) || happensByItself(from.step))
    return prepareHostNothing();
  HostStreams &streams = isMove ? from.resources.moves : from.resources.streams;
  streams.reserveEvent(event);
  std::atomic<uint64_t> *const waited = isMove && from.context.lower ? &from.context.lower->counters().waited : nullptr;
  return PreparedStep(std::make_unique<HostEvent>(streams, event, from.step.has_wait(), waited));
}

} // namespace

PreparedStep prepareHostCollective(const HostPrepare &from) {
  auto step = std::make_unique<HostCollective>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareHostRecord(const HostPrepare &from) {
  return prepareEvent(from, from.step.record().event());
}

PreparedStep prepareHostWait(const HostPrepare &from) {
  return prepareEvent(from, from.step.wait().event());
}

} // namespace ztc
