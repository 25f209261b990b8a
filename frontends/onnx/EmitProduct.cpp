// Emission of products: MatMul, Gemm, Einsum, Conv.
#include "frontends/onnx/Emitter.h"
#include "frontends/onnx/Forms.h"

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

/// A product with a matrix works on (T, K); other products have equal ranks and leading dimensions. A vector is a row
/// on the left, a column on the right.
LogicalResult matmul(Emitter &e) {
  bool transposed = false;
  mlir::Value a = e.operand(0), b = a ? e.matrixOperand(1, transposed) : nullptr;
  if (!b)
    return failure();
  if (typeOf(a).getRank() == 1)
    a = reshapeTo(e.builder, e.loc, a, {1, shapeOf(a)[0]});
  if (typeOf(b).getRank() == 1)
    b = reshapeTo(e.builder, e.loc, b, {shapeOf(b)[0], 1});
  if (typeOf(b).getRank() == 2) {
    int64_t k = shapeOf(a).back();
    mlir::Value rows = reshapeTo(e.builder, e.loc, a, {k ? typeOf(a).getNumElements() / k : 0, k});
    mlir::Value product = graph::MatmulOp::create(e.builder, e.loc, rows, b, false, transposed);
    e.define(0, reshapeTo(e.builder, e.loc, product, e.outputShape()));
    return success();
  }
  Shape leading;
  if (!broadcastShape(shapeOf(a).drop_back(2), shapeOf(b).drop_back(2), leading))
    return e.fail("operand shapes do not fit a product");
  auto withLeading = [&](mlir::Value x) {
    SmallVector<int64_t> shape(leading.begin(), leading.end());
    shape.append(shapeOf(x).end() - 2, shapeOf(x).end());
    return broadcastTo(e.builder, e.loc, x, shape);
  };
  mlir::Value product = graph::MatmulOp::create(e.builder, e.loc, withLeading(a), withLeading(b), false, false);
  e.define(0, reshapeTo(e.builder, e.loc, product, e.outputShape()));
  return success();
}

LogicalResult gemm(Emitter &e) {
  bool transposed = false;
  mlir::Value a = e.operand(0), b = a ? e.matrixOperand(1, transposed) : nullptr;
  if (!b)
    return failure();
  bool transA = e.node->integer("transA", 0), transB = e.node->integer("transB", 0);
  mlir::Value y = graph::MatmulOp::create(e.builder, e.loc, a, b, transA, transB != transposed);
  if (double alpha = e.node->real("alpha", 1); alpha != 1)
    y = graph::MulOp::create(e.builder, e.loc, y, splatLike(e.builder, e.loc, y, alpha));
  if (e.node->hasInput(2)) {
    mlir::Value c = e.operand(2, e.outputShape());
    if (!c)
      return failure();
    if (double beta = e.node->real("beta", 1); beta != 1)
      c = graph::MulOp::create(e.builder, e.loc, c, splatLike(e.builder, e.loc, c, beta));
    y = graph::AddOp::create(e.builder, e.loc, y, c);
  }
  e.define(0, y);
  return success();
}

/// A tensor whose dimensions have names.
struct Named {
  mlir::Value value;
  std::string names;
};

class EinsumEmission {
public:
  EinsumEmission(Emitter &e, const Einsum &form) : e(e), form(form) {}

  mlir::Value run() {
    SmallVector<Named> terms;
    for (auto [i, names] : llvm::enumerate(form.inputs)) {
      mlir::Value x = e.operand(unsigned(i));
      if (!x)
        return nullptr;
      terms.push_back(diagonal({x, names}));
    }
    Named result = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      std::string wanted = form.output;
      for (size_t j = i + 1; j < terms.size(); ++j)
        wanted += terms[j].names;
      result =
          product(onlyNeeded(result, wanted + terms[i].names), onlyNeeded(terms[i], wanted + result.names), wanted);
    }
    result = onlyNeeded(result, form.output);
    return arranged(result, form.output);
  }

private:
  static bool has(StringRef names, char name) { return names.contains(name); }
  int64_t sizeOf(char name) const { return form.sizes.at(name); }

  /// A name that stands twice: the diagonal of these two dimensions.
  Named diagonal(Named x) {
    for (size_t i = 0; i < x.names.size(); ++i)
      for (size_t j = i + 1; j < x.names.size(); ++j) {
        if (x.names[i] != x.names[j])
          continue;
        ArrayRef<int64_t> shape = shapeOf(x.value);
        Expr row = e.expr(iotaOf(e.builder, e.loc, shape, int64_t(i))),
             column = e.expr(iotaOf(e.builder, e.loc, shape, int64_t(j)));
        Expr v = e.expr(x.value), kept = select(row == column, v, zeroLike(v));
        mlir::Value sum = reduceSum(kept, {int64_t(j)}).value();
        SmallVector<int64_t> rest(shape);
        rest.erase(rest.begin() + j);
        x = {reshapeTo(e.builder, e.loc, sum, rest), x.names.substr(0, j) + x.names.substr(j + 1)};
        return diagonal(x);
      }
    return x;
  }

  /// Dimensions that nobody else has are summed.
  Named onlyNeeded(Named x, StringRef needed) {
    SmallVector<int64_t> axes, rest;
    std::string names;
    for (auto [d, name] : llvm::enumerate(x.names)) {
      if (has(needed, name)) {
        names += name;
        rest.push_back(shapeOf(x.value)[d]);
      } else {
        axes.push_back(int64_t(d));
      }
    }
    if (axes.empty())
      return x;
    return {reshapeTo(e.builder, e.loc, reduceSum(e.expr(x.value), axes).value(), rest), names};
  }

  /// Dimensions in the order of `names`; missing ones have size 1.
  mlir::Value arranged(const Named &x, StringRef names) {
    SmallVector<int64_t> permutation, shape;
    for (char name : names) {
      size_t at = x.names.find(name);
      shape.push_back(at == std::string::npos ? 1 : shapeOf(x.value)[at]);
      if (at != std::string::npos)
        permutation.push_back(int64_t(at));
    }
    return reshapeTo(e.builder, e.loc, transposeTo(e.builder, e.loc, x.value, permutation), shape);
  }

  /// (batch, rows, contracted) times (batch, contracted, columns).
  Named product(const Named &a, const Named &b, StringRef wanted) {
    std::string batch, rows, columns, contracted;
    for (char name : a.names)
      (has(b.names, name) ? (has(wanted, name) ? batch : contracted) : rows) += name;
    for (char name : b.names)
      if (!has(a.names, name))
        columns += name;
    auto count = [&](StringRef names) {
      int64_t product = 1;
      for (char name : names)
        product *= sizeOf(name);
      return product;
    };
    auto full = [&](mlir::Value x, StringRef names) { // sizes 1 that broadcast
      SmallVector<int64_t> shape;
      for (char name : names)
        shape.push_back(sizeOf(name));
      return broadcastTo(e.builder, e.loc, x, shape);
    };
    std::string left = batch + rows + contracted, right = batch + contracted + columns;
    mlir::Value x =
        reshapeTo(e.builder, e.loc, full(arranged(a, left), left), {count(batch), count(rows), count(contracted)});
    mlir::Value y =
        reshapeTo(e.builder, e.loc, full(arranged(b, right), right), {count(batch), count(contracted), count(columns)});
    mlir::Value z = graph::MatmulOp::create(e.builder, e.loc, x, y, false, false);
    std::string names = batch + rows + columns;
    SmallVector<int64_t> shape;
    for (char name : names)
      shape.push_back(sizeOf(name));
    return {reshapeTo(e.builder, e.loc, z, shape), names};
  }

  Emitter &e;
  const Einsum &form;
};

LogicalResult einsum(Emitter &e) {
  SmallVector<Shape> shapes;
  for (unsigned i = 0; i < e.node->inputs.size(); ++i)
    shapes.push_back(e.input(i).shape);
  std::string error;
  std::optional<Einsum> form = parseEinsum(e.node->text("equation", ""), shapes, error);
  if (!form)
    return e.fail(error);
  mlir::Value y = EinsumEmission(e, *form).run();
  if (!y)
    return failure();
  e.define(0, broadcastTo(e.builder, e.loc, y, e.outputShape()));
  return success();
}

/// What a convolution's tap k multiplies: x at start + k * dilation + position * stride, for every position.
mlir::Value tapOf(Emitter &e, mlir::Value padded, const ConvolutionForm &form, ArrayRef<int64_t> tap) {
  for (auto [d, k] : llvm::enumerate(tap)) {
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < form.outputs[d]; ++i)
      positions.push_back(k * form.dilations[d] + i * form.strides[d]);
    padded = takeAlong(e.builder, e.loc, padded, int64_t(d) + 2, positions);
  }
  return padded;
}

/// y (B, M, ...) from x (B, C, ...) and weights (M, C / groups, taps...): the taps of each position side by side times
/// the weights, group by group; one channel a group: a sum of products over the taps.
LogicalResult convolution(Emitter &e) {
  mlir::Value x = e.operand(0), w = x ? e.operand(1) : nullptr;
  if (!w)
    return failure();
  std::string error;
  std::optional<ConvolutionForm> form = convolutionForm(*e.node, shapeOf(x), shapeOf(w), error);
  if (!form)
    return e.fail(error);
  SmallVector<int64_t> low{0, 0}, high{0, 0};
  low.append(form->low.begin(), form->low.end());
  high.append(form->high.begin(), form->high.end());
  mlir::Value padded = padWith(e.builder, e.loc, x, low, high, 0);
  int64_t B = shapeOf(x)[0], C = shapeOf(x)[1], M = shapeOf(w)[0], G = form->groups, taps = 1, places = 1;
  for (int64_t size : shapeOf(w).drop_front(2))
    taps *= size;
  for (int64_t size : form->outputs)
    places *= size;
  SmallVector<mlir::Value> columns; // per tap (B, G, 1, C/G, places)
  SmallVector<int64_t> tap(form->outputs.size(), 0);
  for (int64_t t = 0; t < taps; ++t) {
    mlir::Value part = tapOf(e, padded, *form, tap);
    columns.push_back(reshapeTo(e.builder, e.loc, part, {B, G, C / G, 1, places}));
    for (int64_t d = int64_t(tap.size()) - 1; d >= 0; --d) {
      if (++tap[d] < shapeOf(w)[d + 2])
        break;
      tap[d] = 0;
    }
  }
  mlir::Value y;
  if (C == G) {
    mlir::Value weights = reshapeTo(e.builder, e.loc, w, {1, G, M / G, taps, 1});
    for (int64_t t = 0; t < taps; ++t) {
      SmallVector<int64_t> shape{B, G, M / G, 1, places};
      mlir::Value factor = sliceOf(e.builder, e.loc, weights, {0, 0, 0, t, 0}, {1, G, M / G, 1, 1});
      Expr term = e.expr(broadcastTo(e.builder, e.loc, columns[t], shape)) *
                  e.expr(broadcastTo(e.builder, e.loc, factor, shape));
      y = y ? (e.expr(y) + term).value() : term.value();
    }
  } else {
    int64_t depth = C / G * taps;
    mlir::Value all = reshapeTo(e.builder, e.loc, concatOf(e.builder, e.loc, columns, 3), {B, G, depth, places});
    mlir::Value weights = reshapeTo(e.builder, e.loc, w, {1, G, M / G, depth});
    weights = broadcastTo(e.builder, e.loc, weights, {B, G, M / G, depth});
    y = graph::MatmulOp::create(e.builder, e.loc, weights, all, false, false);
  }
  y = reshapeTo(e.builder, e.loc, y, e.outputShape());
  if (e.node->hasInput(2)) {
    mlir::Value bias = e.operand(2);
    if (!bias)
      return failure();
    SmallVector<int64_t> shape(e.outputShape().size(), 1);
    shape[1] = M;
    bias = broadcastTo(e.builder, e.loc, reshapeTo(e.builder, e.loc, bias, shape), e.outputShape());
    y = (e.expr(y) + e.expr(bias)).value();
  }
  e.define(0, y);
  return success();
}

} // namespace

void addProductEmission(llvm::StringMap<EmitFunction> &t) {
  t["MatMul"] = matmul;
  t["Gemm"] = gemm;
  t["Einsum"] = einsum;
  t["Conv"] = convolution;
}

} // namespace ztc::importer
