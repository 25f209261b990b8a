// Where bytes of a weight are, as the IR says it (graph.source) and PlanWriter reads it.
#pragma once
#include "mlir/IR/Builders.h"
#include <string>

namespace ztc {

/// A part of a file, or bytes themselves.
struct StoredPiece {
  std::string path; ///< absolute
  uint64_t offset = 0, length = 0, fileSize = 0;
  std::string type;      ///< as safetensors calls it
  std::string data = {}; ///< without a path

  llvm::SmallVector<mlir::NamedAttribute> attributes(mlir::Builder &builder) const {
    auto number = [&](uint64_t value) { return builder.getI64IntegerAttr(int64_t(value)); };
    llvm::SmallVector<mlir::NamedAttribute> result{
        builder.getNamedAttr("path", builder.getStringAttr(path)), builder.getNamedAttr("offset", number(offset)),
        builder.getNamedAttr("length", number(length)), builder.getNamedAttr("type", builder.getStringAttr(type)),
        builder.getNamedAttr("file_size", number(fileSize))};
    if (!data.empty())
      result.push_back(builder.getNamedAttr("data", builder.getStringAttr(data)));
    return result;
  }
};

} // namespace ztc
