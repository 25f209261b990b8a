// Reference rules of normalisation, softmax and gated activations, straight from the formulas in GraphNorm.td.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

/// 1/sqrt(mean(row^2) + epsilon) of `size` elements.
double inverseRms(const double *row, int64_t size, double epsilon) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d)
    sum += row[d] * row[d];
  return 1.0 / std::sqrt(sum / static_cast<double>(size) + epsilon);
}

void runRmsNorm(graph::RmsNormOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &weight = *operands[1];
  int64_t D = weight.count();
  for (int64_t row = 0; row < x.count(); row += D) {
    double r = inverseRms(&x.reals[row], D, op.getEpsilon().convertToDouble());
    for (int64_t d = 0; d < D; ++d)
      results[0].reals[row + d] = x.reals[row + d] * r * weight.reals[d];
  }
}

void runRmsNormGrad(graph::RmsNormGradOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &weight = *operands[1], &dy = *operands[2];
  int64_t D = weight.count();
  for (int64_t row = 0; row < x.count(); row += D) {
    double r = inverseRms(&x.reals[row], D, op.getEpsilon().convertToDouble());
    double mean = 0; // of x * h
    for (int64_t d = 0; d < D; ++d)
      mean += x.reals[row + d] * dy.reals[row + d] * weight.reals[d] / static_cast<double>(D);
    for (int64_t d = 0; d < D; ++d) {
      double h = dy.reals[row + d] * weight.reals[d];
      results[0].reals[row + d] = r * h - x.reals[row + d] * r * r * r * mean;
      results[1].reals[d] += dy.reals[row + d] * x.reals[row + d] * r;
    }
  }
}

void runSoftmax(graph::SoftmaxOp, Operands operands, Results results) {
  const Tensor &x = *operands[0];
  int64_t D = x.shape.back();
  for (int64_t row = 0; row < x.count(); row += D) {
    double max = *std::max_element(x.reals.begin() + row, x.reals.begin() + row + D), sum = 0;
    for (int64_t d = 0; d < D; ++d)
      sum += results[0].reals[row + d] = std::exp(x.reals[row + d] - max);
    for (int64_t d = 0; d < D; ++d)
      results[0].reals[row + d] /= sum;
  }
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

void runSwiglu(graph::SwigluOp, Operands operands, Results results) {
  for (int64_t i = 0; i < operands[0]->count(); ++i) {
    double gate = operands[0]->reals[i], up = operands[1]->reals[i];
    results[0].reals[i] = gate * sigmoid(gate) * up;
  }
}

void runSwigluGrad(graph::SwigluGradOp, Operands operands, Results results) {
  for (int64_t i = 0; i < operands[0]->count(); ++i) {
    double gate = operands[0]->reals[i], up = operands[1]->reals[i], dy = operands[2]->reals[i], s = sigmoid(gate);
    results[0].reals[i] = dy * up * s * (1 + gate * (1 - s));
    results[1].reals[i] = dy * gate * s;
  }
}

} // namespace

void addNormRules(RuleTable &table) {
  table.add<graph::RmsNormOp>(runRmsNorm);
  table.add<graph::RmsNormGradOp>(runRmsNormGrad);
  table.add<graph::SoftmaxOp>(runSoftmax);
  table.add<graph::SwigluOp>(runSwiglu);
  table.add<graph::SwigluGradOp>(runSwigluGrad);
}

} // namespace ztc
