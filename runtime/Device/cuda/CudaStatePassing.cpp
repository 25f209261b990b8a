// The states before each chunk of positions, one after the other: one kernel for all chunks.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/RecurrenceKernels.h"
#include "runtime/Format/StatePassingOperands.h"
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaStatePassing : public CudaStep {
public:
  explicit CudaStatePassing(const CudaPrepare &from)
      : CudaStep(from), passing_(from.step.state_passing()), parts_(passing_) {}

  Status prepare(const CudaPrepare &from) {
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {parts_.count()}));
    for (const StatePassingOperands::Operand &operand : parts_.all())
      if (operand.index >= 0)
        ZTC_RETURN_IF_ERROR(operands_.require(size_t(operand.index), operand.bytes));
    ZTC_RETURN_IF_ERROR(requireAligned());
    const uint64_t states = passing_.rows(), values = passing_.values();
    units_ = passing_.positions() ? states * ((values + kStateColumns - 1) / kStateColumns)
                                  : states * passing_.keys() * values;
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(passing_.gpu_kernels(), 1));
    kernel_ = kernels[0];
    if (kernel_.blocks(units_) > INT32_MAX)
      return dataLoss(fmt::format("{} states of {} x {} take {} blocks of a GPU, {} are the most", states,
                                  passing_.keys(), values, kernel_.blocks(units_), INT32_MAX));
    return Status::ok();
  }

  Status execute(uint32_t) override {
    using Part = StatePassingOperands::Part;
    const uint64_t keys = passing_.decay_keys(), parts = passing_.decay_parts();
    const uint64_t chunks = passing_.chunks(), states = passing_.rows(), rows = passing_.keys(),
                   values = passing_.values(), width = parts ? values / parts : 0, stride = keys > 1 ? parts : 0,
                   hasPast = passing_.past(), isReverse = passing_.reverse();
    if (!passing_.positions())
      return launch(kernel_,
                    {at(Part::Plus), at(Part::Decay), at(Part::Past), at(Part::Before), at(Part::Last), chunks, states,
                     rows, values, width, stride, keys * parts, hasPast, isReverse},
                    units_);
    return launch(kernel_,
                  {at(Part::To),
                   at(Part::From),
                   at(Part::Update),
                   at(Part::Plus),
                   at(Part::Decay),
                   at(Part::Past),
                   at(Part::Before),
                   at(Part::Last),
                   at(Part::X),
                   chunks,
                   states,
                   rows,
                   values,
                   width,
                   stride,
                   keys * parts,
                   hasPast,
                   isReverse,
                   uint64_t(passing_.plus()),
                   passing_.positions()},
                  units_);
  }

private:
  /// Of an operand that is absent any address: it is not read.
  cuda::Address at(StatePassingOperands::Part part) const {
    const int index = parts_[part].index;
    return address(size_t(index < 0 ? parts_[StatePassingOperands::Before].index : index));
  }

  const plan::StatePassing passing_;
  const StatePassingOperands parts_;
  CudaKernel kernel_;
  uint64_t units_ = 0;
};

} // namespace

PreparedStep prepareCudaStatePassing(const CudaPrepare &from) {
  auto step = std::make_unique<CudaStatePassing>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
