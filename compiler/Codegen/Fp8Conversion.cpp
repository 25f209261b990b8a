#include "compiler/Codegen/Fp8Conversion.h"
#include "runtime/Core/Fp8.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace ztc::codegen {

static constexpr llvm::StringLiteral kToE4m3 = "llvm.nvvm.ff.to.e4m3x2.rn", kToE5m2 = "llvm.nvvm.ff.to.e5m2x2.rn";

bool convertsToFp8(const llvm::Module &module) {
  for (llvm::StringRef name : {kToE4m3, kToE5m2})
    if (const llvm::Function *conversion = module.getFunction(name); conversion && !conversion->use_empty())
      return true;
  return false;
}

/// toFp8 of an f32, i32 with the code in the lowest byte.
static llvm::Value *fp8Code(llvm::IRBuilder<> &b, llvm::Value *number, Fp8Format format) {
  const bool isE4m3 = format == Fp8Format::E4m3;
  const uint32_t dropped = isE4m3 ? 20 : 21, rebias = (isE4m3 ? 127u - 7u : 127u - 15u) << 23;
  const float anchor = isE4m3 ? 0x1p14f : 0x1p7f, smallestNormal = isE4m3 ? 0x1p-6f : 0x1p-14f;
  llvm::Type *i32 = b.getInt32Ty(), *f32 = b.getFloatTy();
  const auto bitsOf = [&](float value) { return b.getInt32(std::bit_cast<uint32_t>(value)); };
  llvm::Value *bits = b.CreateBitCast(number, i32), *magnitude = b.CreateAnd(bits, 0x7fffffff);
  llvm::Value *limit = bitsOf(largestFp8(format));
  llvm::Value *limited = b.CreateSelect(b.CreateICmpULT(magnitude, limit), magnitude, limit);
  llvm::Value *odd = b.CreateAnd(b.CreateLShr(limited, dropped), 1);
  llvm::Value *half = b.getInt32((1u << (dropped - 1)) - 1 - rebias);
  llvm::Value *rounded = b.CreateLShr(b.CreateAdd(b.CreateAdd(limited, half), odd), dropped);
  llvm::Value *sum = b.CreateFAdd(b.CreateBitCast(limited, f32), llvm::ConstantFP::get(f32, anchor));
  llvm::Value *small = b.CreateSub(b.CreateBitCast(sum, i32), bitsOf(anchor));
  llvm::Value *code = b.CreateSelect(b.CreateICmpULT(limited, bitsOf(smallestNormal)), small, rounded);
  code = b.CreateOr(code, b.CreateAnd(b.CreateLShr(bits, 24), 0x80));
  return b.CreateSelect(b.CreateICmpUGT(magnitude, b.getInt32(0x7f800000)), b.getInt32(0x7f), code);
}

void expandFp8Conversions(llvm::Module &module) {
  for (auto [name, format] : {std::pair(kToE4m3, Fp8Format::E4m3), {kToE5m2, Fp8Format::E5m2}}) {
    llvm::Function *conversion = module.getFunction(name);
    if (!conversion)
      continue;
    for (llvm::User *user : llvm::make_early_inc_range(conversion->users())) {
      auto *call = llvm::cast<llvm::CallInst>(user);
      llvm::IRBuilder<> b(call);
      llvm::Value *upper = fp8Code(b, call->getArgOperand(0), format),
                  *lower = fp8Code(b, call->getArgOperand(1), format);
      call->replaceAllUsesWith(b.CreateTrunc(b.CreateOr(b.CreateShl(upper, 8), lower), b.getInt16Ty()));
      call->eraseFromParent();
    }
    conversion->eraseFromParent();
  }
}

} // namespace ztc::codegen
