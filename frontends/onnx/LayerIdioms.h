// What the ops of each transformer block became, in words: for `ztc check`.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>
#include <string>

namespace ztc::importer {

/// Of @forward: block (-1: none) -> macro op or product with what tells it apart ("attention causal, 8 heads of 64, 2
/// of key and value") -> how often. All other ops are counted as "plain op".
std::map<int64_t, std::map<std::string, unsigned>> layerIdioms(mlir::func::FuncOp function);

} // namespace ztc::importer
