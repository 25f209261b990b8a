// Rewrites @forward to read a checkpoint's tensors where the graph holds something computed from them.
#include "compiler/Dialect/Graph/Roles.h"
#include "frontends/onnx/ExplainWeights.h"

using namespace mlir;

namespace ztc::importer {
namespace {

void rename(Emitter &emitter, Parameter &parameter, llvm::StringRef name) {
  parameter.name = name.str();
  parameter.argument.setLoc(NameLoc::get(emitter.builder.getStringAttr(name)));
  emitter.function().setArgAttr(parameter.argument.getArgNumber(), graph::kName, emitter.builder.getStringAttr(name));
}

void addName(Parameter &parameter, llvm::StringRef name) {
  if (parameter.name != name && !llvm::is_contained(parameter.tied, name))
    parameter.tied.push_back(name.str());
}

/// The parameter of a checkpoint tensor; made where there is none.
size_t parameterOf(Emitter &emitter, llvm::StringRef tensor, ArrayRef<int64_t> shape, const Initializer *initializer) {
  std::vector<Parameter> &parameters = emitter.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].stored == tensor)
      return i;
  func::FuncOp forward = emitter.function();
  OpBuilder &builder = emitter.builder;
  auto text = [&](llvm::StringRef value) { return builder.getStringAttr(value); };
  auto attributes = builder.getDictionaryAttr({graph::namedRole(builder.getContext(), graph::Role::Parameter),
                                               builder.getNamedAttr(graph::kName, text(tensor))});
  unsigned position = forward.getNumArguments();
  (void)forward.insertArgument(position, RankedTensorType::get(shape, builder.getF32Type()), attributes,
                               NameLoc::get(text(tensor)));
  Parameter parameter;
  parameter.name = parameter.stored = tensor.str();
  parameter.initializer = initializer;
  parameter.argument = forward.getArgument(position);
  parameters.push_back(std::move(parameter));
  return parameters.size() - 1;
}

mlir::Value transposedMatrices(OpBuilder &builder, Location loc, mlir::Value value) {
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transposeTo(builder, loc, value, permutation);
}

mlir::Value joined(OpBuilder &builder, Location loc, ArrayRef<mlir::Value> pieces, int64_t axis) {
  if (pieces.size() == 1)
    return pieces[0];
  SmallVector<int64_t> shape(shapeOf(pieces[0]));
  shape[axis] = 0;
  for (mlir::Value piece : pieces)
    shape[axis] += shapeOf(piece)[axis];
  auto type = RankedTensorType::get(shape, typeOf(pieces[0]).getElementType());
  return graph::ConcatOp::create(builder, loc, type, pieces, axis);
}

/// What a piece takes of its tensor.
mlir::Value taken(OpBuilder &builder, Location loc, const WeightForm::Piece &piece, int64_t axis, mlir::Value value) {
  if (piece.matrix >= 0) {
    SmallVector<int64_t> offsets(shapeOf(value).size(), 0), sizes(shapeOf(value));
    offsets[0] = piece.matrix;
    sizes[0] = 1;
    value = sliceOf(builder, loc, value, offsets, sizes);
    value = reshapeTo(builder, loc, value, ArrayRef<int64_t>(sizes).drop_front());
  }
  if (piece.isPart) {
    SmallVector<int64_t> offsets(shapeOf(value).size(), 0), sizes(shapeOf(value));
    offsets[axis] = piece.begin;
    sizes[axis] = piece.size;
    value = sliceOf(builder, loc, value, offsets, sizes);
  }
  return value;
}

/// The initializer's value, in its own orientation and dimensions, computed from parameters.
mlir::Value arranged(OpBuilder &builder, Location loc, const WeightForm &form, ArrayRef<mlir::Value> tensors,
                     ArrayRef<int64_t> wanted) {
  SmallVector<mlir::Value> pieces;
  for (auto [piece, tensor] : llvm::zip(form.pieces, tensors))
    pieces.push_back(taken(builder, loc, piece, form.axis, tensor));
  int64_t matrices = std::max<int64_t>(form.matrices, 1), each = int64_t(pieces.size()) / matrices;
  SmallVector<mlir::Value> whole;
  for (int64_t m = 0; m < matrices; ++m) {
    mlir::Value value = joined(builder, loc, ArrayRef(pieces).slice(m * each, each), form.axis);
    if (form.isTransposed)
      value = transposedMatrices(builder, loc, value);
    if (form.matrices) {
      SmallVector<int64_t> shape(shapeOf(value));
      shape.insert(shape.begin(), 1);
      value = reshapeTo(builder, loc, value, shape);
    }
    whole.push_back(value);
  }
  mlir::Value value = joined(builder, loc, whole, 0);
  return form.isReshaped ? reshapeTo(builder, loc, value, wanted) : value;
}

mlir::Value folded(OpBuilder &builder, Location loc, mlir::Value value, const WeightForm &form) {
  if (form.scale != 1)
    value = graph::MulOp::create(builder, loc, value, splatLike(builder, loc, value, form.scale));
  if (form.shift != 0)
    value = graph::AddOp::create(builder, loc, value, splatLike(builder, loc, value, form.shift));
  return value;
}

/// A scaled table: what is looked up is scaled, not the whole table in each step.
void scaleLookups(mlir::Value table, mlir::Value parameter, const WeightForm &form) {
  for (Operation *user : llvm::make_early_inc_range(table.getUsers()))
    if (auto embedding = dyn_cast<graph::EmbeddingOp>(user); embedding && embedding.getTable() == table) {
      OpBuilder builder(embedding->getContext());
      builder.setInsertionPointAfter(embedding);
      embedding.getTableMutable().assign(parameter);
      mlir::Value y = embedding.getY();
      SmallPtrSet<Operation *, 2> own{embedding};
      mlir::Value scaled = folded(builder, embedding.getLoc(), y, form);
      for (Operation *op = scaled.getDefiningOp(); op && op != embedding; op = op->getPrevNode())
        own.insert(op);
      y.replaceAllUsesExcept(scaled, own);
    }
}

} // namespace

bool applyForm(Emitter &emitter, size_t index, const WeightForm &form, ArrayRef<Shape> shapes) {
  std::vector<Parameter> &parameters = emitter.parameters();
  Parameter mine = parameters[index];
  func::FuncOp forward = emitter.function();
  auto erase = [&](size_t i) {
    unsigned position = parameters[i].argument.getArgNumber();
    parameters.erase(parameters.begin() + i);
    (void)forward.eraseArgument(position);
  };
  if (form.isPlain() && form.isTransposed == mine.transposed) {
    llvm::StringRef tensor = form.pieces[0].tensor;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (i != index && parameters[i].stored == tensor) { // a tie
        mine.argument.replaceAllUsesWith(parameters[i].argument);
        addName(parameters[i], mine.name);
        for (const std::string &name : mine.tied)
          addName(parameters[i], name);
        erase(index);
        return true;
      }
    Parameter &parameter = parameters[index];
    parameter.stored = tensor.str();
    // The checkpoint's name, also where the graph has another: transformers 5 calls GPT-NeoX' embed_out lm_head.
    if (tensor != mine.name)
      rename(emitter, parameter, tensor);
    return false;
  }
  OpBuilder builder = OpBuilder::atBlockBegin(&forward.getBody().front());
  Location loc = mine.argument.getLoc();
  SmallVector<size_t> places;
  for (auto [piece, shape] : llvm::zip(form.pieces, shapes))
    places.push_back(parameterOf(emitter, piece.tensor, shape, mine.initializer));
  SmallVector<mlir::Value> tensors;
  for (size_t place : places) {
    Parameter &parameter = parameters[place];
    tensors.push_back(parameter.argument);
    for (const std::string &words : form.describe())
      if (!llvm::is_contained(parameter.transformations, words))
        parameter.transformations.push_back(words);
  }
  if (form.isWhole())
    for (const std::string &name : mine.tied)
      addName(parameters[places[0]], name);
  mlir::Value value = arranged(builder, loc, form, tensors, mine.initializer->shape);
  if (mine.transposed)
    value = transposeTo(builder, loc, value, {1, 0});
  if (value.getType() == mine.argument.getType())
    scaleLookups(mine.argument, value, form);
  value = folded(builder, loc, value, form);
  mine.argument.replaceAllUsesWith(value);
  erase(index);
  return true;
}

} // namespace ztc::importer
