// Attributes that evaluation and emission read alike: equations, windows.
#pragma once
#include "frontends/onnx/HostTensor.h"
#include <map>
#include <optional>

namespace ztc::importer {

/// An equation of Einsum: a letter a dimension; those that an ellipsis stands for have capital names of their own. A
/// size is the dimension's; operands may have 1 in its place.
struct Einsum {
  std::vector<std::string> inputs;
  std::string output;
  std::map<char, int64_t> sizes;
};
std::optional<Einsum> parseEinsum(llvm::StringRef equation, llvm::ArrayRef<Shape> shapes, std::string &error);

/// Windows over the dimensions after batch and channels.
struct ConvolutionForm {
  int64_t groups = 1;
  llvm::SmallVector<int64_t> strides, dilations, low, high, outputs;
};
std::optional<ConvolutionForm> convolutionForm(const Node &node, llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> w,
                                               std::string &error);

} // namespace ztc::importer
