#include "compiler/Codegen/IndexExpr.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace mlir;

namespace ztc::codegen {

IndexExpr IndexExpr::operator+(const IndexExpr &other) const {
  IndexExpr sum(constant_ + other.constant_);
  auto a = terms_.begin(), b = other.terms_.begin();
  while (a != terms_.end() || b != other.terms_.end()) {
    if (b == other.terms_.end() || (a != terms_.end() && a->symbol->id < b->symbol->id)) {
      sum.terms_.push_back(*a++);
    } else if (a == terms_.end() || b->symbol->id < a->symbol->id) {
      sum.terms_.push_back(*b++);
    } else {
      if (int64_t coefficient = a->coefficient + b->coefficient)
        sum.terms_.push_back({a->symbol, coefficient});
      ++a, ++b;
    }
  }
  return sum;
}

IndexExpr IndexExpr::operator*(int64_t factor) const {
  if (factor == 0)
    return IndexExpr();
  IndexExpr product(constant_ * factor);
  for (const Term &term : terms_)
    product.terms_.push_back({term.symbol, term.coefficient * factor});
  return product;
}

int64_t IndexExpr::minimum() const {
  int64_t sum = constant_;
  for (const Term &term : terms_)
    sum += term.coefficient * (term.coefficient > 0 ? term.symbol->minimum : term.symbol->maximum);
  return sum;
}

int64_t IndexExpr::maximum() const {
  int64_t sum = constant_;
  for (const Term &term : terms_)
    sum += term.coefficient * (term.coefficient > 0 ? term.symbol->maximum : term.symbol->minimum);
  return sum;
}

int64_t IndexExpr::divisor() const {
  int64_t divisor = constant_;
  for (const Term &term : terms_)
    divisor = std::gcd(divisor, term.coefficient * term.symbol->divisor);
  return std::abs(divisor);
}

unsigned IndexExpr::level() const {
  unsigned level = 0;
  for (const Term &term : terms_)
    level = std::max(level, term.symbol->level);
  return level;
}

const IndexSymbol *IndexExpr::lane(int64_t *coefficient) const {
  for (const Term &term : terms_)
    if (term.symbol->isLane()) {
      if (coefficient)
        *coefficient = term.coefficient;
      return term.symbol;
    }
  return nullptr;
}

IndexExpr IndexExpr::withoutLane() const {
  IndexExpr rest = *this;
  llvm::erase_if(rest.terms_, [](const Term &term) { return term.symbol->isLane(); });
  return rest;
}

void IndexExpr::appendKey(std::vector<int64_t> &key) const {
  key.push_back(terms_.size());
  key.push_back(constant_);
  for (const Term &term : terms_) {
    key.push_back(term.symbol->id);
    key.push_back(term.coefficient);
  }
}

unsigned levelOf(ArrayRef<IndexExpr> access) {
  unsigned level = 0;
  for (const IndexExpr &index : access)
    level = std::max(level, index.level());
  return level;
}

const IndexSymbol *laneOf(ArrayRef<IndexExpr> access) {
  for (const IndexExpr &index : access)
    if (const IndexSymbol *lane = index.lane())
      return lane;
  return nullptr;
}

IndexExpr linearize(ArrayRef<IndexExpr> access, ArrayRef<int64_t> shape) {
  IndexExpr sum;
  for (auto [index, size] : llvm::zip_equal(access, shape))
    sum = sum * size + index; // a dynamic size meets the empty sum only
  return sum;
}

} // namespace ztc::codegen
