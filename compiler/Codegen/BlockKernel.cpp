#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/LowerKernels.h"
#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;

namespace ztc::codegen {

BlockKernel::Values BlockKernel::forRangeRolled(Value begin, Value end, int64_t step, Values carried,
                                                llvm::function_ref<void(Value, Values &)> body) {
  Values results = forRange(begin, end, step, std::move(carried), body);
  results.front().getDefiningOp()->setAttr(
      kLoopAnnotation, parseAttribute("#llvm.loop_annotation<unroll = <disable = true>>", b.getContext()));
  return results;
}

void BlockKernel::ifThen(Value condition, llvm::function_ref<void()> then) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  then();
}

void BlockKernel::ifElse(Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  then();
  b.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

Value BlockKernel::choose(Value condition, llvm::function_ref<Value()> then, llvm::function_ref<Value()> otherwise) {
  auto branch = scf::IfOp::create(
      b, condition,
      [&](OpBuilder &, Location) {
        OpBuilder::InsertionGuard guard(b);
        scf::YieldOp::create(b, then());
      },
      [&](OpBuilder &, Location) {
        OpBuilder::InsertionGuard guard(b);
        scf::YieldOp::create(b, otherwise());
      });
  return branch.getResult(0);
}

Value BlockKernel::shared(int64_t bytes) {
  Value base = LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), kSharedSpace),
                                         (function_.getName() + "_shared").str());
  Value address = b.address(base, b.getI8Type(), b.i64(sharedBytes_));
  sharedBytes_ += llvm::alignTo(bytes, 16);
  return address;
}

DeviceLaunch BlockKernel::finish(int64_t unitsPerBlock) {
  KernelModule::State::finishKernel(b, function_);
  if (sharedBytes_) {
    b.setInsertionPoint(function_);
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), sharedBytes_), /*isConstant=*/false,
                           LLVM::Linkage::Internal, (function_.getName() + "_shared").str(), Attribute(),
                           /*alignment=*/16, kSharedSpace);
  }
  DeviceLaunch launch{threads_, unitsPerBlock, sharedBytes_, blocksTogether};
  KernelModule::State::setLaunch(function_, launch);
  return launch;
}

KernelDescription deviceService(KernelModule::State &state, StringRef name, ArrayRef<bool> written, unsigned scalars,
                                int64_t threads, int64_t unitsPerBlock, llvm::function_ref<void(BlockKernel &)> emit) {
  auto [d, isNew] = state.describeService(name, name, written);
  if (!isNew)
    return d;
  d.onHost = false;
  if (!state.gpuModule)
    return d;
  BlockKernel kernel(state, d.name, written.size(), scalars, threads);
  emit(kernel);
  d.device = kernel.finish(unitsPerBlock);
  return d;
}

} // namespace ztc::codegen
