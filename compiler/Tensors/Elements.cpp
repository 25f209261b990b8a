#include "compiler/Tensors/Elements.h"
#include "runtime/Core/FloatTypes.h"
#include "llvm/ADT/APFloat.h"
#include <cstring>

using llvm::APFloat;
using llvm::ArrayRef;

namespace ztc {
namespace {

template <typename Stored, typename Number, typename Convert>
void readAs(ArrayRef<char> bytes, std::vector<Number> &numbers, Convert &&convert) {
  const size_t count = bytes.size() / sizeof(Stored);
  numbers.reserve(numbers.size() + count);
  for (size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    numbers.push_back(static_cast<Number>(convert(stored)));
  }
}

template <typename Stored> void readIntegersAs(ArrayRef<char> bytes, std::vector<int64_t> &integers) {
  readAs<Stored>(bytes, integers, [](Stored stored) { return stored; });
}

double convertTo(APFloat value, const llvm::fltSemantics &semantics) {
  bool losesInfo = false;
  value.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  return toDouble(value);
}

} // namespace

double toDouble(const APFloat &value) {
  if (&value.getSemantics() == &APFloat::IEEEdouble())
    return value.convertToDouble();
  APFloat wide(value);
  bool losesInfo = false;
  wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
  return wide.convertToDouble();
}

double roundOnce(double value, const llvm::fltSemantics &semantics) {
  if (&semantics == &APFloat::IEEEdouble())
    return value;
  if (&semantics == &APFloat::IEEEsingle())
    return static_cast<float>(value);
  return convertTo(APFloat(value), semantics);
}

double roundThroughF32(double value, const llvm::fltSemantics &semantics) {
  if (&semantics == &APFloat::IEEEdouble())
    return value;
  const auto single = static_cast<float>(value);
  if (&semantics == &APFloat::IEEEsingle())
    return single;
  if (&semantics == &APFloat::BFloat())
    return fromBf16(toBf16(single));
  if (&semantics == &APFloat::IEEEhalf())
    return fromF16(toF16(single));
  return convertTo(APFloat(single), semantics);
}

void readFloats(ArrayRef<char> bytes, const llvm::fltSemantics &semantics, std::vector<double> &reals) {
  if (&semantics == &APFloat::IEEEdouble())
    readAs<double>(bytes, reals, [](double stored) { return stored; });
  else if (&semantics == &APFloat::IEEEsingle())
    readAs<float>(bytes, reals, [](float stored) { return stored; });
  else if (&semantics == &APFloat::BFloat())
    readAs<uint16_t>(bytes, reals, fromBf16);
  else if (&semantics == &APFloat::IEEEhalf())
    readAs<uint16_t>(bytes, reals, fromF16);
  else if (APFloat::getSizeInBits(semantics) == 8)
    readAs<uint8_t>(bytes, reals, [&](uint8_t stored) { return toDouble(APFloat(semantics, llvm::APInt(8, stored))); });
}

void readIntegers(ArrayRef<char> bytes, unsigned bytesEach, bool isSigned, std::vector<int64_t> &integers) {
  switch (bytesEach) {
  case 1:
    return isSigned ? readIntegersAs<int8_t>(bytes, integers) : readIntegersAs<uint8_t>(bytes, integers);
  case 2:
    return isSigned ? readIntegersAs<int16_t>(bytes, integers) : readIntegersAs<uint16_t>(bytes, integers);
  case 4:
    return isSigned ? readIntegersAs<int32_t>(bytes, integers) : readIntegersAs<uint32_t>(bytes, integers);
  default:
    return readIntegersAs<int64_t>(bytes, integers);
  }
}

} // namespace ztc
