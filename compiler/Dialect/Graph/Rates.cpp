#include "compiler/Dialect/Graph/Rates.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;

namespace ztc::graph {

namespace {
/// The attributes that hold runs of factors.
struct FactorNames {
  llvm::StringLiteral ends, factors;
};
constexpr FactorNames kRates{"graph.rate_ends", "graph.rate_factors"},
    kChanges{"graph.change_ends", "graph.change_factors"};

RateFactors factorsOf(Operation *step, const FactorNames &names) {
  RateFactors rates;
  auto ends = step->getAttrOfType<DenseI64ArrayAttr>(names.ends);
  auto factors = step->getAttrOfType<DenseF64ArrayAttr>(names.factors);
  if (!ends || !factors)
    return rates;
  rates.ends.append(ends.asArrayRef().begin(), ends.asArrayRef().end());
  rates.factors.append(factors.asArrayRef().begin(), factors.asArrayRef().end());
  return rates;
}

void setFactors(Operation *step, const FactorNames &names, const RateFactors &rates) {
  if (rates.empty())
    return;
  step->setAttr(names.ends, DenseI64ArrayAttr::get(step->getContext(), rates.ends));
  step->setAttr(names.factors, DenseF64ArrayAttr::get(step->getContext(), rates.factors));
}

LogicalResult verifyFactors(Operation *step, const FactorNames &names) {
  auto ends = step->getAttrOfType<DenseI64ArrayAttr>(names.ends);
  auto factors = step->getAttrOfType<DenseF64ArrayAttr>(names.factors);
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
} // namespace

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
  return factorsOf(step, kRates);
}
void setRateFactors(Operation *step, const RateFactors &rates) {
  setFactors(step, kRates, rates);
}
RateFactors changeFactorsOf(Operation *step) {
  return factorsOf(step, kChanges);
}
void setChangeFactors(Operation *step, const RateFactors &factors) {
  setFactors(step, kChanges, factors);
}

LogicalResult verifyRateFactors(Operation *step) {
  return failure(failed(verifyFactors(step, kRates)) || failed(verifyFactors(step, kChanges)));
}

} // namespace ztc::graph
