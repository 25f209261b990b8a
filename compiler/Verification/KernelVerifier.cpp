#include "compiler/Verification/KernelVerifier.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Reference/Interpreter.h"
#include "compiler/Reference/TensorBytes.h"
#include "compiler/Verification/KernelImages.h"
#include "compiler/Verification/UnitCase.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace ztc::verification {
namespace {

using Bytes = std::vector<char>;

/// Largest group that is interpreted, in elements of operands and results.
constexpr int64_t kMostElements = int64_t(1) << 24;

/// One group with operands, and what it must give.
struct Case {
  std::vector<Bytes> operands;
  std::vector<Tensor> expected;
  int64_t length = 0;                  ///< of a bucket, where the group works on one
  std::map<int64_t, unsigned> inPlace; ///< results that are written where an operand is read
};

/// What the launches of a group work on.
struct Memory {
  std::vector<Bytes> operands, results;
  Bytes workspace;
  const std::map<int64_t, unsigned> &inPlace;

  Memory(const Case &test, uint64_t workspaceBytes)
      : operands(test.operands), workspace(workspaceBytes + 64, char(0x7f)), inPlace(test.inPlace) {
    for (const Tensor &expected : test.expected)
      results.push_back(Bytes(toBytes(expected).size(), char(0x7f)));
  }
  Bytes &of(int64_t kind, int64_t index) {
    if (auto operand = inPlace.find(index); kind == 1 && operand != inPlace.end())
      return operands[operand->second];
    return kind == 0 ? operands[size_t(index)] : kind == 1 ? results[size_t(index)] : workspace;
  }
};

/// One launch with everything that the plan leaves open.
KernelRun runOf(kernel::ScheduleAttr schedule, const Case &test, Memory &memory) {
  KernelRun run;
  run.kernel = schedule.getKernel().getValue().str();
  run.scalars = std::vector<int64_t>(schedule.getScalars().asArrayRef());
  run.extent = int64_t(schedule.getExtent());
  for (ArrayRef<int64_t> left = schedule.getBuffers(); !left.empty(); left = left.drop_front(3)) {
    Bytes &buffer = memory.of(left[0], left[1]);
    run.buffers.push_back(buffer.data());
    run.sizes.push_back(buffer.size());
  }
  if (const auto block = int64_t(schedule.getFlatBlock()); block && test.length) {
    if (run.scalars.empty())
      run.scalars = {test.length, 0};
    if (run.extent == 0)
      run.extent = (test.length + block - 1) / block;
  }
  return run;
}

class Runs {
public:
  Runs(ModuleOp module, ModuleOp forms) : module(module), forms(forms), images(module, report.gaps) {}

  KernelReport run() {
    if (!images.hasHost())
      report.gaps.push_back("kernels: the plan has none for this machine's processor");
    for (auto function : module.getOps<func::FuncOp>())
      function.walk([&](graph::FusionOp group) {
        auto launches = group->getAttrOfType<ArrayAttr>(plan_ir::kLaunches);
        if (launches && !images.all().empty() && seen.insert(keyOf(launches)).second)
          runGroup(group, launches);
      });
    return std::move(report);
  }

private:
  static std::string keyOf(ArrayAttr launches) {
    std::string key;
    for (auto schedule : launches.getAsRange<kernel::ScheduleAttr>())
      key += (schedule.getKernel().getValue() + " ").str();
    return key;
  }

  /// What the kernels of `group` are to compute: what its form does, where a pass has changed that on purpose.
  Block &meaningOf(graph::FusionOp group, ArrayAttr launches) {
    if (forms && !launches.empty())
      if (auto form = forms.lookupSymbol<kernel::FuncOp>(cast<kernel::ScheduleAttr>(launches[0]).getKernel().getAttr()))
        return form.getBody().front();
    return group->getRegion(0).front();
  }

  std::optional<Case> prepare(graph::FusionOp group, Block &meaning);
  void runGroup(graph::FusionOp group, ArrayAttr launches);
  /// Whether the launch was made; a gap or a fault otherwise.
  bool launch(const RunnableImage &image, const KernelRun &run, bool descending);
  void compare(const std::string &who, const Case &test, Memory &memory);

  ModuleOp module, forms;
  KernelReport report;
  KernelImages images; ///< after the report, which has what they lack
  llvm::StringSet<> seen;
};

std::optional<Case> Runs::prepare(graph::FusionOp group, Block &meaning) {
  const Interpreter sizes({});
  Case test;
  test.inPlace = resultsInPlace(group);
  std::vector<Tensor> tensors;
  int64_t elements = 0;
  for (auto [index, type] : llvm::enumerate(group->getOperandTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    if (!tensor.hasStaticShape()) {
      FailureOr<FlatRange> range = sizes.flatRange(group, type);
      if (failed(range))
        return std::nullopt;
      test.length = range->length;
      tensor = RankedTensorType::get({range->length}, tensor.getElementType());
    }
    elements += tensor.getNumElements();
    if (elements > kMostElements) {
      report.gaps.push_back("kernels of " + group.getName().str() + ": the group is too large to be interpreted");
      return std::nullopt;
    }
    tensors.push_back(randomOperand(tensor, unsigned(index) + 1));
    test.operands.push_back(toBytes(tensors.back()));
  }
  InterpreterOptions options;
  options.precision = Precision::F32; // as kernels do: what cancels, cancels alike
  std::string why;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    why = diagnostic.str();
    return success();
  });
  FailureOr<SmallVector<Tensor>> expected = Interpreter(options).run(meaning, tensors);
  if (failed(expected)) {
    report.gaps.push_back("kernels of " + group.getName().str() + ": " + why);
    return std::nullopt;
  }
  test.expected.assign(expected->begin(), expected->end());
  return test;
}

bool Runs::launch(const RunnableImage &image, const KernelRun &run, bool descending) {
  const std::optional<KernelVersion> version = images.versionOf(image, run.kernel);
  bool isThere = version.has_value();
  if (isThere && image.simt) {
    llvm::Error failed = KernelImages::runOnEngine(image, *version, run, 0, 0, descending);
    if (!failed)
      return true;
    report.wrong.push_back("kernel " + run.kernel + " (" + image.target + "): " + llvm::toString(std::move(failed)));
    return false;
  }
  // In two pieces, the second one first, as threads may.
  isThere = isThere && KernelImages::runOnHost(image, run, run.extent / 2, run.extent) &&
            KernelImages::runOnHost(image, run, 0, run.extent / 2);
  if (!isThere)
    report.gaps.push_back("kernel " + run.kernel + ": it is not in the image for " + image.target);
  return isThere;
}

void Runs::runGroup(graph::FusionOp group, ArrayAttr launches) {
  std::optional<Case> test = prepare(group, meaningOf(group, launches));
  if (!test)
    return;
  ++report.groups;
  uint64_t workspaceBytes = 0;
  if (auto bytes = group->getAttrOfType<IntegerAttr>(plan_ir::kWorkspaceBytes))
    workspaceBytes = uint64_t(bytes.getInt());
  const std::string name = cast<kernel::ScheduleAttr>(launches[launches.size() - 1]).getKernel().getValue().str();
  for (const RunnableImage &image : images.all())
    for (const bool descending : {false, true}) {
      if (descending && !image.simt)
        continue;
      Memory memory(*test, workspaceBytes);
      if (!llvm::all_of(launches.getAsRange<kernel::ScheduleAttr>(), [&](kernel::ScheduleAttr schedule) {
            return launch(image, runOf(schedule, *test, memory), descending);
          }))
        return;
      report.onEngine |= image.simt.has_value();
      compare(name + " (" + image.target + ")", *test, memory);
    }
}

void Runs::compare(const std::string &who, const Case &test, Memory &memory) {
  for (auto [number, want] : llvm::enumerate(test.expected)) {
    // What a master has below its bf16 parameter says nothing without that.
    if (want.elementType.isInteger(16))
      continue;
    Tensor got = fromBytes(memory.of(1, int64_t(number)), want.type());
    double largest = 1;
    for (double x : want.reals)
      largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0);
    const double tolerance = toleranceOf(want.elementType) * largest;
    for (int64_t i = 0; i < want.count(); ++i) {
      const double is = want.isReal() ? got.reals[i] : double(got.integers[i]),
                   expected = want.isReal() ? want.reals[i] : double(want.integers[i]);
      const bool same = is == expected || (std::isnan(is) && std::isnan(expected)) ||
                        (want.isReal() && std::abs(is - expected) <= tolerance);
      if (same)
        continue;
      report.wrong.push_back(llvm::formatv("kernel {0}: result {1}, element {2} is {3:e6}, its group gives {4:e6}", who,
                                           number, i, is, expected));
      return;
    }
  }
}

} // namespace

KernelReport verifyKernels(ModuleOp module, ModuleOp forms) {
  return Runs(module, forms).run();
}

} // namespace ztc::verification
