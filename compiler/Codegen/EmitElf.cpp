#include "compiler/Codegen/EmitElf.h"
#include "compiler/Codegen/CompileParts.h"
#include "compiler/Codegen/KernelCache.h"
#include "compiler/Codegen/TargetMachines.h"
#include "compiler/Support/ScratchFolder.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace ztc::codegen {

static Expected<std::unique_ptr<TargetMachine>> createMachine(StringRef cpu) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  return createTargetMachine("x86_64-unknown-linux-gnu", cpu, "", Reloc::PIC_, CodeGenOptLevel::Default);
}

static Error write(const std::string &file, StringRef bytes) {
  std::error_code error;
  raw_fd_ostream stream(file, error);
  stream << bytes;
  stream.close();
  if (!error)
    error = stream.error();
  stream.clear_error();
  return error ? createStringError(scratchProblem("cannot write " + file, error)) : Error::success();
}

/// Fails with the first of `wanted` that a shared object does not define.
static Error checkDefined(MemoryBufferRef linked, ArrayRef<std::string> wanted) {
  Expected<std::unique_ptr<object::ObjectFile>> object = object::ObjectFile::createELFObjectFile(linked);
  if (!object)
    return object.takeError();
  StringSet<> defined;
  for (const object::ELFSymbolRef &symbol : cast<object::ELFObjectFileBase>(**object).getDynamicSymbolIterators()) {
    Expected<uint32_t> flags = symbol.getFlags();
    Expected<StringRef> name = symbol.getName();
    if (!flags || !name)
      return joinErrors(flags.takeError(), name.takeError());
    if (!(*flags & object::SymbolRef::SF_Undefined))
      defined.insert(*name);
  }
  for (const std::string &symbol : wanted)
    if (!defined.contains(symbol))
      return createStringError("objects from outside do not define " + symbol);
  return Error::success();
}

/// lld reads and writes files and is not re-entrant: one folder a call, one call at a time.
Expected<std::string> linkObjects(ArrayRef<std::string> objects, bool imports, const OutsideKernels &outside) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  const ScratchFolder folder("ztc-link");
  if (folder.path.empty())
    return createStringError(scratchProblem("cannot create a temporary folder for the linker", folder.error));
  const std::string output = folder / "kernels.so";
  std::vector<std::string> inputs;
  for (const std::string &piece : concat<const std::string>(objects, outside.pieces)) {
    inputs.push_back(folder / (Twine(inputs.size()) + ".o"));
    if (Error error = write(inputs.back(), piece))
      return std::move(error);
  }
  std::vector<const char *> arguments{"ld.lld",
                                      "-shared",
                                      "--hash-style=gnu",
                                      "-z",
                                      "separate-code",
                                      "-z",
                                      imports ? "undefs" : "defs",
                                      "--gc-sections",
                                      "--build-id=none",
                                      "-s",
                                      "--threads=1",
                                      "-o",
                                      output.c_str()};
  for (const std::string &input : inputs)
    arguments.push_back(input.c_str());
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return createStringError("linking the kernels failed: " + messages);
  auto buffer = MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError("cannot read " + output + ": " + buffer.getError().message());
  if (!outside.symbols.empty())
    if (Error error = checkDefined(**buffer, outside.symbols))
      return std::move(error);
  return (*buffer)->getBuffer().str();
}

Expected<std::string> emitObject(Module &module, StringRef cpu, bool isOptimized) {
  auto machine = createMachine(cpu);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  module.setPICLevel(PICLevel::BigPIC);
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", cpu);
    function.addFnAttr("prefer-vector-width", cpu == "x86-64-v4" ? "512" : "256");
    function.addFnAttr("no-builtins"); // a loop that fills or copies must not become a call of memset or memcpy
    function.addFnAttr(Attribute::NoUnwind);
  }
  if (!isOptimized)
    optimizeKernels(module, **machine);
  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::ObjectFile))
    return createStringError("the code generator for " + cpu + " cannot write objects");
  passes.run(module);
  return std::string(object.data(), object.size());
}

Expected<std::string> emitElf(const Module &module, StringRef cpu, const OutsideKernels &outside,
                              const KernelCache &cache, const KnownKernels &known) {
  Expected<std::vector<std::string>> objects = compileParts(
      module, cpu, cache, known, [&](Module &part) { return emitObject(part, cpu, /*isOptimized=*/false); });
  if (!objects)
    return objects.takeError();
  return linkObjects(*objects, /*imports=*/false, outside);
}

} // namespace ztc::codegen
