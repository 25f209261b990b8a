// Products of matrices, and the shapes of products that are evaluated through their emission.
#include "frontends/onnx/EvaluateByGraph.h"
#include "frontends/onnx/Forms.h"
#include "llvm/Support/MathExtras.h"

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

void matmul(KernelContext &c) {
  Shape a = c.in(0).shape, b = c.in(1).shape;
  bool vectorA = a.size() == 1, vectorB = b.size() == 1;
  if (a.empty() || b.empty()) {
    c.fail("an operand is a scalar");
    return;
  }
  if (vectorA)
    a.insert(a.begin(), 1);
  if (vectorB)
    b.push_back(1);
  int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  Shape batch;
  if (b[b.size() - 2] != k || !broadcastShape(ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2), batch)) {
    c.fail("operand shapes do not fit a product: contraction sizes " + llvm::Twine(k) + " and " +
           llvm::Twine(b[b.size() - 2]));
    return;
  }
  Shape shape = batch;
  if (!vectorA)
    shape.push_back(m);
  if (!vectorB)
    shape.push_back(n);
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y || !c.spend(llvm::SaturatingMultiply(uint64_t(countOf(shape)), uint64_t(k))))
    return;
  const HostTensor &x = c.data(0), &w = c.data(1);
  if (c.failed())
    return;
  Odometer odometer(
      batch, {broadcastStrides(ArrayRef(a).drop_back(2), batch), broadcastStrides(ArrayRef(b).drop_back(2), batch)});
  int64_t to = 0;
  bool isReal = y->storage() == HostTensor::Storage::Reals;
  for (int64_t p = 0, products = countOf(batch); p < products; ++p, odometer.advance()) {
    int64_t baseA = odometer.offset(0) * m * k, baseB = odometer.offset(1) * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j, ++to) {
        double sum = 0;
        uint64_t integer = 0;
        for (int64_t l = 0; l < k; ++l) {
          if (isReal)
            sum += x.real(baseA + i * k + l) * w.real(baseB + l * n + j);
          else
            integer += uint64_t(x.integer(baseA + i * k + l)) * uint64_t(w.integer(baseB + l * n + j));
        }
        isReal ? y->setReal(to, sum) : y->setInteger(to, int64_t(integer));
      }
  }
}

void gemm(KernelContext &c) {
  ArrayRef<int64_t> a = c.in(0).shape, b = c.in(1).shape;
  if (a.size() != 2 || b.size() != 2) {
    c.fail("operands of Gemm are matrices");
    return;
  }
  bool transA = c.node.integer("transA", 0) != 0, transB = c.node.integer("transB", 0) != 0;
  int64_t m = a[transA ? 1 : 0], k = a[transA ? 0 : 1], n = b[transB ? 0 : 1];
  if (k != b[transB ? 1 : 0]) {
    c.fail("contraction sizes differ: " + llvm::Twine(k) + " and " + llvm::Twine(b[transB ? 1 : 0]));
    return;
  }
  Shape shape{m, n}, both;
  if (c.has(2) && (!broadcastShape(c.in(2).shape, shape, both) || both != shape)) {
    c.fail("the third operand does not broadcast to the product");
    return;
  }
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y || !c.spend(llvm::SaturatingMultiply(uint64_t(countOf(shape)), uint64_t(k))))
    return;
  const HostTensor &x = c.data(0), &w = c.data(1), *bias = c.has(2) ? &c.data(2) : nullptr;
  if (c.failed())
    return;
  double alpha = c.node.real("alpha", 1), beta = c.node.real("beta", 1);
  Shape strides = bias ? broadcastStrides(bias->shape, shape) : Shape{0, 0};
  HostTensor value(ElementType::F64, {1});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += x.real(transA ? l * m + i : i * k + l) * w.real(transB ? j * k + l : l * n + j);
      value.reals[0] = alpha * sum + (bias ? beta * bias->real(i * strides[0] + j * strides[1]) : 0);
      y->setFrom(i * n + j, value, 0);
    }
}

void einsum(KernelContext &c) {
  llvm::SmallVector<Shape> shapes;
  for (unsigned i = 0; i < c.node.inputs.size(); ++i)
    shapes.push_back(c.in(i).shape);
  std::string error;
  std::optional<Einsum> form = parseEinsum(c.node.text("equation", ""), shapes, error);
  if (!form) {
    c.fail(error);
    return;
  }
  Shape shape;
  for (char name : form->output)
    shape.push_back(form->sizes[name]);
  c.shape(0, c.in(0).type, shape);
}

void convolution(KernelContext &c) {
  std::string error;
  std::optional<ConvolutionForm> form = convolutionForm(c.node, c.in(0).shape, c.in(1).shape, error);
  if (!form) {
    c.fail(error);
    return;
  }
  Shape shape{c.in(0).shape[0], c.in(1).shape[0]};
  shape.append(form->outputs.begin(), form->outputs.end());
  c.shape(0, c.in(0).type, shape);
}

} // namespace

void addProductKernels(llvm::StringMap<Kernel> &t) {
  t["MatMul"] = {matmul, 0, false, 0};
  t["Gemm"] = {gemm, 0, false, 0};
  t["Einsum"] = {byGraph<einsum>, 0, false, 0};
  t["Conv"] = {byGraph<convolution>, 0, false, 0};
}

} // namespace ztc::importer
