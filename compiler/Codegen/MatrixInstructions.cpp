#include "compiler/Codegen/MatrixInstructions.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace ztc {

std::array<Value, 4> codegen::loadMatrices(KernelBuilder &b, Value address, bool transposed) {
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getI32Type()));
  Value loaded =
      NVVM::LdMatrixOp::create(b, type, address, 4, transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
                               NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
  std::array<Value, 4> registers;
  for (int64_t i = 0; i < 4; ++i)
    registers[i] = LLVM::ExtractValueOp::create(b, loaded, i);
  return registers;
}

void codegen::multiplyMatrices(KernelBuilder &b, Type element, MutableArrayRef<Value> sums,
                               const std::array<Value, 4> &left, Value right0, Value right1) {
  SmallVector<Value> operands(left.begin(), left.end());
  operands.append({right0, right1});
  NVVM::MMATypes factor = NVVM::MMATypes::bf16;
  if (element.isF16()) {
    factor = NVVM::MMATypes::f16;
    for (Value &operand : operands)
      operand = LLVM::BitcastOp::create(b, VectorType::get({2}, element), operand);
  }
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getF32Type()));
  ArrayRef<Value> factors(operands);
  Value product = NVVM::MmaOp::create(b, type, factors.take_front(4), factors.drop_front(4), ValueRange(sums),
                                      {16, 8, 16}, std::nullopt, std::nullopt, std::array{factor, factor},
                                      std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  for (int64_t i = 0; i < 4; ++i)
    sums[i] = LLVM::ExtractValueOp::create(b, product, i);
}

Value codegen::packPair(KernelBuilder &b, Type element, Value first, Value second) {
  auto type = VectorType::get({2}, element);
  constexpr auto nearest = NVVM::FPRoundingMode::RN;
  Value pair = element.isF16()
                   ? NVVM::ConvertF32x2ToF16x2Op::create(b, type, second, first, Value(), nearest).getResult()
                   : NVVM::ConvertF32x2ToBF16x2Op::create(b, type, second, first, Value(), nearest).getResult();
  return LLVM::BitcastOp::create(b, b.getI32Type(), pair);
}

} // namespace ztc
