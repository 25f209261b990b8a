#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/WeightFormats.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "compiler/Verification/Keeps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Quantization/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

#define DEBUG_TYPE "ztc-quantize-weights"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "passes/Quantization/Passes.h.inc"

namespace {

/// Ops that hand elements of weights on: what they give is made again wherever it is read.
bool movesWeights(Operation *op) {
  return isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::ConcatOp, graph::CastOp>(op);
}

/// The weights of one function.
class WeightQuantizer {
public:
  WeightQuantizer(func::FuncOp function, bool ownScales)
      : function(function), marks(function), ownScales(ownScales), builder(function.getContext()) {}

  /// Of how many of them elements have scales of other blocks.
  unsigned foreignScales = 0;
  /// How many parameters are bytes afterwards.
  FailureOr<unsigned> run() {
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter)) {
      const bool isStored = function.getArgAttr(index, graph::kQuantized) && graph::isFrozen(function, index);
      if (failed(isStored ? convert(index) : checkFull(index)))
        return failure();
    }
    marks.store();
    if (wasType.empty())
      return 0u;
    SmallVector<OpOperand *> reads;
    for (auto [weight, type] : wasType)
      collectReads(weight, reads);
    llvm::SmallPtrSet<OpOperand *, 16> done; // a join of two weights is found twice
    for (OpOperand *read : reads)
      if (done.insert(read).second && !readTransposed(*read))
        read->set(numbersFor(read->get(), read->getOwner()));
    eraseDeadOps(function.getBody().front());
    function.setFunctionType(
        builder.getFunctionType(ValueRange(function.getArguments()).getTypes(), function.getResultTypes()));
    return unsigned(wasType.size());
  }

private:
  /// What is trained, or not of a linear module, must be there in full.
  LogicalResult checkFull(unsigned index) {
    auto source = function.getArgAttrOfType<DictionaryAttr>(index, graph::kSource);
    auto type = source ? source.getAs<StringAttr>("type") : StringAttr();
    if (type && type.getValue() == "U8" && !source.contains("dequantized"))
      return function.emitOpError("needs all bits of '")
             << graph::argString(function, index, graph::kName)
             << "', which the folder has in fewer bits; give full weights (--weights)";
    return success();
  }

  LogicalResult convert(unsigned index) {
    BlockArgument weight = function.getArgument(index);
    auto type = cast<RankedTensorType>(weight.getType());
    const auto attribute = function.getArgAttrOfType<graph::WeightFormatAttr>(index, graph::kQuantized);
    const graph::WeightFormat format = attribute.getValue();
    const bool isMatrix = type.getRank() == 2 || type.getRank() == 3;
    const bool isTransposed = function.getArgAttr(index, graph::kQuantizedTransposed) && isMatrix;
    const auto stored = isTransposed ? turned(type) : type;
    std::optional<QuantizedLayout> layout;
    if (isMatrix)
      layout = quantizedLayout(graph::planFormat(format), uint64_t(stored.getNumElements() / stored.getShape().back()),
                               uint64_t(stored.getShape().back()));
    if (!layout)
      return function.emitOpError("argument ")
             << index << " of type " << type << " cannot be stored as " << graph::stringifyWeightFormat(format);
    NamedAttrList source(function.getArgAttrOfType<DictionaryAttr>(index, graph::kSource));
    source.set("format", builder.getStringAttr(graph::stringifyWeightFormat(format)));
    source.set("quantized_shape", builder.getDenseI64ArrayAttr(type.getShape()));
    if (isTransposed) {
      source.set("quantized_transposed", builder.getUnitAttr());
      transposed.insert(weight);
    }
    marks.set(index, graph::kSource, source.getDictionary(builder.getContext()));
    foreignScales += layout->hasScalesByRow();
    wasType[weight] = stored;
    formats[weight] = format;
    weight.setType(RankedTensorType::get({int64_t(layout->bytes)}, builder.getI8Type()));
    return success();
  }

  /// Of the transposed matrix, or matrices of a stack.
  static RankedTensorType turned(RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    std::swap(shape.back(), shape[shape.size() - 2]);
    return type.clone(shape);
  }

  void collectReads(Value value, SmallVectorImpl<OpOperand *> &reads) {
    for (OpOperand &use : value.getUses()) {
      if (movesWeights(use.getOwner()))
        collectReads(use.getOwner()->getResult(0), reads);
      else
        reads.push_back(&use);
    }
  }

  /// A product that reads bytes of a transposed matrix reads that matrix; false for any other reader.
  bool readTransposed(OpOperand &read) {
    const unsigned operand = read.getOperandNumber();
    if (operand > 1 || !transposed.contains(read.get()))
      return false;
    return llvm::TypeSwitch<Operation *, bool>(read.getOwner())
        .Case<graph::MatmulOp, graph::MatmulAddOp, graph::MatmulBiasOp, graph::MatmulGeluOp>([&](auto product) {
          builder.setInsertionPoint(product);
          read.set(dequantized(read.get(), product));
          if (operand == 0)
            product.setTransposeA(!product.getTransposeA());
          else
            product.setTransposeB(!product.getTransposeB());
          return true;
        })
        .Case<graph::GroupedMatmulOp>([&](auto product) {
          if (operand != 1)
            return false;
          builder.setInsertionPoint(product);
          read.set(dequantized(read.get(), product));
          product.setTransposeB(!product.getTransposeB());
          return true;
        })
        .Default(false);
  }

  /// The numbers of a parameter, as they are stored.
  Value dequantized(Value weight, Operation *reader) {
    const RankedTensorType type = wasType.lookup(weight);
    const graph::WeightFormat format = formats.lookup(weight);
    const int64_t columns = type.getShape().back(), elements = type.getNumElements();
    const bool isOneRow = ownScales && graph::isNf4(format);
    auto matrix =
        type.clone(isOneRow ? ArrayRef<int64_t>{1, elements} : ArrayRef<int64_t>{elements / columns, columns});
    Value numbers = graph::DequantizeOp::create(builder, reader->getLoc(), matrix, weight, format);
    return matrix == type ? numbers : graph::ReshapeOp::create(builder, reader->getLoc(), type, numbers).getResult();
  }

  /// `value`, made in front of `reader`; of one that the reader reads twice, once.
  Value numbersFor(Value value, Operation *reader) {
    if (Value numbers = made.lookup({value, reader}))
      return numbers;
    Value numbers = makeNumbers(value, reader);
    made[{value, reader}] = numbers;
    return numbers;
  }

  Value makeNumbers(Value value, Operation *reader) {
    builder.setInsertionPoint(reader);
    if (auto type = wasType.find(value); type != wasType.end()) {
      Value numbers = dequantized(value, reader);
      if (!transposed.contains(value))
        return numbers;
      const bool isStack = type->second.getRank() == 3;
      return graph::TransposeOp::create(builder, reader->getLoc(), turned(type->second), numbers,
                                        isStack ? ArrayRef<int64_t>{0, 2, 1} : ArrayRef<int64_t>{1, 0});
    }
    Operation *op = value.getDefiningOp();
    if (!op || !movesWeights(op))
      return value;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(numbersFor(operand, reader));
    builder.setInsertionPoint(reader);
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    return copy->getResult(0);
  }

  func::FuncOp function;
  ArgumentAttributes marks;
  const bool ownScales;
  OpBuilder builder;
  llvm::MapVector<Value, RankedTensorType> wasType; ///< of what the bytes of a parameter stand for
  llvm::DenseSet<Value> transposed;                 ///< parameters whose bytes are of the transposed matrix
  llvm::DenseMap<Value, graph::WeightFormat> formats;
  llvm::DenseMap<std::pair<Value, Operation *>, Value> made;
};

struct QuantizeWeights : impl::QuantizeWeightsBase<QuantizeWeights>, SaysWhatItKeeps {
  /// Fewer bits are other numbers.
  Keeps keeps() const override { return Keeps::Changes; }

  using QuantizeWeightsBase::QuantizeWeightsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (graph::isEntry(function, graph::Entry::Update))
        continue;
      WeightQuantizer quantizer(function, ownScales);
      FailureOr<unsigned> count = quantizer.run();
      if (failed(count))
        return signalPassFailure();
      if (graph::isEntry(function, graph::Entry::Microstep) && *count == 0) {
        function.emitError("no weight is stored in fewer bits: none of a linear module is frozen");
        return signalPassFailure();
      }
      if (graph::isEntry(function, graph::Entry::Microstep) && quantizer.foreignScales && !ownScales)
        function.emitWarning() << quantizer.foreignScales
                               << " weights in nf4 have rows that are multiples of 16 and not of 64: their numbers are "
                                  "those of bitsandbytes on a processor with AVX-512, which takes scales of other "
                                  "blocks there; --pass-option=ztc-quantize-weights.own-scales=true takes their own";
      if (graph::isEntry(function, graph::Entry::Microstep))
        remark::passed(function.getLoc(),
                       remark::RemarkOpts::name("weights").category(DEBUG_TYPE).function(function.getName()))
            << std::to_string(*count) << " frozen weights are stored in fewer bits";
    }
  }
};
} // namespace
} // namespace ztc
