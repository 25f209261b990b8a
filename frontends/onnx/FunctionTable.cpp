#include "frontends/onnx/FunctionTable.h"
#include <algorithm>
#include <cmath>

namespace ztc::importer {

using Step = FoldedFunction::Step;

static double sigmoid(double w) {
  return 1 / (1 + std::exp(-w));
}

llvm::ArrayRef<FoldedFunction> foldedFunctions() {
  static const std::vector<FoldedFunction> table{
      {"1 - w", [](double w) { return 1 - w; }, {{"Sub", Step::NumberFirst}}, " sub rsub ", true},
      {"1 + w", [](double w) { return 1 + w; }, {{"Add", Step::NumberSecond}}, " add ", true},
      {"w - 1", [](double w) { return w - 1; }, {{"Sub", Step::NumberSecond}}, " sub ", true},
      {"-w", [](double w) { return -w; }, {{"Neg"}}, " neg mul "},
      {"w * w", [](double w) { return w * w; }, {{"Mul", Step::Twice}}, " mul pow square "},
      {"exp(w)", [](double w) { return std::exp(w); }, {{"Exp"}}, " exp "},
      {"-exp(w)", [](double w) { return -std::exp(w); }, {{"Exp"}, {"Neg"}}, " neg mul "},
      {"exp(-w)", [](double w) { return std::exp(-w); }, {{"Neg"}, {"Exp"}}, " exp "},
      {"exp(-exp(w))", [](double w) { return std::exp(-std::exp(w)); }, {{"Exp"}, {"Neg"}, {"Exp"}}, " exp "},
      {"log(sigmoid(w))",
       [](double w) { return -std::log1p(std::exp(-w)); },
       {{"Neg"}, {"Softplus"}, {"Neg"}},
       " log_sigmoid logsigmoid ",
       true},
      {"log(w)", [](double w) { return std::log(w); }, {{"Log"}}, " log "},
      {"sqrt(w)", [](double w) { return std::sqrt(w); }, {{"Sqrt"}}, " sqrt pow "},
      {"1 / w", [](double w) { return 1 / w; }, {{"Reciprocal"}}, " reciprocal div "},
      {"1 / sqrt(w)", [](double w) { return 1 / std::sqrt(w); }, {{"Sqrt"}, {"Reciprocal"}}, " rsqrt pow "},
      {"tanh(w)", [](double w) { return std::tanh(w); }, {{"Tanh"}}, " tanh "},
      {"sigmoid(w)", sigmoid, {{"Sigmoid"}}, " sigmoid "},
      {"1 - sigmoid(w)",
       [](double w) { return 1 - sigmoid(w); },
       {{"Sigmoid"}, {"Sub", Step::NumberFirst}},
       " sub rsub ",
       true},
      {"softplus(w)", [](double w) { return w > 30 ? w : std::log1p(std::exp(w)); }, {{"Softplus"}}, " softplus "},
      // xIELU, as Apertus has it: beta, which is not a parameter, is 1/2.
      {"0.5 + softplus(w)",
       [](double w) { return 0.5 + (w > 30 ? w : std::log1p(std::exp(w))); },
       {{"Softplus"}, {"Add", Step::NumberSecond, 0.5}},
       " add ",
       true},
      {"|w|", [](double w) { return std::fabs(w); }, {{"Abs"}}, " abs "},
      {"softmax(w)", nullptr, {{"Softmax"}}, " softmax select getitem unbind split "},
      {"w", [](double w) { return w; }, {}, " select getitem unbind index slice split "}, // the last one
  };
  return table;
}

std::vector<double> FoldedFunction::apply(std::vector<double> w, int64_t width, double scale) const {
  if (of) {
    for (double &element : w)
      element = scale * of(element);
    return w;
  }
  for (size_t row = 0; width && row < w.size(); row += width) { // softmax
    double sum = 0, largest = *std::max_element(w.begin() + row, w.begin() + row + width);
    for (int64_t i = 0; i < width; ++i)
      sum += w[row + i] = std::exp(w[row + i] - largest);
    for (int64_t i = 0; i < width; ++i)
      w[row + i] *= scale / sum;
  }
  return w;
}

} // namespace ztc::importer
