#include "runtime/Format/Steps/StepCheck.h"
#include "runtime/Format/HostLaunch.h"
#include "runtime/Format/Pieces.h"
#include "runtime/Format/PlanValidator.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

Status StepCheck::operands() const {
  for (int i = 0; i < step.operands_size(); ++i) {
    const Operand &operand = step.operands(i);
    if (operand.slot() >= slotBytes_.size())
      return dataLoss(fmt::format("operand {}: slot {}, but there are {}", i, operand.slot(), slotBytes_.size()));
    const uint64_t slot = slotBytes_[operand.slot()];
    if (operand.offset() > slot || operand.bytes() > slot - operand.offset())
      return dataLoss(fmt::format("operand {}: {} bytes from {} leave slot {} '{}' of {} bytes", i, operand.bytes(),
                                  operand.offset(), operand.slot(), slotOf(i).name(), slot));
    if (!Operand::Access_IsValid(operand.access()))
      return dataLoss(fmt::format("operand {}: unknown access {}", i, int(operand.access())));
    if (operand.own_shard() && (slotOf(i).size().kind() != SizeForm::FULL || operand.offset() || operand.bytes()))
      return dataLoss(fmt::format("operand {}: the own shard of slot {} '{}', which is not full, or a piece of it", i,
                                  operand.slot(), slotOf(i).name()));
    ZTC_RETURN_IF_ERROR(piece(i));
    if (computesOnHost(step)) {
      if (slotOf(i).space() != HOST)
        return dataLoss(fmt::format("operand {}: slot {} '{}' is not in the host's memory, where its cores work", i,
                                    operand.slot(), slotOf(i).name()));
    } else if (slotOf(i).space() != DEVICE && !step.has_move())
      return dataLoss(fmt::format("operand {}: slot {} '{}' is not on the device, where steps other than moves work", i,
                                  operand.slot(), slotOf(i).name()));
  }
  return Status::ok();
}

/// Pieces are of buckets, a multiple of what shards are cut in.
Status StepCheck::piece(int index) const {
  const Operand &operand = step.operands(index);
  if (operand.piece_elements() == 0 && operand.piece() == 0)
    return Status::ok();
  const SizeForm &size = slotOf(index).size();
  const bool isBucket = size.kind() == SizeForm::SHARD || size.kind() == SizeForm::FULL;
  if (!isBucket || operand.offset() || operand.bytes() || operand.piece_elements() == 0 ||
      operand.piece_elements() > (uint64_t(1) << 40) || operand.piece_elements() % shardQuantum(size.quantum()) != 0 ||
      (size.block_elements() && operand.piece_elements() % size.block_elements() != 0))
    return dataLoss(fmt::format("operand {}: piece {} of {} elements of slot {} '{}'", index, operand.piece(),
                                operand.piece_elements(), operand.slot(), slotOf(index).name()));
  return Status::ok();
}

uint64_t StepCheck::bytes(int index) const {
  const Operand &operand = step.operands(index);
  const uint64_t slot = slotBytes_[operand.slot()];
  if (operand.piece_elements() == 0)
    return operand.bytes() ? operand.bytes() : slot - operand.offset();
  const PieceBytes piece = pieceBytes(slotOf(index).size(), operand, slot);
  return piece.bytes;
}

Status StepCheck::count(int wanted) const {
  if (step.operands_size() != wanted)
    return dataLoss(fmt::format("{} operands, {} are needed", step.operands_size(), wanted));
  return Status::ok();
}

Status StepCheck::holds(int index, const char *name, CheckedBytes needed) const {
  const uint64_t present = bytes(index);
  if (!needed.isValid())
    return dataLoss(fmt::format("the size of operand {} ({}) overflows", index, name));
  if (needed.value() > present)
    return dataLoss(fmt::format("operand {} ({}) has {} bytes, {} are needed", index, name, present, needed.value()));
  return Status::ok();
}

Status StepCheck::bucket(uint32_t index) const {
  if (index >= static_cast<uint32_t>(plan.buckets_size()))
    return dataLoss(fmt::format("bucket {}, but there are {}", index, plan.buckets_size()));
  return Status::ok();
}

Status StepCheck::kernel(uint32_t index) const {
  if (index >= static_cast<uint32_t>(plan.kernels_size()))
    return dataLoss(fmt::format("kernel {}, but there are {}", index, plan.kernels_size()));
  return Status::ok();
}

/// The kernels of ServiceKernels.md whose names begin with that of another one.
static constexpr std::string_view kLongerNames[] = {"attention_softmax_grad",
                                                    "cross_entropy_rows_loss",
                                                    "cross_entropy_rows_weighted",
                                                    "cross_entropy_rows_loss_weighted",
                                                    "selective_scan_grad",
                                                    "gpu_attention_delta",
                                                    "gpu_attention_grad_keys",
                                                    "gpu_attention_grad_queries",
                                                    "gpu_cross_entropy_rows_loss",
                                                    "gpu_cross_entropy_rows_weighted",
                                                    "gpu_cross_entropy_rows_loss_weighted"};

Status StepCheck::service(uint32_t index, std::string_view name) const {
  ZTC_RETURN_IF_ERROR(kernel(index));
  const std::string &found = plan.kernels(int(index)).name();
  bool is = found.starts_with(name) && (found.size() == name.size() || found[name.size()] == '_');
  for (std::string_view longer : kLongerNames)
    is &= !found.starts_with(longer) || name.starts_with(longer);
  return is ? Status::ok() : dataLoss(fmt::format("kernel {} '{}' is not the service kernel {}", index, found, name));
}

Status StepCheck::hostService(uint32_t index, std::string_view name, bool isForGpus) const {
  return index == kAbsent && isForGpus ? Status::ok() : service(index, name);
}

Status StepCheck::gpuServices(const std::vector<uint32_t> &kernels, const std::vector<std::string> &names) const {
  if (kernels.empty())
    return Status::ok();
  if (kernels.size() != names.size())
    return dataLoss(fmt::format("{} kernels for GPUs, {} are needed", kernels.size(), names.size()));
  for (size_t i = 0; i < names.size(); ++i)
    ZTC_RETURN_IF_ERROR(service(kernels[i], names[i]));
  return Status::ok();
}

Status StepCheck::event(uint32_t index) {
  if (index >= 1u << 20)
    return dataLoss(fmt::format("event {} is out of any range", index));
  return Status::ok();
}

Status StepCheck::accumulation(Accumulate mode) {
  if (!Accumulate_IsValid(mode))
    return dataLoss(fmt::format("unknown accumulation {}", int(mode)));
  return Status::ok();
}

Status StepCheck::real(DataType type) {
  if (type != F32 && !isNarrow(type))
    return dataLoss(fmt::format("unknown or unsuitable type {}", int(type)));
  return Status::ok();
}

std::string kernelTypeSuffix(DataType type) {
  return isNarrow(type) ? fmt::format("_{}", dataTypeName(type)) : "";
}

} // namespace ztc
