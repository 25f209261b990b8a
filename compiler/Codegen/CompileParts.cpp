#include "compiler/Codegen/CompileParts.h"
#include "compiler/Codegen/KernelCache.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Threading.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include <atomic>
#include <thread>

using namespace llvm;

namespace ztc::codegen {

/// Adds the globals that `user`, an instruction or a constant, refers to, through any constants.
static void addGlobals(const User &user, SetVector<const GlobalValue *> &globals) {
  for (const Value *operand : user.operands()) {
    if (auto *global = dyn_cast<GlobalValue>(operand))
      globals.insert(global);
    else if (auto *constant = dyn_cast<Constant>(operand))
      addGlobals(*constant, globals);
  }
}

/// `kernel` and what it refers to, and what that does.
static SetVector<const GlobalValue *> reachableFrom(const Function &kernel) {
  SetVector<const GlobalValue *> reached;
  reached.insert(&kernel);
  for (unsigned i = 0; i < reached.size(); ++i) { // it grows meanwhile
    if (auto *function = dyn_cast<Function>(reached[i]))
      for (const Instruction &instruction : instructions(*function))
        addGlobals(instruction, reached);
    else if (auto *variable = dyn_cast<GlobalVariable>(reached[i]))
      addGlobals(*variable, reached);
  }
  return reached;
}

/// The bitcode of a module of `kernel` and what it needs, with the order of uses, which the code generator's choices
/// follow. Names are those of the kernel alone: equal kernels of different modules are equal bytes.
static SmallString<0> bitcodeOf(const Function &kernel) {
  const Module &module = *kernel.getParent();
  const SetVector<const GlobalValue *> reached = reachableFrom(kernel);
  ValueToValueMapTy clones;
  std::unique_ptr<Module> part = CloneModule(module, clones, [&](const GlobalValue *global) {
    return global == &kernel || (global->hasLocalLinkage() && reached.contains(global));
  });
  for (Function &function : make_early_inc_range(*part))
    if (function.isDeclaration() && function.use_empty())
      function.eraseFromParent();
  for (GlobalVariable &variable : make_early_inc_range(part->globals()))
    if (variable.isDeclaration() && variable.use_empty())
      variable.eraseFromParent();
  part->setModuleIdentifier("kernel");
  part->setSourceFileName("kernel");
  SmallString<0> bitcode;
  raw_svector_ostream stream(bitcode);
  WriteBitcodeToFile(*part, stream, /*ShouldPreserveUseListOrder=*/true);
  return bitcode;
}

static Expected<std::string> compileBitcode(StringRef bitcode, function_ref<Expected<std::string>(Module &)> compile) {
  LLVMContext context;
  Expected<std::unique_ptr<Module>> module = parseBitcodeFile(MemoryBufferRef(bitcode, "kernel"), context);
  if (!module)
    return module.takeError();
  return compile(**module);
}

namespace {
/// A function that is yet to be compiled.
struct Part {
  size_t index;
  std::string key;
  SmallString<0> bitcode;
  std::string error;
};
} // namespace

std::string objectKey(StringRef target, StringRef content) {
  return KernelCache::keyOf({target, content});
}

Expected<std::vector<std::string>> compileParts(const Module &module, StringRef target, const KernelCache &cache,
                                                const KnownKernels &knownKernels,
                                                function_ref<Expected<std::string>(Module &)> compile) {
  std::vector<std::string> objects;
  std::vector<Part> missing;
  for (const Function &function : module) {
    const auto kernel = knownKernels.find(function.getName());
    const bool hasContent = kernel != knownKernels.end();
    if (hasContent && kernel->second.object) {
      objects.push_back(kernel->second.object->str());
      continue;
    }
    if (function.isDeclaration() || function.hasLocalLinkage())
      continue;
    SmallString<0> bitcode;
    if (!hasContent)
      bitcode = bitcodeOf(function);
    std::string key = objectKey(target, hasContent ? kernel->second.content : StringRef(bitcode));
    std::optional<std::string> known = cache.find(key);
    if (!known) {
      if (hasContent)
        bitcode = bitcodeOf(function);
      missing.push_back({objects.size(), std::move(key), std::move(bitcode), {}});
    }
    objects.push_back(known.value_or(""));
  }
  if (objects.empty()) { // the linker wants one
    LLVMContext context;
    Module nothing("kernel", context);
    Expected<std::string> object = compile(nothing);
    if (!object)
      return object.takeError();
    return std::vector<std::string>{std::move(*object)};
  }
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < missing.size(); i = next++) {
      Expected<std::string> object = compileBitcode(missing[i].bitcode, compile);
      if (!object) {
        missing[i].error = toString(object.takeError());
        continue;
      }
      objects[missing[i].index] = std::move(*object);
      cache.store(missing[i].key, objects[missing[i].index]);
    }
  };
  std::vector<std::thread> threads;
  const size_t wanted = std::min<size_t>(missing.size(), hardware_concurrency().compute_thread_count());
  for (size_t i = 1; i < wanted; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (const Part &part : missing)
    if (!part.error.empty())
      return createStringError(part.error);
  return objects;
}

} // namespace ztc::codegen
