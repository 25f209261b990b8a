// Values of the evaluation: dense tensors on the host.
#pragma once
#include "frontends/onnx/Model.h"
#include <optional>

namespace ztc::importer {

/// A dense tensor in row-major order. Floats are held in double, rounded to `type` by whoever writes them; integers in
/// int64 (64-bit unsigned ones as their bits); booleans in bytes. One of the three vectors is used.
struct HostTensor {
  ElementType type = ElementType::Undefined;
  Shape shape;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  std::vector<uint8_t> bits;

  HostTensor() = default;
  HostTensor(ElementType type, Shape shape);
  /// The elements of an initializer whose bytes are known.
  static HostTensor fromInitializer(const Initializer &initializer) {
    return fromBytes(initializer, initializer.bytes);
  }
  /// The elements of an initializer that stand in `bytes`, which are as many as its shape needs.
  static HostTensor fromBytes(const Initializer &initializer, llvm::StringRef bytes);
  static HostTensor ofIntegers(llvm::ArrayRef<int64_t> values);

  enum class Storage { Reals, Integers, Bits };
  Storage storage() const {
    return isFloat(type) ? Storage::Reals : type == ElementType::Bool ? Storage::Bits : Storage::Integers;
  }
  int64_t count() const;
  double real(int64_t index) const;
  int64_t integer(int64_t index) const;
  /// Store an element: rounded to a float type, wrapped to an integer type's width, or whether it is not 0.
  void setReal(int64_t index, double value);
  void setInteger(int64_t index, int64_t value);
  void setFrom(int64_t index, const HostTensor &from, int64_t fromIndex);
  /// All elements are equal (to the bit; NaN equals NaN). False for an empty tensor.
  bool isSplat() const;
};

using TensorRef = std::shared_ptr<const HostTensor>;

int64_t countOf(llvm::ArrayRef<int64_t> shape);
/// The number of elements; none for sizes below zero, or where a part of the dimensions gives a number beyond 63 bits.
std::optional<int64_t> checkedCount(llvm::ArrayRef<int64_t> shape);
/// `value` as an element of an integer type holds it: the low bits. Wide types are kept whole.
int64_t wrapTo(int64_t value, ElementType type);
/// `value` rounded to nearest even in a float type; F64 leaves it.
double roundTo(double value, ElementType type);
/// The common shape of two operands, NumPy's rule; false where there is none.
bool broadcastShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, Shape &result);
/// Row-major strides in elements of an operand of shape `from` seen as `to`: 0 along broadcast dimensions.
Shape broadcastStrides(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// Walks a shape in row-major order with the element offsets of operands that have their own strides.
class Odometer {
public:
  Odometer(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Shape> strides)
      : shape(shape.begin(), shape.end()), strides(strides.begin(), strides.end()), index(shape.size(), 0),
        offsets(strides.size(), 0) {}
  int64_t offset(unsigned operand) const { return offsets[operand]; }
  void advance() {
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
      for (unsigned i = 0; i < offsets.size(); ++i)
        offsets[i] += strides[i][d];
      if (++index[d] < shape[d])
        return;
      for (unsigned i = 0; i < offsets.size(); ++i)
        offsets[i] -= strides[i][d] * shape[d];
      index[d] = 0;
    }
  }
  llvm::ArrayRef<int64_t> position() const { return index; }

private:
  Shape shape;
  llvm::SmallVector<Shape, 3> strides;
  Shape index;
  llvm::SmallVector<int64_t, 3> offsets;
};

} // namespace ztc::importer
