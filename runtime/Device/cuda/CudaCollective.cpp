// Collectives: enqueued on their stream, like everything else; events order them with the computation.
#include "runtime/Core/NamedRange.h"
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/PlanValidator.h"

namespace ztc {
namespace {

class CudaCollective : public CudaStep {
public:
  explicit CudaCollective(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Collective &collective = from.step.collective();
    communicator_ = from.context.communicator;
    board_ = from.context.board;
    name_ = from.step.name().c_str();
    kind_ = collective.kind();
    type_ = collective.type();
    world_ = from.context.shape.world;
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {2}));
    if (kind_ == plan::Collective::ALL_REDUCE) {
      ZTC_RETURN_IF_ERROR(operands_.require(0, sizeof(float)));
    } else if (kind_ == plan::Collective::ALL_REDUCE_MAX) {
      count_ = operands_.bytes(0) / sizeof(float);
    } else {
      const uint64_t elementBytes = dataTypeBytes(type_);
      ZTC_ASSIGN_OR_RETURN(shardElements_, shardOfCollective(collective, from.context));
      shardBytes_ = shardElements_ * elementBytes;
      const bool gathers = kind_ == plan::Collective::ALL_GATHER;
      ZTC_RETURN_IF_ERROR(operands_.requireElements(gathers ? 1 : 0, {shardElements_, world_}, elementBytes));
      if (gathers)
        ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {shardElements_}, elementBytes));
    }
    ZTC_RETURN_IF_ERROR(checkCommunicator(from.context));
    if (world_ > 1)
      resources_.communicator = communicator_;
    return Status::ok();
  }

  Status execute(uint32_t) override {
    if (world_ == 1) {
      // One rank has everything already. Where the plan did not make shard and full an alias, it is a copy.
      if (kind_ != plan::Collective::ALL_GATHER || address(0) == address(1))
        return Status::ok();
      return driver().check(driver().cuMemcpyDtoDAsync_v2(address(1), address(0), shardBytes_, stream_),
                            "cuMemcpyDtoDAsync");
    }
    resources_.collective = name_;
    if (board_)
      board_->beginCollective(name_);
    const NamedRange range(name_);
    const CollectiveCall call{name_, stream_};
    switch (kind_) {
    case plan::Collective::ALL_GATHER:
      return communicator_->allGather(operands_.address(0), operands_.address(1), shardElements_, type_, call);
    case plan::Collective::REDUCE_SCATTER:
      return communicator_->reduceScatter(operands_.address(0), shardElements_, type_, operands_.address(1),
                                          operands_.bytes(1), call);
    case plan::Collective::ALL_REDUCE:
      return communicator_->allReduce(reinterpret_cast<float *>(operands_.address(0)), 1, operands_.address(1),
                                      operands_.bytes(1), call);
    case plan::Collective::ALL_REDUCE_MAX:
      return communicator_->allReduceMax(reinterpret_cast<float *>(operands_.address(0)), count_, operands_.address(1),
                                         operands_.bytes(1), call);
    default:
      return dataLoss("a collective of no known kind");
    }
  }

private:
  Communicator *communicator_ = nullptr;
  ProgressBoard *board_ = nullptr;
  const char *name_ = ""; ///< belongs to the plan
  plan::Collective::Kind kind_ = plan::Collective::ALL_GATHER;
  plan::DataType type_ = plan::F32;
  uint64_t world_ = 1;
  uint64_t shardElements_ = 0, shardBytes_ = 0;
  uint64_t count_ = 0; ///< of maxima
};

} // namespace

PreparedStep prepareCudaCollective(const CudaPrepare &from) {
  auto step = std::make_unique<CudaCollective>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
