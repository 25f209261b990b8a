#include "compiler/Verification/KernelVerifier.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Reference/Interpreter.h"
#include "compiler/Reference/TensorBytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/LoadedImage.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

using Bytes = std::vector<char>;
using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);

/// Largest group that is interpreted, in elements of operands and results.
constexpr int64_t kMostElements = int64_t(1) << 24;
/// Results in f32 and in 16 bits: the order of a sum, a rounding to the type.
constexpr double kWide = 1e-5, kNarrow = 0x1p-6;

/// Kernels for a processor.
struct Image {
  std::string target;
  LoadedImage code;
};

/// One group with operands, and what it must give.
struct Case {
  std::vector<Bytes> operands;
  std::vector<Tensor> expected;
  int64_t length = 0; ///< of a bucket, where the group works on one
};

class Runs {
public:
  explicit Runs(ModuleOp module) : module(module) {
    for (auto image : module.getOps<plan_ir::ImageOp>()) {
      const std::string target = image.getTarget().str();
      auto data = dyn_cast<DenseResourceElementsAttr>(image.getData());
      const AsmResourceBlob *blob = data ? data.getRawHandle().getBlob() : nullptr;
      if (!blob || !hostSupports(target))
        continue;
      StatusOr<LoadedImage> loaded = LoadedImage::load({blob->getData().data(), blob->getData().size()});
      if (loaded.isOk())
        images.push_back({target, std::move(*loaded)});
      else
        report.gaps.push_back("kernels for " + target + ": " + loaded.status().message());
    }
  }

  KernelReport run() {
    if (images.empty())
      report.gaps.push_back("kernels: the plan has none for a processor that this machine is");
    for (auto function : module.getOps<func::FuncOp>())
      function.walk([&](graph::FusionOp group) {
        auto launches = group->getAttrOfType<ArrayAttr>(plan_ir::kLaunches);
        if (launches && !images.empty() && seen.insert(keyOf(launches)).second)
          runGroup(group, launches);
      });
    return std::move(report);
  }

private:
  static std::string keyOf(ArrayAttr launches) {
    std::string key;
    for (auto spec : launches.getAsRange<plan_ir::LaunchSpecAttr>())
      key += (spec.getKernel().getValue() + " ").str();
    return key;
  }

  std::optional<Case> prepare(graph::FusionOp group);
  void runGroup(graph::FusionOp group, ArrayAttr launches);
  void compare(const std::string &who, const Case &test, const std::vector<Bytes> &results);

  ModuleOp module;
  std::vector<Image> images;
  llvm::StringSet<> seen;
  KernelReport report;
};

std::optional<Case> Runs::prepare(graph::FusionOp group) {
  const Interpreter sizes({});
  Case test;
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
  FailureOr<SmallVector<Tensor>> expected = Interpreter(options).run(group->getRegion(0).front(), tensors);
  if (failed(expected)) {
    report.gaps.push_back("kernels of " + group.getName().str() + ": " + why);
    return std::nullopt;
  }
  test.expected.assign(expected->begin(), expected->end());
  return test;
}

void Runs::runGroup(graph::FusionOp group, ArrayAttr launches) {
  std::optional<Case> test = prepare(group);
  if (!test)
    return;
  ++report.groups;
  uint64_t workspaceBytes = 0;
  if (auto bytes = group->getAttrOfType<IntegerAttr>(plan_ir::kWorkspaceBytes))
    workspaceBytes = uint64_t(bytes.getInt());
  for (const Image &image : images) {
    std::vector<Bytes> operands = test->operands, results;
    for (const Tensor &expected : test->expected)
      results.push_back(Bytes(toBytes(expected).size(), char(0x7f)));
    Bytes workspace(workspaceBytes + 64, char(0x7f));
    std::string name;
    for (auto spec : launches.getAsRange<plan_ir::LaunchSpecAttr>()) {
      name = spec.getKernel().getValue().str();
      auto kernel = reinterpret_cast<KernelFunction>(image.code.find(name));
      if (!kernel) {
        report.gaps.push_back("kernel " + name + ": it is not in the image for " + image.target);
        return;
      }
      std::vector<void *> buffers;
      ArrayRef<int64_t> places = spec.getBuffers().asArrayRef();
      for (size_t i = 0; i + 2 < places.size(); i += 3)
        buffers.push_back(places[i] == 0   ? operands[size_t(places[i + 1])].data()
                          : places[i] == 1 ? results[size_t(places[i + 1])].data()
                                           : workspace.data());
      std::vector<int64_t> scalars(spec.getScalars().asArrayRef());
      auto extent = int64_t(spec.getExtent());
      if (const auto block = int64_t(spec.getFlatBlock()); block && test->length) {
        if (scalars.empty())
          scalars = {test->length, 0};
        if (extent == 0)
          extent = (test->length + block - 1) / block;
      }
      // In two pieces, the second one first, as threads may.
      kernel(buffers.data(), scalars.data(), extent / 2, extent);
      kernel(buffers.data(), scalars.data(), 0, extent / 2);
    }
    compare(name + " (" + image.target + ")", *test, results);
  }
}

void Runs::compare(const std::string &who, const Case &test, const std::vector<Bytes> &results) {
  for (auto [number, want] : llvm::enumerate(test.expected)) {
    // What a master has below its bf16 parameter says nothing without that.
    if (want.elementType.isInteger(16))
      continue;
    Tensor got = fromBytes(results[number], want.type());
    double largest = 1;
    for (double x : want.reals)
      largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0);
    const double tolerance = (want.elementType.getIntOrFloatBitWidth() < 32 ? kNarrow : kWide) * largest;
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

KernelReport verifyKernels(ModuleOp module) {
  return Runs(module).run();
}

} // namespace ztc
