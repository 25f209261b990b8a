#include "frontends/onnx/HostTensor.h"
#include "compiler/Tensors/Elements.h"
#include "llvm/ADT/APFloat.h"
#include <bit>
#include <cmath>
#include <cstring>

using llvm::ArrayRef;

namespace ztc::importer {

int64_t wrapTo(int64_t value, ElementType type) {
  switch (type) {
  case ElementType::I8:
    return int8_t(value);
  case ElementType::U8:
    return uint8_t(value);
  case ElementType::I16:
    return int16_t(value);
  case ElementType::U16:
    return uint16_t(value);
  case ElementType::I32:
    return int32_t(value);
  case ElementType::U32:
    return uint32_t(value);
  default:
    return value;
  }
}

HostTensor::HostTensor(ElementType type, Shape dimensions) : type(type) {
  shape = std::move(dimensions);
  size_t n = static_cast<size_t>(count());
  switch (storage()) {
  case Storage::Reals:
    reals.resize(n);
    break;
  case Storage::Integers:
    integers.resize(n);
    break;
  case Storage::Bits:
    bits.resize(n);
    break;
  }
}

double HostTensor::real(int64_t index) const {
  switch (storage()) {
  case Storage::Reals:
    return reals[index];
  case Storage::Integers:
    return type == ElementType::U64 ? static_cast<double>(static_cast<uint64_t>(integers[index]))
                                    : static_cast<double>(integers[index]);
  case Storage::Bits:
    return bits[index];
  }
  return 0;
}

int64_t HostTensor::integer(int64_t index) const {
  switch (storage()) {
  case Storage::Reals: // toward zero, and no undefined conversion
    if (!(std::fabs(reals[index]) < 9.2e18))
      return reals[index] > 0 ? INT64_MAX : INT64_MIN;
    return static_cast<int64_t>(reals[index]);
  case Storage::Integers:
    return integers[index];
  case Storage::Bits:
    return bits[index];
  }
  return 0;
}

void HostTensor::setReal(int64_t index, double value) {
  if (storage() == Storage::Reals) {
    reals[index] = roundTo(value, type);
    return;
  }
  HostTensor single(ElementType::F64, {1});
  single.reals[0] = value;
  setFrom(index, single, 0);
}

void HostTensor::setInteger(int64_t index, int64_t value) {
  if (storage() == Storage::Reals)
    reals[index] = roundTo(static_cast<double>(value), type);
  else if (storage() == Storage::Bits)
    bits[index] = value != 0;
  else
    integers[index] = wrapTo(value, type);
}

void HostTensor::setFrom(int64_t index, const HostTensor &from, int64_t fromIndex) {
  if (storage() == Storage::Reals)
    reals[index] = from.type == type ? from.reals[fromIndex] : roundTo(from.real(fromIndex), type);
  else if (from.storage() != Storage::Reals)
    setInteger(index, from.integer(fromIndex));
  else if (storage() == Storage::Bits)
    bits[index] = from.reals[fromIndex] != 0;
  else if (type == ElementType::U64 && from.reals[fromIndex] >= 9.2e18 && from.reals[fromIndex] < 1.8446744073709552e19)
    integers[index] = static_cast<int64_t>(static_cast<uint64_t>(from.reals[fromIndex]));
  else
    setInteger(index, from.integer(fromIndex));
}

bool HostTensor::isSplat() const {
  if (count() == 0)
    return false;
  for (int64_t i = 1, n = count(); i < n; ++i) {
    if (storage() == Storage::Reals ? std::bit_cast<uint64_t>(reals[i]) != std::bit_cast<uint64_t>(reals[0])
                                    : integer(i) != integer(0))
      return false;
  }
  return true;
}

HostTensor HostTensor::ofIntegers(ArrayRef<int64_t> values) {
  HostTensor tensor(ElementType::I64, {int64_t(values.size())});
  tensor.integers.assign(values.begin(), values.end());
  return tensor;
}

static const llvm::fltSemantics &semanticsOf(ElementType type) {
  return type == ElementType::F64   ? llvm::APFloat::IEEEdouble()
         : type == ElementType::F32 ? llvm::APFloat::IEEEsingle()
         : type == ElementType::F16 ? llvm::APFloat::IEEEhalf()
                                    : llvm::APFloat::BFloat();
}

static bool isSigned(ElementType type) {
  return type == ElementType::I8 || type == ElementType::I16 || type == ElementType::I32 || type == ElementType::I64;
}

HostTensor HostTensor::fromBytes(const Initializer &initializer, llvm::StringRef elements) {
  HostTensor tensor;
  tensor.type = initializer.type;
  tensor.shape = initializer.shape;
  const unsigned bytesEach = std::max(elementBytes(tensor.type), 1u);
  const ArrayRef<char> bytes(elements.data(), size_t(tensor.count()) * bytesEach);
  switch (tensor.storage()) {
  case Storage::Reals:
    readFloats(bytes, semanticsOf(tensor.type), tensor.reals);
    break;
  case Storage::Integers:
    readIntegers(bytes, bytesEach, isSigned(tensor.type), tensor.integers);
    break;
  case Storage::Bits:
    tensor.bits.assign(bytes.begin(), bytes.end());
    for (uint8_t &bit : tensor.bits)
      bit = bit != 0;
    break;
  }
  return tensor;
}

double roundTo(double value, ElementType type) {
  if (type == ElementType::F64)
    return value;
  if (type == ElementType::F32)
    return static_cast<float>(value);
  return roundOnce(value, semanticsOf(type));
}

} // namespace ztc::importer
