// What the definitions of steps ask of a record: facts that several kinds share.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// A byte count that knows that it overflowed; what is computed from it stays overflowed.
class CheckedBytes {
public:
  CheckedBytes(uint64_t value) : CheckedBytes(value, true) {}
  CheckedBytes operator*(CheckedBytes other) const {
    uint64_t product = 0;
    const bool overflows = __builtin_mul_overflow(value_, other.value_, &product);
    return {product, valid_ && other.valid_ && !overflows};
  }
  CheckedBytes operator+(CheckedBytes other) const {
    uint64_t sum = 0;
    const bool overflows = __builtin_add_overflow(value_, other.value_, &sum);
    return {sum, valid_ && other.valid_ && !overflows};
  }
  bool isValid() const { return valid_; }
  uint64_t value() const { return value_; }

private:
  CheckedBytes(uint64_t value, bool valid) : value_(value), valid_(valid && value <= (uint64_t(1) << 62)) {}
  uint64_t value_;
  bool valid_;
};

/// A step that is being validated. Each function returns Ok, or DataLoss with the fact.
class StepCheck {
public:
  /// `slotBytes` has one entry for each slot of the plan: the smallest size that operands may rely on.
  StepCheck(const plan::Plan &plan, const std::vector<uint64_t> &slotBytes, const plan::Step &step)
      : plan(plan), step(step), slotBytes_(slotBytes) {}

  const plan::Plan &plan;
  const plan::Step &step;

  /// All operands lie in slots of the plan, those of other steps than moves in slots of the device. The other functions
  /// rely on it.
  Status operands() const;
  /// The step has so many operands.
  Status count(int wanted) const;
  /// Operand `index`, called `name`, has at least `needed` bytes.
  Status holds(int index, const char *name, CheckedBytes needed) const;
  /// Bytes of operand `index` at one rank: what it has at most.
  uint64_t bytes(int index) const;
  const plan::Slot &slotOf(int index) const { return plan.slots(int(step.operands(index).slot())); }

  Status bucket(uint32_t index) const;
  Status kernel(uint32_t index) const;
  /// The kernel is the service kernel `name` of ServiceKernels.md, whatever form of it.
  Status service(uint32_t index, std::string_view name) const;
  /// The same of what the host calls; absent in a plan for GPUs alone.
  Status hostService(uint32_t index, std::string_view name, bool isForGpus) const;
  /// There are no kernels for GPUs, or these service kernels in this order.
  template <typename Record> Status gpuServices(const Record &record, const std::vector<std::string> &names) const {
    return gpuServices({record.gpu_kernels().begin(), record.gpu_kernels().end()}, names);
  }
  Status gpuServices(const std::vector<uint32_t> &kernels, const std::vector<std::string> &names) const;

  static Status event(uint32_t index);
  static Status accumulation(plan::Accumulate mode);
  /// A type that tensors of library calls may have.
  static Status real(plan::DataType type);

private:
  Status piece(int index) const;
  const std::vector<uint64_t> &slotBytes_;
};

/// What the names of kernels made for tensors of this type have in them: "_bf16", "_f16", nothing.
std::string kernelTypeSuffix(plan::DataType type);

} // namespace ztc
