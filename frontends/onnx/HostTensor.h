// Values of the evaluation: dense tensors on the host.
#pragma once
#include "compiler/Tensors/DenseTensor.h"
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// A dense tensor of a type of ONNX. Floats are rounded to `type` by whoever writes them; 64-bit unsigned integers are
/// held as their bits; booleans in `bits`.
struct HostTensor : DenseTensor {
  ElementType type = ElementType::Undefined;

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

/// `value` as an element of an integer type holds it: the low bits. Wide types are kept whole.
int64_t wrapTo(int64_t value, ElementType type);
/// `value` rounded once to nearest even in a float type; F64 leaves it.
double roundTo(double value, ElementType type);

} // namespace ztc::importer
