#include "compiler/Codegen/EmitSimt.h"
#include "compiler/Codegen/CompileParts.h"
#include "compiler/Codegen/EmitCubin.h"
#include "compiler/Codegen/EmitElf.h"
#include "compiler/Codegen/Fp8Conversion.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace ztc::codegen {

static constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

/// An access to memory that the engine is told of.
struct Access {
  Instruction *by;
  Value *address;
  uint64_t bytes;
  bool writes;
  uint64_t alignment; ///< where there is less of it than bytes, a GPU accesses as many bytes at a time

  bool isAtomic() const { return by->isAtomic(); }
  bool isShared() const { return address->getType()->getPointerAddressSpace() == kSharedSpace; }
};

/// Whether a call copies from global to shared memory while the thread goes on (cp.async).
static bool copiesAsynchronously(const CallInst &call) {
  const Function *callee = call.getCalledFunction();
  return callee && callee->getName().starts_with("llvm.nvvm.cp.async.cg.shared.global.16");
}

/// Those to global and shared memory. An intrinsic reads 16 bytes from a pointer into shared memory: a row of a matrix.
static SmallVector<Access> findAccesses(Function &kernel) {
  constexpr uint64_t kMatrixRowBytes = 16;
  const DataLayout &layout = kernel.getParent()->getDataLayout();
  SmallVector<Access> accesses;
  for (Instruction &instruction : instructions(kernel)) {
    if (Value *address = getLoadStorePointerOperand(&instruction)) {
      unsigned space = address->getType()->getPointerAddressSpace();
      if (space == kGlobalSpace || space == kSharedSpace)
        accesses.push_back({&instruction, address, layout.getTypeStoreSize(getLoadStoreType(&instruction)),
                            isa<StoreInst>(instruction), getLoadStoreAlignment(&instruction).value()});
    } else if (auto *call = dyn_cast<CallInst>(&instruction); call && !copiesAsynchronously(*call)) {
      for (Value *argument : call->args())
        if (argument->getType()->isPointerTy() && argument->getType()->getPointerAddressSpace() == kSharedSpace)
          accesses.push_back({call, argument, kMatrixRowBytes, false, kMatrixRowBytes});
    }
  }
  return accesses;
}

/// Calls ztc_simt_read or _write before each access to global memory (_atomic_write: any thread may),
/// ztc_simt_shared_read or _write before each to shared memory, with the variable that it belongs to.
static Error reportAccesses(Function &kernel) {
  Module &module = *kernel.getParent();
  LLVMContext &context = module.getContext();
  Type *pointer = PointerType::get(context, 0), *i64 = Type::getInt64Ty(context);
  for (const Access &access : findAccesses(kernel)) {
    IRBuilder<> builder(access.by);
    SmallVector<Value *> variableArguments;
    SmallVector<Type *> types = {pointer, i64};
    if (access.isShared()) {
      auto *variable = dyn_cast<GlobalVariable>(getUnderlyingObject(access.address, /*MaxLookup=*/0));
      if (!variable)
        return createStringError("kernel %s accesses shared memory of which no variable is known",
                                 kernel.getName().str().c_str());
      variableArguments = {builder.CreateAddrSpaceCast(variable, pointer),
                           builder.getInt64(module.getDataLayout().getTypeAllocSize(variable->getValueType()))};
      types.append({pointer, i64});
    }
    StringRef name = access.isShared() ? (access.writes ? "ztc_simt_shared_write" : "ztc_simt_shared_read")
                                       : (access.isAtomic() ? "ztc_simt_atomic_write"
                                          : access.writes   ? "ztc_simt_write"
                                                            : "ztc_simt_read");
    auto *type = FunctionType::get(Type::getVoidTy(context), types, false);
    Value *address = builder.CreateAddrSpaceCast(access.address, pointer);
    const uint64_t atATime = std::min(access.bytes, access.alignment);
    for (uint64_t first = 0; first < access.bytes; first += atATime) {
      SmallVector<Value *> arguments = {builder.CreateConstGEP1_64(builder.getInt8Ty(), address, first),
                                        builder.getInt64(std::min(atATime, access.bytes - first))};
      arguments.append(variableArguments);
      builder.CreateCall(module.getOrInsertFunction(name, type), arguments);
    }
  }
  return Error::success();
}

/// A copy that goes on beside its thread becomes a call of the engine, with how many of 16 bytes there are to read and
/// the variable that they are for: ztc_simt_copy_async.
static Error importCopies(Function &kernel) {
  Module &module = *kernel.getParent();
  Type *pointer = PointerType::get(module.getContext(), 0), *i64 = Type::getInt64Ty(module.getContext());
  for (Instruction &instruction : make_early_inc_range(instructions(kernel))) {
    auto *call = dyn_cast<CallInst>(&instruction);
    if (!call || !copiesAsynchronously(*call))
      continue;
    auto *variable = dyn_cast<GlobalVariable>(getUnderlyingObject(call->getArgOperand(0), /*MaxLookup=*/0));
    if (!variable)
      return createStringError("kernel %s copies to shared memory of which no variable is known",
                               kernel.getName().str().c_str());
    IRBuilder<> builder(call);
    constexpr uint64_t kMostBytes = 16;
    Value *bytes =
        call->arg_size() > 2 ? builder.CreateZExt(call->getArgOperand(2), i64) : builder.getInt64(kMostBytes);
    auto *type = FunctionType::get(Type::getVoidTy(module.getContext()), {pointer, pointer, i64, pointer, i64}, false);
    builder.CreateCall(module.getOrInsertFunction("ztc_simt_copy_async", type),
                       {builder.CreateAddrSpaceCast(call->getArgOperand(0), pointer),
                        builder.CreateAddrSpaceCast(call->getArgOperand(1), pointer), bytes,
                        builder.CreateAddrSpaceCast(variable, pointer),
                        builder.getInt64(module.getDataLayout().getTypeAllocSize(variable->getValueType()))});
    call->eraseFromParent();
  }
  return Error::success();
}

static bool isBf16(Type *type) {
  return type->getScalarType()->isBFloatTy();
}

/// Conversions between f32 and bf16 as a GPU makes them, in instructions that x86 has: LLVM would call a library for
/// each.
static void expandBf16(Function &kernel) {
  SmallVector<CastInst *> casts;
  for (Instruction &instruction : instructions(kernel))
    if (auto *cast = dyn_cast<CastInst>(&instruction);
        cast && (isBf16(cast->getType()) || isBf16(cast->getSrcTy())) && !isa<BitCastInst>(cast))
      casts.push_back(cast);
  for (CastInst *cast : casts) {
    IRBuilder<> b(cast);
    auto like = [&](Type *element) { return cast->getType()->getWithNewType(element); };
    Type *i32 = like(b.getInt32Ty()), *i16 = like(b.getInt16Ty());
    Value *x = cast->getOperand(0), *result;
    if (isa<FPExtInst>(cast)) {
      result = b.CreateBitCast(b.CreateShl(b.CreateZExt(b.CreateBitCast(x, i16), i32), 16), like(b.getFloatTy()));
    } else {
      Value *bits = b.CreateBitCast(x, i32), *odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
      Value *rounded = b.CreateAdd(b.CreateAdd(bits, ConstantInt::get(i32, 0x7fff)), odd);
      rounded = b.CreateSelect(b.CreateFCmpUNO(x, x), ConstantInt::get(i32, 0x7fff0000), rounded);
      Value *stored = b.CreateTrunc(b.CreateLShr(rounded, 16), i16);
      result = b.CreateBitCast(stored, cast->getType());
      // Stored as an integer: a number of bf16 that one block computes and another stores would be rounded by a
      // library.
      for (User *user : make_early_inc_range(cast->users()))
        if (auto *store = dyn_cast<StoreInst>(user); store && store->getValueOperand() == cast) {
          IRBuilder<>(store).CreateAlignedStore(stored, store->getPointerOperand(), store->getAlign());
          store->eraseFromParent();
        }
    }
    cast->replaceAllUsesWith(result);
    cast->eraseFromParent();
  }
}

/// Values of bf16 that are only moved about (loaded, chosen, stored) become integers of 16 bits: what x86 makes of a
/// vector of bf16 whose elements it takes apart ends in that library too. Where something computes with them all stay.
static void moveBf16AsIntegers(Function &kernel) {
  auto integers = [&](Type *type) { return type->getWithNewType(Type::getInt16Ty(kernel.getContext())); };
  SmallVector<Instruction *> movers;
  for (Instruction &instruction : instructions(kernel)) {
    if (!isBf16(instruction.getType()) &&
        none_of(instruction.operands(), [](const Use &operand) { return isBf16(operand->getType()); }))
      continue;
    if (!isa<LoadInst, StoreInst, PHINode, SelectInst, ExtractElementInst, InsertElementInst, ShuffleVectorInst,
             FreezeInst, BitCastInst>(instruction))
      return;
    movers.push_back(&instruction);
  }
  for (Instruction *mover : movers) {
    for (Use &operand : mover->operands())
      if (auto *constant = dyn_cast<Constant>(operand.get()); constant && isBf16(constant->getType()))
        operand.set(ConstantFoldCastOperand(Instruction::BitCast, constant, integers(constant->getType()),
                                            kernel.getParent()->getDataLayout()));
    if (isBf16(mover->getType()))
      mover->mutateType(integers(mover->getType()));
  }
  for (Instruction *mover : movers)
    if (isa<BitCastInst>(mover) && mover->getType() == mover->getOperand(0)->getType()) {
      mover->replaceAllUsesWith(mover->getOperand(0));
      mover->eraseFromParent();
    }
}

/// Whether C and LLVM pass a value of this type in the same way, alone or as a result.
static bool isPlain(Type *type) {
  if (auto *record = dyn_cast<StructType>(type))
    return record->getNumElements() <= 2 && all_of(record->elements(), isPlain);
  return !type->isVectorTy();
}

/// Calls `import` (void *result, const void *operands), which finds the operands one after the other: fragments of
/// matrices do not travel in registers alike.
static Value *callThroughMemory(CallInst &call, Function &import) {
  LLVMContext &context = call.getContext();
  Type *pointer = PointerType::get(context, 0);
  IRBuilder<> entry(&call.getFunction()->getEntryBlock(), call.getFunction()->getEntryBlock().begin()), builder(&call);
  SmallVector<Value *> values;
  SmallVector<Type *> types;
  for (Value *value : call.args()) {
    values.push_back(value->getType()->isPointerTy() ? builder.CreateAddrSpaceCast(value, pointer) : value);
    types.push_back(values.back()->getType());
  }
  StructType *record = StructType::get(context, types);
  Value *operands = entry.CreateAlloca(record), *result = entry.CreateAlloca(call.getType());
  for (auto [number, value] : enumerate(values))
    builder.CreateStore(value, builder.CreateStructGEP(record, operands, number));
  builder.CreateCall(&import, {result, operands});
  return builder.CreateLoad(call.getType(), result);
}

/// What only asks for memory ahead of time computes nothing.
static void dropPrefetches(Function &kernel) {
  for (Instruction &instruction : make_early_inc_range(instructions(kernel)))
    if (auto *call = dyn_cast<CallInst>(&instruction); call && call->isInlineAsm())
      if (cast<InlineAsm>(call->getCalledOperand())->getAsmString() == kPrefetch)
        call->eraseFromParent();
}

/// NVVM's intrinsics become functions that somebody else provides.
static void importIntrinsics(Module &module) {
  SmallVector<Function *> intrinsics;
  for (Function &function : module)
    if (function.getName().starts_with("llvm.nvvm."))
      intrinsics.push_back(&function);
  Type *pointer = PointerType::get(module.getContext(), 0);
  for (Function *intrinsic : intrinsics) {
    std::string name = intrinsic->getName().str();
    llvm::replace(name, '.', '_');
    FunctionType *type = intrinsic->getFunctionType();
    bool throughMemory = !isPlain(type->getReturnType()) || !all_of(type->params(), isPlain);
    if (throughMemory)
      type = FunctionType::get(Type::getVoidTy(module.getContext()), {pointer, pointer}, false);
    Function *import = Function::Create(type, GlobalValue::ExternalLinkage, name, module);
    for (User *user : make_early_inc_range(intrinsic->users())) {
      auto *call = cast<CallInst>(user);
      Value *replacement = throughMemory
                               ? callThroughMemory(*call, *import)
                               : CallInst::Create(import, SmallVector<Value *>(call->args()), "", call->getIterator());
      call->replaceAllUsesWith(replacement);
      call->eraseFromParent();
    }
    intrinsic->eraseFromParent();
  }
}

/// A variable in shared memory becomes an ordinary one.
static void flattenShared(Module &module) {
  SmallVector<GlobalVariable *> variables;
  for (GlobalVariable &variable : module.globals())
    if (variable.getAddressSpace() == kSharedSpace)
      variables.push_back(&variable);
  for (GlobalVariable *variable : variables) {
    auto *flat = new GlobalVariable(module, variable->getValueType(), false, GlobalValue::InternalLinkage,
                                    Constant::getNullValue(variable->getValueType()), variable->getName() + "_flat");
    flat->setAlignment(variable->getAlign());
    variable->replaceAllUsesWith(ConstantExpr::getAddrSpaceCast(flat, variable->getType()));
    variable->eraseFromParent();
  }
}

/// The function under the kernel's name: takes pointers to the parameters.
static void wrap(Function &kernel) {
  Module &module = *kernel.getParent();
  LLVMContext &context = module.getContext();
  std::string name = kernel.getName().str();
  kernel.setName(name + "_body");
  kernel.setLinkage(GlobalValue::InternalLinkage);
  kernel.setCallingConv(CallingConv::C);
  kernel.setAttributes(AttributeList());
  Type *pointer = PointerType::get(context, 0);
  Function *entry = Function::Create(FunctionType::get(Type::getVoidTy(context), {pointer}, false),
                                     GlobalValue::ExternalLinkage, name, module);
  IRBuilder<> builder(BasicBlock::Create(context, "", entry));
  SmallVector<Value *> arguments;
  for (Argument &argument : kernel.args()) {
    Value *slot = builder.CreateConstGEP1_64(pointer, entry->getArg(0), argument.getArgNo());
    arguments.push_back(builder.CreateLoad(argument.getType(), builder.CreateLoad(pointer, slot)));
  }
  builder.CreateCall(&kernel, arguments);
  builder.CreateRetVoid();
}

/// An object of one kernel, with all that it reports and imports.
static Expected<std::string> compileKernel(Module &module) {
  for (Function &function : module) { // first: the optimizer would move values of bf16 about
    dropPrefetches(function);
    expandBf16(function);
    moveBf16AsIntegers(function);
  }
  expandFp8Conversions(module);
  if (Error error = prepareForGpu(module, "sm_80"))
    return std::move(error);
  SmallVector<Function *> kernels;
  for (Function &function : module)
    if (!function.isDeclaration())
      kernels.push_back(&function);
  for (Function *kernel : kernels)
    if (Error error = joinErrors(reportAccesses(*kernel), importCopies(*kernel)))
      return std::move(error);
  importIntrinsics(module);
  flattenShared(module);
  for (Function *kernel : kernels)
    wrap(*kernel);
  return emitObject(module, "x86-64-v3", /*isOptimized=*/true);
}

Error emitSimt(const Module &module, KernelImage &image, const OutsideKernels &outside, const KernelCache &cache,
               const KnownKernels &known) {
  Expected<std::vector<std::string>> objects = compileParts(module, image.target, cache, known, compileKernel);
  if (!objects)
    return objects.takeError();
  Expected<std::string> bytes = linkObjects(*objects, /*imports=*/true, outside);
  if (!bytes)
    return bytes.takeError();
  image.bytes = std::move(*bytes);
  image.waits = true; // the engine executes kernels in their order
  return Error::success();
}

} // namespace ztc::codegen
