// How a tensor of the graph follows from tensors of a checkpoint: what exporters fold, transpose, join and split.
#pragma once
#include "frontends/onnx/Model.h"
#include "nlohmann/json.hpp"
#include <optional>

namespace ztc::importer {

/// A tensor whose elements are mapped.
struct TensorView {
  std::string name;
  llvm::StringRef bytes; ///< little-endian, row-major
  ElementType type = ElementType::Undefined;
  Shape shape;

  int64_t count() const;
  /// As a matrix: all dimensions but the last are rows.
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const { return columns() ? count() / columns() : 0; }
  double at(int64_t index) const;
  /// `count` elements from `first` on, as f32.
  void read(int64_t first, int64_t count, float *out) const;
  /// All elements are equal: says nothing about which tensor it is.
  bool isConstant() const;
  /// One matrix of a stack (E, rows, columns).
  TensorView matrix(int64_t index) const;
};

/// An initializer's elements, wherever they are; `bytes` is empty where they are not there.
TensorView viewOf(const Model &model, const Initializer &initializer);

/// Relative distance that rounding to the narrower of two types may leave.
double roundingOf(ElementType a, ElementType b);

/// A number for messages: seven digits at most.
std::string numberText(double value);

/// graph tensor = scale * arranged + shift. `arranged` are the pieces one after the other along `axis` (of the
/// checkpoint's orientation), then transposed in their last two dimensions, then given the graph's dimensions. A stack
/// of matrices, one per expert, is so for each of its matrices.
struct WeightForm {
  struct Piece {
    std::string tensor;          ///< name in the checkpoint
    int64_t begin = 0, size = 0; ///< along the axis; all of it unless the graph holds a part
    bool isPart = false;
    int64_t matrix = -1; ///< of a stack in the checkpoint, this matrix; -1: the tensor itself
  };
  std::vector<Piece> pieces; ///< of a stack: those of its first matrix, of its second, ...
  int64_t axis = 0;
  int64_t matrices = 0; ///< that the graph's tensor stacks; 0: it is not a stack
  bool isTransposed = false;
  bool isReshaped = false; ///< the graph has the elements in other dimensions
  double scale = 1, shift = 0;

  static WeightForm of(llvm::StringRef tensor, bool isTransposed);
  /// One whole tensor, element by element the same up to rounding and transposition.
  bool isPlain() const { return scale == 1 && shift == 0 && isWhole() && !isReshaped; }
  /// One whole tensor, whatever its dimensions and what is folded.
  bool isWhole() const { return pieces.size() == 1 && !pieces[0].isPart && pieces[0].matrix < 0 && !matrices; }
  /// In words, for reports: "1 + w folded into it: trained and exported as w"; empty for what is the tensor itself.
  std::vector<std::string> describe() const;

  nlohmann::json toJson() const;
  static std::optional<WeightForm> fromJson(const nlohmann::json &json);
};

} // namespace ztc::importer
