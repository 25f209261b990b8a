#include "compiler/Verification/UnitCase.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/Format/BlockState.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;

namespace ztc::verification {

double toleranceOf(Type type) {
  constexpr double kNarrow = 0x1p-6, kCode = 0x1p-3;
  return graph::isFp8(type) ? kCode + kNarrow : isStoredNarrow(type) ? kNarrow : kUnitWide;
}

using codegen::ColumnGroup;
using codegen::PlannedKernel;
using codegen::PlannedOutput;
using codegen::PlannedPartial;
using Shape = PlannedKernel::Shape;

/// Elements that the interpreter computes for one result of a kernel.
static constexpr int64_t kMostOfResult = int64_t(1) << 21;

std::map<int64_t, unsigned> resultsInPlace(graph::FusionOp group) {
  auto placeOf = [](Value value) -> Attribute {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      return function ? function.getArgAttr(argument.getArgNumber(), plan_ir::kPlace) : Attribute();
    }
    auto places = value.getDefiningOp()->getAttrOfType<ArrayAttr>(plan_ir::kPlaces);
    return places ? places[cast<OpResult>(value).getResultNumber()] : Attribute();
  };
  std::map<int64_t, unsigned> found;
  for (OpResult result : group->getResults())
    for (OpOperand &operand : group->getOpOperands())
      if (Attribute place = placeOf(result);
          place && place == placeOf(operand.get()) && result.getType() == operand.get().getType())
        found[int64_t(result.getResultNumber())] = operand.getOperandNumber();
  return found;
}

bool isCondition(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getElementType().isInteger(1) && tensor.hasStaticShape() && tensor.getNumElements() == 1;
}

int64_t elementsOf(const UnitCase &test) {
  const PlannedKernel &kernel = *test.kernel;
  int64_t elements = 0;
  for (const ColumnGroup &group : kernel.columns) {
    const int64_t values = int64_t(group.outputs.size() + group.partials.size());
    const int64_t columns = kernel.shape == Shape::Flat      ? codegen::kFlatBlock
                            : kernel.shape == Shape::Columns ? kernel.unit
                                                             : group.columns;
    elements += values * columns * group.subRows * (kernel.shape == Shape::RowBlocks ? kernel.rowBlock : 1);
  }
  return elements + int64_t(kernel.encodes.size()) * codegen::kFlatBlock;
}

/// Calls `look` for numbers below `count`: all, or of too many the first, the last and some between.
static void forSome(int64_t count, int64_t most, llvm::function_ref<void(int64_t)> look) {
  const int64_t edge = most / 4, step = count <= most ? 1 : int64_t(llvm::divideCeil(count, most / 2)) | 1;
  for (int64_t i = 0; i < count; i += (i < edge || i >= count - edge) ? 1 : std::min(step, count - edge - i))
    look(i);
}

void listWrites(UnitCase &test) {
  const PlannedKernel &kernel = *test.kernel;
  const auto yielded = codegen::resultsOf(test.region);
  // Rows [first, last) of the kernel, columns [from, to) of each group, that a unit has.
  struct Part {
    int64_t first = 0, last = 1, from = 0, to = -1;
  };
  auto partOf = [&](int64_t unit, int64_t columns) {
    Part part{0, 1, 0, columns};
    switch (kernel.shape) {
    case Shape::Rows:
      part.first = unit, part.last = unit + 1;
      break;
    case Shape::RowBlocks:
      part.first = unit * kernel.rowBlock, part.last = std::min(part.first + kernel.rowBlock, kernel.rows);
      break;
    case Shape::Columns:
      part.from = unit * kernel.unit, part.to = std::min(part.from + kernel.unit, columns);
      break;
    case Shape::Flat:
      part.from = unit * codegen::kFlatBlock, part.to = std::min(part.from + codegen::kFlatBlock, test.length);
      break;
    case Shape::Once:
      break;
    }
    return part;
  };
  const int64_t most = std::max<int64_t>(kMostOfResult / std::max<int64_t>(int64_t(test.units.size()), 1), 64);
  for (const ColumnGroup &group : kernel.columns) {
    for (const PlannedOutput &output : group.outputs) {
      Writes writes;
      writes.result = output.result;
      writes.of = output.value;
      writes.type = getElementTypeOrSelf(yielded[output.result].getType());
      for (int64_t unit : test.units) {
        const Part part = partOf(unit, group.columns);
        const int64_t width = part.to - part.from, rows = (part.last - part.first) * group.subRows;
        forSome(rows * width, most, [&](int64_t i) {
          const int64_t row = part.first * group.subRows + i / width, column = part.from + i % width;
          const int64_t value = kernel.shape == Shape::Flat ? column : row * group.columns + column;
          const int64_t memory = output.isPart() ? row / output.perRow * output.width +
                                                       row % output.perRow * output.columns + column + output.offset
                                                 : value;
          writes.spots.push_back({unit, memory, value});
        });
      }
      test.writes.push_back(std::move(writes));
    }
    for (const PlannedPartial &partial : group.partials) {
      Writes writes;
      writes.isWorkspace = true;
      writes.summed = partial.op->getOperand(0);
      writes.type = Float32Type::get(test.region->getContext());
      for (int64_t unit : test.units) {
        const Part part = partOf(unit, group.columns);
        const int64_t first = part.first * group.subRows, last = part.last * group.subRows;
        forSome(group.columns, std::max<int64_t>(most / (last - first), 64), [&](int64_t column) {
          writes.spots.push_back({unit, partial.offset + unit * partial.columns + column, column});
          std::vector<int64_t> &summed = writes.parts.emplace_back();
          for (int64_t row = first; row < last; ++row)
            summed.push_back(row * group.columns + column);
        });
      }
      test.writes.push_back(std::move(writes));
    }
  }
  for (const codegen::PlannedEncode &encode : kernel.encodes) {
    auto op = cast<graph::EncodeBlocksOp>(encode.op);
    Writes writes;
    writes.result = encode.result;
    writes.of = op.getY(), writes.coded = op.getX();
    writes.type = getElementTypeOrSelf(op.getY().getType());
    for (int64_t unit : test.units) {
      const Part part = partOf(unit, test.length);
      for (int64_t at = part.from; at < part.to; ++at)
        writes.spots.push_back({unit, at, at});
    }
    test.writes.push_back(std::move(writes));
  }
  for (const PlannedPartial &sum : kernel.sums) {
    Writes writes;
    writes.isWorkspace = writes.isSquares = true;
    writes.summed = sum.op->getOperand(0);
    writes.type = Float32Type::get(test.region->getContext());
    for (int64_t unit : test.units) {
      const Part part = partOf(unit, test.length);
      writes.spots.push_back({unit, unit * int64_t(kernel.sums.size()) + sum.offset, 0});
      std::vector<int64_t> all;
      for (int64_t at = part.from; at < part.to; ++at)
        all.push_back(at);
      writes.parts.push_back(std::move(all));
    }
    test.writes.push_back(std::move(writes));
  }
}

std::vector<double> toleratedCodes(const UnitCase &test, const Writes &writes, const ChosenElements &coded) {
  if (!test.condition) // what was there stays
    return std::vector<double>(writes.spots.size(), 0.0);
  const DynamicMap &map = stateMap(cast<graph::Block8Type>(writes.type).getIsSigned());
  constexpr auto block = int64_t(kStateBlock);
  std::map<int64_t, float> magnitudes;
  for (auto [position, number] : llvm::zip_equal(coded.positions, coded.values.reals)) {
    float &magnitude = magnitudes[position / block];
    magnitude = std::isnan(number) ? float(number) : std::max(magnitude, std::abs(float(number)));
  }
  std::vector<double> tolerances;
  for (const Writes::Spot &spot : writes.spots) {
    const float magnitude = magnitudes[spot.value / block];
    const double number = coded.values.reals[size_t(coded.indexOf(spot.value))];
    const size_t code = map.code(float(number) * inverseMagnitude(magnitude));
    const double here = map.values[code], below = code > 0 ? here - map.values[code - 1] : 0,
                 above = code + 1 < map.values.size() ? map.values[code + 1] - here : 0;
    tolerances.push_back((std::max(below, above) + kUnitWide) * double(magnitude));
  }
  return tolerances;
}

} // namespace ztc::verification
