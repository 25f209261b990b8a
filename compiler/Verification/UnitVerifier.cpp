// Kernels of a plan at its real sizes: a few units of each.
#include "compiler/Codegen/KernelForms.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Reference/Interpreter.h"
#include "compiler/Verification/ElementInterpreter.h"
#include "compiler/Verification/KernelImages.h"
#include "compiler/Verification/KernelVerifier.h"
#include "compiler/Verification/PatternMemory.h"
#include "compiler/Verification/UnitCase.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace mlir;

namespace ztc::verification {
namespace {

using codegen::PlannedPartial;

/// Elements of a block that the engine runs.
constexpr int64_t kMostOfBlock = int64_t(1) << 23;

/// How a kernel runs on one image: pieces of its range (host) or of its blocks (engine), and the units in them.
struct Way {
  const RunnableImage *image;
  KernelVersion version;
  bool add;                                        ///< the variant that adds to its results
  std::vector<std::pair<int64_t, int64_t>> pieces; ///< begin, end
  std::set<int64_t> units;
};

/// The first two, one in the middle and the last of `count`.
std::set<int64_t> chosenOf(int64_t count) {
  std::set<int64_t> chosen;
  for (int64_t one : {int64_t(0), int64_t(1), count / 2, count - 1})
    if (one >= 0 && one < count)
      chosen.insert(one);
  return chosen;
}

class UnitRuns {
public:
  UnitRuns(ModuleOp module, ModuleOp forms) : module(module), forms(forms), images(module, report.gaps) {}

  KernelReport run() {
    if (images.all().empty()) {
      report.gaps.push_back("kernels at their real sizes: the plan has none that this machine can run");
      return std::move(report);
    }
    for (auto function : module.getOps<func::FuncOp>())
      function.walk([&](graph::FusionOp group) {
        if (auto launches = group->getAttrOfType<ArrayAttr>(plan_ir::kLaunches))
          look(group, launches);
      });
    return std::move(report);
  }

private:
  void look(graph::FusionOp group, ArrayAttr launches);
  void gap(StringRef kernel, const Twine &why) {
    report.gaps.push_back(("kernel " + kernel + " at its real size: " + why).str());
  }
  void addWays(UnitCase &test, bool add, std::vector<Way> &ways);
  /// False, with a gap, where the interpreter cannot say it.
  bool interpret(UnitCase &test, ArrayRef<PatternMemory> operands, const PatternMemory *workspace);
  Tensor foldOf(const UnitCase &test, const PlannedPartial &fold, const PatternMemory &workspace,
                ArrayRef<int64_t> positions);
  void verify(UnitCase &test);
  /// One run of all `ways`. False, with a finding or a gap, where there is nothing more to see.
  bool runAll(UnitCase &test, ArrayRef<Way> ways);
  llvm::Expected<PatternMemory> operandOf(const UnitCase &test, unsigned number);
  bool runOne(UnitCase &test, const Way &way, ArrayRef<PatternMemory> operands, const PatternMemory *partials,
              bool descending);
  bool compare(const UnitCase &test, const Way &way, const std::string &who, const PatternMemory &memory,
               const Writes &writes, ArrayRef<double> before);

  ModuleOp module, forms;
  KernelReport report;
  KernelImages images; ///< after the report, which has what they lack
  llvm::StringSet<> seen;
};

/// Which results the launches write together: planGroup splits by these numbers, the lowest last.
SmallVector<unsigned> classesOf(ArrayAttr launches, unsigned results) {
  SmallVector<unsigned> classes(results, 0);
  for (auto [number, schedule] : llvm::enumerate(launches.getAsRange<kernel::ScheduleAttr>()))
    for (ArrayRef<int64_t> left = schedule.getBuffers(); !left.empty(); left = left.drop_front(3))
      if (left[0] == 1 && size_t(left[1]) < results)
        classes[size_t(left[1])] = unsigned(launches.size() - number);
  return classes;
}

void UnitRuns::look(graph::FusionOp group, ArrayAttr launches) {
  if (launches.empty())
    return;
  const std::string name = cast<kernel::ScheduleAttr>(launches[0]).getKernel().getValue().str();
  Operation *region = group;
  if (forms)
    if (auto form = forms.lookupSymbol<kernel::FuncOp>(name))
      region = form;
  std::string why;
  FailureOr<codegen::GroupPlan> plan = failure();
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    why = diagnostic.str();
    return success();
  });
  // Buckets share kernels: one is looked at with a last block that is whole, one with a partial one.
  int64_t length = 0;
  for (Type type : group->getOperandTypes())
    if (!cast<RankedTensorType>(type).hasStaticShape()) {
      FailureOr<FlatRange> range = Interpreter({}).flatRange(group, type);
      if (failed(range))
        return gap(name, why);
      length = range->length;
    }
  if (!seen.insert(llvm::formatv("{0} {1}", name, length == 0 ? 0 : length % codegen::kFlatBlock ? 1 : 2).str()).second)
    return;
  plan = codegen::planGroup(region, classesOf(launches, group.getNumResults()));
  if (failed(plan) || plan->kernels.size() != launches.size())
    return gap(name, why.empty() ? "its group takes other kernels than were planned" : why);
  ++report.groups;
  const std::map<int64_t, unsigned> inPlace = resultsInPlace(group);
  for (auto [kernel, schedule] : llvm::zip(plan->kernels, launches.getAsRange<kernel::ScheduleAttr>())) {
    UnitCase test;
    test.region = region;
    test.kernel = &kernel;
    test.schedule = schedule;
    kernel.description.name = schedule.getKernel().getValue().str();
    kernel.description.hasAdd = schedule.getHasAdd();
    if (codegen::scheduleOf(module.getContext(), kernel.description) != schedule)
      return gap(name, "its group takes other kernels than were planned");
    const auto block = int64_t(schedule.getFlatBlock());
    test.length = schedule.getScalars().empty() ? length : schedule.getScalars()[0];
    test.start = length ? codegen::kFlatBlock * int64_t(3) : 0; // a shard's, of the second rank or a later one
    test.extent = int64_t(schedule.getExtent());
    if (block && !test.extent)
      test.extent = (test.length + block - 1) / block;
    test.inPlace = inPlace;
    test.workspaceBytes =
        plan->workspaceBytes + plan->workspaceBytesPerFlatBlock * llvm::divideCeil(test.length, codegen::kFlatBlock);
    verify(test);
  }
}

void UnitRuns::addWays(UnitCase &test, bool add, std::vector<Way> &ways) {
  const std::string name = test.schedule.getKernel().getValue().str() + (add ? kernel::kAddSuffix.str() : "");
  for (const RunnableImage &image : images.all()) {
    std::optional<KernelVersion> version = images.versionOf(image, name);
    if (!version) {
      gap(name, "it is not in the image for " + image.target);
      continue;
    }
    const auto each = int64_t(image.simt ? version->unitsPerBlock : 1);
    if (image.simt && elementsOf(test) * each > kMostOfBlock) {
      gap(name, "a block of it takes the engine too long");
      continue;
    }
    Way way{&image, *version, add, {}, {}};
    for (int64_t one : chosenOf(int64_t(llvm::divideCeil(uint64_t(test.extent), uint64_t(each))))) {
      if (way.pieces.empty() || way.pieces.back().second != one)
        way.pieces.push_back({one, one});
      way.pieces.back().second = one + 1;
      for (int64_t unit = one * each; unit < std::min((one + 1) * each, test.extent); ++unit)
        way.units.insert(unit);
    }
    test.units.insert(way.units.begin(), way.units.end());
    ways.push_back(std::move(way));
  }
}

/// What a sum comes to whose partial results stand in the workspace.
Tensor UnitRuns::foldOf(const UnitCase &test, const PlannedPartial &fold, const PatternMemory &workspace,
                        ArrayRef<int64_t> positions) {
  const Type f32 = Float32Type::get(module.getContext());
  const bool isSquares = isa<graph::SumSquaresOp>(fold.op);
  const auto sums = int64_t(test.kernel->folds.size());
  const int64_t blocks = isSquares ? int64_t(llvm::divideCeil(test.length, codegen::kFlatBlock)) : fold.blocks;
  Tensor total({int64_t(positions.size())}, getElementTypeOrSelf(fold.op->getResult(0).getType()));
  for (auto [number, position] : llvm::enumerate(positions)) {
    std::vector<int64_t> at;
    for (int64_t block = 0; block < blocks; ++block)
      at.push_back(isSquares ? block * sums + fold.offset : fold.offset + block * fold.columns + position);
    const Tensor partials = workspace.elements(f32, at);
    total.reals[number] = std::accumulate(partials.reals.begin(), partials.reals.end(), 0.0);
  }
  return total;
}

bool UnitRuns::interpret(UnitCase &test, ArrayRef<PatternMemory> operands, const PatternMemory *workspace) {
  const StringRef name = test.schedule.getKernel().getValue();
  Block &block = codegen::bodyOf(test.region);
  WantedElements wanted;
  for (const Writes &writes : test.writes) {
    std::vector<int64_t> all;
    for (const Writes::Spot &spot : writes.of ? writes.spots : std::vector<Writes::Spot>())
      all.push_back(spot.value);
    for (const std::vector<int64_t> &part : writes.parts)
      all.insert(all.end(), part.begin(), part.end());
    for (Value value : {writes.of ? writes.of : writes.summed, writes.coded})
      if (value)
        llvm::append_range(wanted[value], all);
  }
  ElementSource source;
  source.length = test.length, source.start = test.start;
  source.operand = [&](unsigned operand, ArrayRef<int64_t> positions) {
    return operands[operand].elements(getElementTypeOrSelf(block.getArgument(operand).getType()), positions);
  };
  for (const PlannedPartial &fold : test.kernel->folds) {
    if (!isa<FloatType>(getElementTypeOrSelf(fold.op->getResult(0).getType())))
      return gap(name, "it adds up integers"), false;
    source.readOps.insert(fold.op);
  }
  source.read = [&](Operation *op, ArrayRef<int64_t> positions) {
    const PlannedPartial &fold =
        *llvm::find_if(test.kernel->folds, [&](const PlannedPartial &fold) { return fold.op == op; });
    return foldOf(test, fold, *workspace, positions);
  };
  std::string why;
  FailureOr<DenseMap<Value, ChosenElements>> found = interpretElements(block, wanted, source, why);
  if (failed(found))
    return gap(name, why), false;
  for (Writes &writes : test.writes) {
    const ChosenElements &from = (*found)[writes.of ? writes.of : writes.summed];
    auto at = [&](int64_t position) {
      const auto index = size_t(from.indexOf(position));
      return from.values.isReal() ? from.values.reals[index] : double(from.values.integers[index]);
    };
    for (const Writes::Spot &spot : writes.of ? writes.spots : std::vector<Writes::Spot>())
      writes.expected.push_back(at(spot.value));
    for (const std::vector<int64_t> &part : writes.parts) {
      double sum = 0;
      for (int64_t position : part)
        sum += writes.isSquares ? at(position) * at(position) : at(position);
      writes.expected.push_back(sum);
    }
    if (writes.coded)
      writes.tolerances = toleratedCodes(test, writes, (*found)[writes.coded]);
  }
  return true;
}

void UnitRuns::verify(UnitCase &test) {
  std::vector<Way> ways;
  if (test.extent == 0)
    return;
  addWays(test, /*add=*/false, ways);
  if (test.schedule.getHasAdd())
    addWays(test, /*add=*/true, ways);
  if (ways.empty())
    return;
  listWrites(test);
  auto runs = [&](bool magnitudes, bool condition) {
    for (Writes &writes : test.writes)
      writes.expected.clear();
    test.magnitudes = magnitudes, test.condition = condition;
    return runAll(test, ways);
  };
  if (!runs(/*magnitudes=*/false, /*condition=*/true))
    return;
  report.units += unsigned(test.units.size());
  // A root of a negative number tells nothing of what was rooted, as in an optimizer's second moment.
  const bool isBlind = llvm::any_of(test.writes, [](const Writes &writes) {
    return llvm::any_of(writes.expected, [](double value) { return std::isnan(value); });
  });
  if (isBlind && !runs(/*magnitudes=*/true, /*condition=*/true))
    return;
  // As an update that the step leaves out.
  if (llvm::any_of(codegen::bodyOf(test.region).getArgumentTypes(), isCondition))
    (void)runs(/*magnitudes=*/false, /*condition=*/false);
}

llvm::Expected<PatternMemory> UnitRuns::operandOf(const UnitCase &test, unsigned number) {
  auto type = cast<RankedTensorType>(codegen::bodyOf(test.region).getArgument(number).getType());
  const int64_t elements = type.hasStaticShape() ? type.getNumElements() : test.length;
  llvm::Expected<PatternMemory> memory =
      PatternMemory::random(type.getElementType(), elements, number + 1, test.magnitudes);
  if (memory && isCondition(type))
    *memory->data() = char(test.condition);
  return memory;
}

bool UnitRuns::runAll(UnitCase &test, ArrayRef<Way> ways) {
  const StringRef name = test.schedule.getKernel().getValue();
  std::vector<PatternMemory> operands;
  auto made = [&](llvm::Expected<PatternMemory> memory) {
    if (memory)
      return operands.push_back(std::move(*memory)), true;
    return gap(name, llvm::toString(memory.takeError())), false;
  };
  for (unsigned number = 0; number < codegen::bodyOf(test.region).getNumArguments(); ++number)
    if (!made(operandOf(test, number)))
      return false;
  // What a kernel reads of another one's in the workspace is as good as any other number.
  std::optional<PatternMemory> partials;
  if (!test.kernel->folds.empty()) {
    if (!made(PatternMemory::random(Float32Type::get(module.getContext()), int64_t(test.workspaceBytes / 4), 99,
                                    test.magnitudes)))
      return false;
    partials = std::move(operands.back());
    operands.pop_back();
  }
  if (!interpret(test, operands, partials ? &*partials : nullptr))
    return false;
  for (const Way &way : ways)
    for (const bool descending : {false, true})
      if ((way.image->simt || !descending) && !runOne(test, way, operands, partials ? &*partials : nullptr, descending))
        return false;
  return true;
}

bool UnitRuns::runOne(UnitCase &test, const Way &way, ArrayRef<PatternMemory> operands, const PatternMemory *partials,
                      bool descending) {
  const bool add = way.add;
  const std::string name = test.schedule.getKernel().getValue().str() + (add ? kernel::kAddSuffix.str() : "");
  std::vector<PatternMemory> written;
  std::map<std::pair<int64_t, int64_t>, size_t> places; // (kind, index) of a buffer, in `written`
  KernelRun run;
  run.kernel = name;
  run.extent = test.extent;
  run.scalars = std::vector<int64_t>(test.schedule.getScalars().asArrayRef());
  if (run.scalars.empty() && test.schedule.getFlatBlock())
    run.scalars = {test.length, test.start};
  // What is updated in place is read from where it is written.
  std::map<int64_t, PatternMemory> shared; // by operand
  for (ArrayRef<int64_t> left = test.schedule.getBuffers(); !left.empty() && !add; left = left.drop_front(3))
    if (auto found = test.inPlace.find(left[1]); left[0] == 1 && found != test.inPlace.end()) {
      llvm::Expected<PatternMemory> made = operandOf(test, found->second);
      if (!made)
        return gap(name, llvm::toString(made.takeError())), false;
      shared.emplace(found->second, std::move(*made));
    }
  auto sharedBy = [&](int64_t result) -> PatternMemory * {
    const auto operand = test.inPlace.find(result);
    const auto found = operand == test.inPlace.end() ? shared.end() : shared.find(operand->second);
    return found == shared.end() ? nullptr : &found->second;
  };
  for (ArrayRef<int64_t> left = test.schedule.getBuffers(); !left.empty(); left = left.drop_front(3)) {
    const PatternMemory *memory = nullptr;
    if (left[0] == 0) {
      const auto found = shared.find(left[1]);
      memory = found == shared.end() ? &operands[size_t(left[1])] : &found->second;
    } else if (PatternMemory *own = left[0] == 1 ? sharedBy(left[1]) : nullptr) {
      memory = own;
    } else if (left[0] == 2 && partials) {
      memory = partials;
    } else {
      uint64_t bytes = test.workspaceBytes;
      Type type = Float32Type::get(module.getContext());
      int64_t elements = int64_t(bytes / 4);
      if (left[0] == 1) {
        auto result = cast<RankedTensorType>(codegen::resultsOf(test.region)[unsigned(left[1])].getType());
        type = result.getElementType();
        elements = result.hasStaticShape() ? result.getNumElements() : test.length;
        bytes = storedBytes(type, elements);
      }
      llvm::Expected<PatternMemory> made =
          add && left[0] == 1 ? PatternMemory::random(type, elements, 50) : PatternMemory::poison(bytes);
      if (!made)
        return gap(name, llvm::toString(made.takeError())), false;
      places[{left[0], left[1]}] = written.size();
      written.push_back(std::move(*made));
      run.buffers.push_back(written.back().data());
      run.sizes.push_back(written.back().size());
      continue;
    }
    run.buffers.push_back(memory->data());
    run.sizes.push_back(memory->size());
  }
  // What was there before: a variant that adds keeps it.
  std::vector<std::vector<double>> before(test.writes.size());
  auto memoryOf = [&](const Writes &writes) -> const PatternMemory & {
    if (const PatternMemory *own = writes.isWorkspace ? nullptr : sharedBy(int64_t(writes.result)))
      return *own;
    return written[places.at({writes.isWorkspace ? 2 : 1, writes.isWorkspace ? 0 : int64_t(writes.result)})];
  };
  for (auto [writes, kept] : llvm::zip(test.writes, before)) {
    std::vector<int64_t> positions;
    for (const Writes::Spot &spot : writes.spots)
      positions.push_back(spot.memory);
    const Tensor values = memoryOf(writes).elements(writes.type, positions);
    kept.assign(positions.size(), 0);
    if (add && !writes.isWorkspace)
      for (size_t i = 0; i < positions.size(); ++i)
        kept[i] = values.isReal() ? values.reals[i] : double(values.integers[i]);
  }
  const std::string who = name + " (" + way.image->target + ")";
  for (auto [begin, end] : llvm::reverse(way.pieces)) {
    if (!way.image->simt) {
      if (!KernelImages::runOnHost(*way.image, run, begin, end))
        return gap(name, "it is not in the image for " + way.image->target), false;
      continue;
    }
    if (llvm::Error failed = KernelImages::runOnEngine(*way.image, way.version, run, uint64_t(begin),
                                                       uint64_t(end - begin), descending)) {
      report.wrong.push_back("kernel " + who + " at its real size: " + llvm::toString(std::move(failed)));
      return false;
    }
  }
  report.onEngine |= way.image->simt.has_value();
  for (auto [writes, kept] : llvm::zip(test.writes, before))
    if (!compare(test, way, who, memoryOf(writes), writes, kept))
      return false;
  return true;
}

bool UnitRuns::compare(const UnitCase &test, const Way &way, const std::string &who, const PatternMemory &memory,
                       const Writes &writes, ArrayRef<double> before) {
  // What a master has below its bf16 parameter says nothing without that.
  if (writes.type.isInteger(16))
    return true;
  std::vector<int64_t> positions;
  double largest = 1;
  for (auto [spot, expected, kept] : llvm::zip(writes.spots, writes.expected, before)) {
    positions.push_back(spot.memory);
    if (way.units.count(spot.unit) && std::isfinite(expected))
      largest = std::max(largest, std::abs(expected + kept));
  }
  const bool isReal = !isa<IntegerType>(writes.type);
  const double tolerance = isReal ? toleranceOf(writes.type) * largest : 0;
  const Tensor found = memory.elements(writes.type, positions);
  for (size_t i = 0; i < positions.size(); ++i) {
    const Writes::Spot &spot = writes.spots[i];
    if (!way.units.count(spot.unit))
      continue;
    const double is = isReal ? found.reals[i] : double(found.integers[i]), expected = writes.expected[i] + before[i];
    const double tolerated = writes.coded ? writes.tolerances[i] : tolerance;
    if (is == expected || (std::isnan(is) && std::isnan(expected)) || std::abs(is - expected) <= tolerated)
      continue;
    report.wrong.push_back(llvm::formatv("kernel {0} at its real size: unit {1} of {2}, element {3} of {4} is {5:e6}, "
                                         "its group gives {6:e6}",
                                         who, spot.unit, test.extent, spot.memory, writes.where(), is, expected));
    return false;
  }
  return true;
}

} // namespace

KernelReport verifyKernelUnits(ModuleOp module, ModuleOp forms) {
  return UnitRuns(module, forms).run();
}

} // namespace ztc::verification
