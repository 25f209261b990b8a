#include "compiler/Dialect/Graph/Rates.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;

namespace ztc::graph {

static constexpr llvm::StringLiteral kEnds = "graph.rate_ends", kFactors = "graph.rate_factors";

double RateFactors::at(int64_t element) const {
  if (empty())
    return 1;
  const size_t run = llvm::upper_bound(ends, element) - ends.begin();
  return factors[std::min(run, factors.size() - 1)];
}

RateFactors simplified(RateFactors rates) {
  RateFactors joined;
  for (auto [end, factor] : llvm::zip_equal(rates.ends, rates.factors)) {
    if (!joined.empty() && joined.factors.back() == factor) {
      joined.ends.back() = end;
      continue;
    }
    joined.ends.push_back(end);
    joined.factors.push_back(factor);
  }
  return llvm::all_of(joined.factors, [](double factor) { return factor == 1; }) ? RateFactors() : joined;
}

RateFactors rateFactorsOf(Operation *step) {
  RateFactors rates;
  auto ends = step->getAttrOfType<DenseI64ArrayAttr>(kEnds);
  auto factors = step->getAttrOfType<DenseF64ArrayAttr>(kFactors);
  if (!ends || !factors)
    return rates;
  rates.ends.append(ends.asArrayRef().begin(), ends.asArrayRef().end());
  rates.factors.append(factors.asArrayRef().begin(), factors.asArrayRef().end());
  return rates;
}

void setRateFactors(Operation *step, const RateFactors &rates) {
  if (rates.empty())
    return;
  step->setAttr(kEnds, DenseI64ArrayAttr::get(step->getContext(), rates.ends));
  step->setAttr(kFactors, DenseF64ArrayAttr::get(step->getContext(), rates.factors));
}

LogicalResult verifyRateFactors(Operation *step) {
  auto ends = step->getAttrOfType<DenseI64ArrayAttr>(kEnds);
  auto factors = step->getAttrOfType<DenseF64ArrayAttr>(kFactors);
  if (!ends && !factors)
    return success();
  if (!ends || !factors || ends.size() != factors.size())
    return step->emitOpError("has not as many ends of runs as factors of the learning rate");
  if (!llvm::is_sorted(ends.asArrayRef(), std::less_equal<>()))
    return step->emitOpError("the ends of runs of one learning rate do not ascend");
  for (double factor : factors.asArrayRef())
    if (!std::isfinite(factor) || factor <= 0)
      return step->emitOpError("a factor of the learning rate is ") << factor << ", it should be finite and positive";
  return success();
}

} // namespace ztc::graph
