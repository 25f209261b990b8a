// What is known about a kind of step without a device: whether a record is valid, its text, what it moves, what bounds
// it, who executes it. One file for each kind in this folder, one table: StepKinds.def, which plan.proto gives.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/Steps/StepCheck.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ztc {

/// Which of a machine's rates bounds a step.
enum class StepWork {
  None,            ///< it takes no time
  Kernel,          ///< a generated kernel's, or that of memory
  Product,         ///< f32 matrix products
  NarrowProduct,   ///< those of bf16 and f16
  Attention,       ///< products between which rows are worked on
  NarrowAttention, ///< the same in bf16 and f16
  Wire,            ///< what ranks send one another
  Fp8Product,      ///< products of fp8 codes
  HostLink,        ///< what moves between the device and page-locked memory
  DiskLink,        ///< what moves between the device and a file
  HostKernel,      ///< a generated kernel's on the host's cores, whatever the device is
};

/// Who executes a library call on the host or on a GPU, and why it is that one.
struct CallExecution {
  const char *where; ///< "host", "gpu"
  std::string library, reason;
  std::vector<uint32_t> kernels; ///< generated ones that it calls; indices in the plan
};

/// The sizes of a step's operands in one shape of a run.
struct StepSizes {
  const plan::Plan &plan;
  const plan::Step &step;
  std::function<uint64_t(uint32_t)> slotBytes; ///< of a slot of the plan by its index
  uint64_t world;                              ///< ranks
  uint64_t microSteps;                         ///< of an optimizer step
  bool onGpu;

  /// Bytes of all operands: each once, twice where it is read and written. Scratch is left out on request.
  uint64_t operandBytes(bool withScratch) const;
  /// Of one of them; 0 where its slot is none of the plan's.
  uint64_t operandBytes(int index) const;
};

/// A kind of step. The steps that its functions get are of this kind; but for `validate` they are valid.
class StepDefinition {
public:
  virtual ~StepDefinition() = default;

  /// Ok, or DataLoss with the fact. Operands lie in slots of the plan.
  virtual Status validate(const StepCheck &check) const = 0;
  /// Name and sizes: "gemm 512x256x688 bT". Indices that the plan does not have are "?".
  virtual std::string text(const plan::Plan &plan, const plan::Step &step) const = 0;
  /// What runs, whoever calls it: equal for the steps of equal layers.
  virtual std::string callText(const plan::Plan &plan, const plan::Step &step) const { return text(plan, step); }
  /// The row of a profile's table that it belongs to.
  virtual const char *family(const plan::Step &step) const = 0;
  /// Bytes that one execution must read and write at least.
  virtual uint64_t bytes(const StepSizes &sizes) const { return sizes.operandBytes(/*withScratch=*/false); }
  virtual StepWork work(const plan::Plan &, const plan::Step &) const { return StepWork::Kernel; }
  /// Whether it may be on the stream of the collectives.
  virtual bool isCommunication() const { return false; }
  /// Of a library call: on the host where `host`, on a GPU where `gpu`.
  virtual std::vector<CallExecution> executions(const plan::Plan &, const plan::Step &, bool /*host*/,
                                                bool /*gpu*/) const {
    return {};
  }
};

/// The definition of the step's kind; null where it has none, or one that this program does not know.
const StepDefinition *definitionOf(const plan::Step &step);
/// What its definition says; None without one.
StepWork workOf(const plan::Plan &plan, const plan::Step &step);

/// Whether matrices are multiplied, by whichever library or kernel.
bool isProduct(StepWork work);
/// Whether the device computes it: what is sent or moved, and what the host's cores compute beside a GPU, is not.
inline bool isComputedOnDevice(StepWork work) {
  return work == StepWork::Kernel || isProduct(work);
}

// The table's entries.
#define ZTC_STEP(name) const StepDefinition &define##name();
#include "runtime/Format/Steps/StepKinds.def"

} // namespace ztc
