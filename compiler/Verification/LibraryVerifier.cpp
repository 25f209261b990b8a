// Kernels of library calls at the sizes of a plan: each runs on a few units, and leaves what LibraryCases.h expects.
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Reference/Tensor.h"
#include "compiler/Verification/KernelVerifier.h"
#include "compiler/Verification/LibraryCases.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace ztc::verification {

std::set<int64_t> fewOf(int64_t count) {
  std::set<int64_t> chosen;
  for (int64_t one : {int64_t(0), int64_t(1), count / 2, count - 1})
    if (one >= 0 && one < count)
      chosen.insert(one);
  return chosen;
}

double libraryTolerance(Type type) {
  return type.isF16() ? 0x1p-10 : type.isBF16() ? 0x1p-7 : 2e-5;
}

std::string serviceKernelOf(DictionaryAttr kernels, StringRef field) {
  auto symbol = kernels.getAs<FlatSymbolRefAttr>(field);
  return symbol ? symbol.getValue().str() : std::string();
}

std::string gpuKernelOf(DictionaryAttr kernels, unsigned index) {
  auto all = kernels.getAs<ArrayAttr>("gpu_kernels");
  return all && index < all.size() ? cast<FlatSymbolRefAttr>(all[index]).getValue().str() : std::string();
}

unsigned LibraryLaunch::add(StringRef name, llvm::Expected<PatternMemory> memory) {
  if (!memory) {
    refused = llvm::toString(memory.takeError());
    memory = PatternMemory::poison(1);
    if (!memory)
      llvm::report_fatal_error(memory.takeError());
  }
  buffers.push_back({name.str(), std::move(*memory)});
  return unsigned(buffers.size() - 1);
}

unsigned LibraryLaunch::random(StringRef name, Type type, int64_t elements, unsigned seed) {
  return add(name, PatternMemory::random(type, elements, seed));
}

unsigned LibraryLaunch::poison(StringRef name, uint64_t bytes) {
  return add(name, PatternMemory::poison(bytes));
}

unsigned LibraryLaunch::given(StringRef name, const Tensor &values) {
  const unsigned buffer = poison(name, storedBytes(values.elementType, values.count()));
  if (refused.empty())
    memory(buffer).write(0, values);
  return buffer;
}

void LibraryLaunch::expect(unsigned buffer, Type type, int64_t element, double value, double relative,
                           double absolute) {
  numbers.push_back({buffer, type, element, value, std::abs(value) * relative + absolute});
}

namespace {

class LibraryRuns {
public:
  explicit LibraryRuns(ModuleOp module) : module(module), images(module, ignored) {}

  KernelReport run() {
    llvm::StringSet<> known;
    for (auto function : module.getOps<func::FuncOp>())
      function.walk([&](Operation *op) {
        auto kernels = op->getAttrOfType<DictionaryAttr>(plan_ir::kServiceKernels);
        if (!kernels)
          return;
        for (auto cases :
             {attentionCases, documentCases, lossCases, transferCases, expertCases, scanCases, recurrenceCases})
          for (const LibraryCase &test : cases(op, kernels)) {
            known.insert(test.kernel);
            if (seen.insert(test.kernel + " " + test.call).second)
              look(test);
          }
      });
    for (auto kernel : module.getOps<plan_ir::KernelOp>())
      if (kernel.getForm() == "service" && !known.contains(kernel.getSymName()))
        report.gaps.push_back(
            ("kernel " + kernel.getSymName() + " of a library call: what it computes is not known here").str());
    return std::move(report);
  }

private:
  void look(const LibraryCase &test);
  /// False where there is nothing more to see.
  bool run(const LibraryCase &test, const RunnableImage &image, const KernelVersion &version, bool descending);
  bool compare(const LibraryCase &test, const RunnableImage &image, const LibraryLaunch &launch);
  void gap(const LibraryCase &test, const Twine &why) {
    report.gaps.push_back(("kernel " + test.kernel + " at its real size (" + test.call + "): " + why).str());
  }

  ModuleOp module;
  KernelReport report;
  std::vector<std::string> ignored; ///< what images lack is said of groups
  KernelImages images;
  llvm::StringSet<> seen;
};

void LibraryRuns::look(const LibraryCase &test) {
  bool hasRun = false;
  for (const RunnableImage &image : images.all()) {
    if (image.simt.has_value() != test.isForGpus)
      continue;
    std::optional<KernelVersion> version = images.versionOf(image, test.kernel);
    if (!version)
      return gap(test, "it is not in the image for " + image.target);
    for (const bool descending : {false, true})
      if ((test.isForGpus || !descending) && !run(test, image, *version, descending))
        return;
    hasRun = true;
  }
  report.calls += hasRun;
}

bool LibraryRuns::run(const LibraryCase &test, const RunnableImage &image, const KernelVersion &version,
                      bool descending) {
  LibraryLaunch launch = test.make(version);
  if (!launch.refused.empty())
    return gap(test, launch.refused), false;
  if (!launch.leftOut.empty() && !descending)
    gap(test, launch.leftOut);
  if (launch.units.empty())
    return false;
  KernelRun run{test.kernel, {}, {}, launch.scalars, launch.extent};
  for (const LibraryLaunch::Buffer &buffer : launch.buffers) {
    run.buffers.push_back(buffer.memory.data());
    run.sizes.push_back(buffer.memory.size());
  }
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t unit : launch.units) {
    if (pieces.empty() || pieces.back().second != unit)
      pieces.push_back({unit, unit});
    pieces.back().second = unit + 1;
  }
  for (auto [begin, end] : llvm::reverse(pieces)) {
    if (!image.simt) {
      if (!KernelImages::runOnHost(image, run, begin, end))
        return gap(test, "it is not in the image for " + image.target), false;
      continue;
    }
    if (llvm::Error failed =
            KernelImages::runOnEngine(image, version, run, uint64_t(begin), uint64_t(end - begin), descending)) {
      report.wrong.push_back(llvm::formatv("kernel {0} ({1}) at its real size: {2}: {3}", test.kernel, image.target,
                                           test.call, llvm::toString(std::move(failed))));
      return false;
    }
  }
  report.onEngine |= image.simt.has_value();
  report.callUnits += descending ? 0 : unsigned(launch.units.size());
  return compare(test, image, launch);
}

bool LibraryRuns::compare(const LibraryCase &test, const RunnableImage &image, const LibraryLaunch &launch) {
  for (const LibraryNumber &number : launch.numbers) {
    const LibraryLaunch::Buffer &buffer = launch.buffers[number.buffer];
    const Tensor found = buffer.memory.elements(number.type, {number.element});
    const double is = found.isReal() ? found.reals[0] : double(found.integers[0]);
    if (is == number.value || std::abs(is - number.value) <= number.tolerance)
      continue;
    report.wrong.push_back(llvm::formatv("kernel {0} ({1}) at its real size: {2}: element {3} of {4} is {5:e6}, the "
                                         "interpreter gives {6:e6}",
                                         test.kernel, image.target, test.call, number.element, buffer.name, is,
                                         number.value));
    return false;
  }
  return true;
}

} // namespace

KernelReport verifyLibraryKernels(ModuleOp module) {
  return LibraryRuns(module).run();
}

} // namespace ztc::verification
