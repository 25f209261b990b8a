// Selective scans, or their cotangents.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/ScanOperands.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// A kernel for packed rows has a buffer more, and says so in its name.
Status checkPacked(const StepCheck &check, uint32_t kernel, bool packed) {
  const std::string &name = check.plan.kernels(int(kernel)).name();
  if ((name.find("_packed") != std::string::npos) != packed)
    return dataLoss(fmt::format("kernel '{}' of a selective scan that is {}packed", name, packed ? "" : "not "));
  return Status::ok();
}

Status checkKernels(const StepCheck &check, const SelectiveScan &scan) {
  const std::string name = scan.grad() ? "selective_scan_grad" : "selective_scan";
  ZTC_RETURN_IF_ERROR(check.gpuServices(scan, {fmt::format("gpu_{}_{}", name, scan.states())}));
  ZTC_RETURN_IF_ERROR(check.hostService(scan.scan_kernel(), name, !scan.gpu_kernels().empty()));
  for (uint32_t kernel : scan.gpu_kernels())
    ZTC_RETURN_IF_ERROR(checkPacked(check, kernel, scan.packed()));
  return scan.scan_kernel() == kAbsent ? Status::ok() : checkPacked(check, scan.scan_kernel(), scan.packed());
}

class SelectiveScanDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const SelectiveScan &scan = check.step.selective_scan();
    if (!scan.batch() || !scan.positions() || !scan.channels() || !scan.states() || !scan.chunk())
      return dataLoss("selective_scan with a size of zero");
    if (scan.channels() % kScanLanes || scan.states() > kMaxScanStates || scan.chunk() % kScanTurn ||
        scan.positions() > INT32_MAX || scan.chunk() > INT32_MAX)
      return dataLoss(fmt::format("selective_scan of {} positions in chunks of {}, {} channels with states of {}",
                                  scan.positions(), scan.chunk(), scan.channels(), scan.states()));
    const std::vector<ScanOperand> operands = scanOperands(scan);
    ZTC_RETURN_IF_ERROR(check.count(int(operands.size())));
    ZTC_RETURN_IF_ERROR(checkKernels(check, scan));
    // What a device's scratch is a multiple of.
    if (!(operands[0].bytes * kMaxScanStates * scan.chunk()).isValid())
      return dataLoss(fmt::format("the sizes of a selective_scan of {} rows overflow", scan.batch()));
    for (int index = 0; index < int(operands.size()); ++index)
      ZTC_RETURN_IF_ERROR(check.holds(index, operands[size_t(index)].name, operands[size_t(index)].bytes));
    return Status::ok();
  }

  std::string text(const Plan &, const Step &step) const override {
    const SelectiveScan &scan = step.selective_scan();
    return fmt::format("selective_scan{} B{} T{} D{} N{} in chunks of {}{}", scan.grad() ? "_grad" : "", scan.batch(),
                       scan.positions(), scan.channels(), scan.states(), scan.chunk(), scan.packed() ? " packed" : "");
  }

  const char *family(const Step &step) const override {
    return step.selective_scan().grad() ? "selective scan gradient" : "selective scan";
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    const SelectiveScan &scan = step.selective_scan();
    std::vector<CallExecution> executions;
    if (host)
      executions.push_back({"host", "own kernel", "states of 16 channels in the first cache", {scan.scan_kernel()}});
    if (gpu)
      executions.push_back(
          {"gpu", "own kernel", "states in registers, four threads a channel; no atomics", gpuKernelsOf(scan)});
    return executions;
  }
};

} // namespace

const StepDefinition &defineSelectiveScan() {
  static const SelectiveScanDefinition definition;
  return definition;
}

} // namespace ztc
