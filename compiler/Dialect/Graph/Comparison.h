// What graph.compare and graph.logic are of two elements.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

namespace ztc::graph {

template <typename T> bool holds(Comparison predicate, T a, T b) {
  switch (predicate) {
  case Comparison::Equal:
    return a == b;
  case Comparison::NotEqual:
    return a != b;
  case Comparison::Less:
    return a < b;
  case Comparison::LessOrEqual:
    return a <= b;
  case Comparison::Greater:
    return a > b;
  case Comparison::GreaterOrEqual:
    return a >= b;
  }
  llvm_unreachable("every comparison is above");
}

inline int64_t combineBits(Logic function, int64_t a, int64_t b) {
  switch (function) {
  case Logic::And:
    return a & b;
  case Logic::Or:
    return a | b;
  case Logic::Xor:
    return a ^ b;
  }
  llvm_unreachable("every function is above");
}

} // namespace ztc::graph
