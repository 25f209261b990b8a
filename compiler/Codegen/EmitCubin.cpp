#include "compiler/Codegen/EmitCubin.h"
#include "compiler/Codegen/DeviceTargets.h"
#include "compiler/Codegen/Fp8Conversion.h"
#include "compiler/Codegen/KernelCache.h"
#include "compiler/Codegen/TargetMachines.h"
#include "compiler/Support/ChildProgram.h"
#include "compiler/Support/ScratchFolder.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace llvm;

namespace ztc::codegen {

/// The oldest PTX version that knows the processor, and what kernels need of it: newer drivers and assemblers read it
/// too. A version that is too old would abort the process.
static std::string ptxVersion(StringRef cpu, unsigned needed) {
  const DeviceTarget *target = findDeviceTarget(cpu);
  return "+ptx" + std::to_string(std::max(target ? target->ptx : 80, needed));
}

static Expected<std::unique_ptr<TargetMachine>> createMachine(StringRef cpu, unsigned neededPtx = 0) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  return createTargetMachine("nvptx64-nvidia-cuda", cpu, ptxVersion(cpu, neededPtx), std::nullopt,
                             CodeGenOptLevel::Aggressive);
}

/// Names of NVVM's attributes of functions: threads of a block, and blocks whose registers a multiprocessor has.
static constexpr StringLiteral kBlockThreads = "nvvm.reqntid", kBlocksTogether = "nvvm.minctasm";

static Error prepare(Module &module, TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    if (function.getCallingConv() != CallingConv::PTX_Kernel || !function.hasFnAttribute(kBlockThreads))
      return createStringError("kernel " + function.getName() + " has no launch");
    function.addFnAttr(Attribute::NoUnwind);
    // A product of matrices is the whole warp's: it may not move into a branch. LLVM does not know.
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction))
        if (Function *callee = call->getCalledFunction(); callee && callee->getName().starts_with("llvm.nvvm.mma."))
          call->setConvergent();
  }
  optimizeKernels(module, machine);
  return Error::success();
}

Error prepareForGpu(Module &module, StringRef cpu) {
  auto machine = createMachine(cpu);
  if (!machine)
    return machine.takeError();
  return prepare(module, **machine);
}

std::string findPtxas() {
  SmallVector<std::string> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto folder = sys::Process::GetEnv(variable))
      folders.push_back(*folder + "/bin");
  auto look = [](ArrayRef<StringRef> paths) -> std::string {
    auto found = sys::findProgramByName("ptxas", paths);
    return found ? *found : "";
  };
  for (const std::string &folder : folders)
    if (std::string found = look({folder}); !found.empty())
      return found;
  if (std::string found = look({}); !found.empty())
    return found;
  return look({"/usr/local/cuda/bin", "/opt/cuda/bin", "/usr/lib/cuda/bin"});
}

/// The CUDA version of an assembler, 1000 major + 10 minor; 0 where it does not say ("release 13.0").
static unsigned versionOf(const std::string &ptxas) {
  const ScratchFolder folder("ztc-ptxas");
  if (folder.path.empty())
    return 0;
  const std::string log = folder / "version";
  if (runChild({.path = ptxas, .words = {"--version"}, .written = log, .said = log}).status != 0)
    return 0;
  auto said = MemoryBuffer::getFile(log);
  SmallVector<StringRef> match;
  unsigned major = 0, minor = 0;
  if (!said || !Regex("release ([0-9]+)\\.([0-9]+)").match((*said)->getBuffer(), &match) ||
      match[1].getAsInteger(10, major) || match[2].getAsInteger(10, minor))
    return 0;
  return 1000 * major + 10 * minor;
}

static Error write(StringRef path, StringRef text) {
  std::error_code error;
  raw_fd_ostream stream(path, error);
  stream << text;
  stream.close();
  if (!error)
    error = stream.error();
  stream.clear_error();
  return error ? createStringError(scratchProblem("cannot write " + path, error)) : Error::success();
}

static Expected<std::string> read(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError("cannot read " + path + ": " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

/// What `ptxas -v` says: a line that names the kernel, one of its stack and spills, one of its registers.
static void parseResources(StringRef log, std::map<std::string, KernelResources> &resources) {
  Regex entry("Compiling entry function '([^']+)'"), stack("([0-9]+) bytes stack frame"),
      registers("Used ([0-9]+) registers");
  KernelResources *current = nullptr;
  SmallVector<StringRef> lines, match;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    if (entry.match(line, &match))
      current = &resources[match[1].str()];
    else if (current && stack.match(line, &match))
      match[1].getAsInteger(10, current->localBytes);
    else if (current && registers.match(line, &match))
      match[1].getAsInteger(10, current->registers);
  }
}

/// Threads of a multiprocessor that a kernel which spilled is made for: 128 registers each.
static constexpr int64_t kThreadsTogether = 512;

/// Left to itself, the assembler prefers spilling a few registers to letting fewer blocks share a multiprocessor.
/// Kernels that spilled, and do not say yet how many blocks their registers must suffice for, say it; whether there was
/// one.
static bool giveRegisters(Module &module, const KernelImage &image) {
  bool changed = false;
  for (const auto &[name, taken] : image.resources) {
    Function *kernel = module.getFunction(name);
    if (!taken.localBytes || !kernel || kernel->hasFnAttribute(kBlocksTogether))
      continue;
    int64_t threads = kernel->getFnAttributeAsParsedInteger(kBlockThreads, kThreadsTogether);
    kernel->addFnAttr(kBlocksTogether, std::to_string(std::max<int64_t>(kThreadsTogether / threads, 1)));
    changed = true;
  }
  return changed;
}

static Error assemble(StringRef ptxas, StringRef ptx, KernelImage &image) {
  const ScratchFolder folder("ztc-ptx");
  if (folder.path.empty())
    return createStringError(scratchProblem("cannot create a temporary folder for the assembler", folder.error));
  const std::string input = folder / "kernels.ptx", output = folder / "kernels.cubin", log = folder / "log";
  if (Error error = write(input, ptx))
    return error;
  const ChildEnd end = runChild({.path = ptxas.str(),
                                 .words = {"-arch=" + image.target, "-O3", "-v", "-o", output, input},
                                 .written = log,
                                 .said = log});
  const std::optional<std::string> said = expectedToOptional(read(log));
  if (end.status != 0) {
    const StringRef text = said ? StringRef(*said).trim() : StringRef();
    return createStringError(ptxas + " failed: " + (text.empty() ? StringRef("it could not be started") : text));
  }
  if (!said)
    return createStringError("cannot read what " + ptxas + " said");
  parseResources(*said, image.resources);
  Expected<std::string> bytes = read(output);
  if (!bytes)
    return bytes.takeError();
  image.bytes = std::move(*bytes);
  return Error::success();
}

/// Adds PTX from outside, which then is for the module's version of PTX and for its target.
static Error addOutside(SmallString<0> &ptx, const OutsideKernels &outside) {
  for (const std::string &piece : outside.pieces)
    for (StringRef line : split(piece, '\n'))
      if (!line.ltrim().starts_with(".version") && !line.ltrim().starts_with(".target") &&
          !line.ltrim().starts_with(".address_size"))
        ptx += (line + "\n").str();
  for (const std::string &symbol : outside.symbols)
    if (!Regex("\\.entry[ \t\n]+" + symbol + "[ \t\n]*\\(").match(ptx))
      return createStringError("PTX from outside has no entry " + symbol);
  return Error::success();
}

/// The PTX of an optimised module, which code generation consumes.
static Expected<std::string> writePtx(Module &module, TargetMachine &machine, StringRef target,
                                      const OutsideKernels &outside) {
  SmallString<0> ptx;
  raw_svector_ostream stream(ptx);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::AssemblyFile))
    return createStringError("the code generator for " + target + " cannot write PTX");
  passes.run(module);
  if (Error error = addOutside(ptx, outside))
    return std::move(error);
  return ptx.str().str();
}

/// Kernels begin by waiting until those before them are done and what they wrote is seen; then the next ones may come
/// on the way (PTX ISA, griddepcontrol). After everything that moves instructions: no access to memory may go before
/// it.
static void waitForEarlierKernels(Module &module) {
  auto *type = FunctionType::get(Type::getVoidTy(module.getContext()), false);
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    IRBuilder<> builder(&function.getEntryBlock(), function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    for (StringRef instruction : {"griddepcontrol.wait;", "griddepcontrol.launch_dependents;"})
      builder.CreateCall(type, InlineAsm::get(type, instruction, "~{memory}", /*hasSideEffects=*/true));
  }
}

static Error compileCubin(Module &module, KernelImage &image, const OutsideKernels &outside, const std::string &ptxas) {
  const DeviceTarget *target = findDeviceTarget(image.target);
  if (!target || !(target->products & kFp8Products))
    expandFp8Conversions(module);
  auto machine = createMachine(image.target, convertsToFp8(module) ? kFp8ConversionPtx : 0);
  if (!machine)
    return machine.takeError();
  if (Error error = prepare(module, **machine))
    return error;
  image.waits = target && (target->instructions & kDependentLaunch);
  if (image.waits)
    waitForEarlierKernels(module);
  // Kept for kernels that spill; a clone would not keep the order of uses, which the code generator's choices follow.
  SmallString<0> optimised;
  if (!ptxas.empty()) {
    raw_svector_ostream stream(optimised);
    WriteBitcodeToFile(module, stream, /*ShouldPreserveUseListOrder=*/true);
  }
  Expected<std::string> ptx = writePtx(module, **machine, image.target, outside);
  if (!ptx)
    return ptx.takeError();
  image.ptx = std::move(*ptx);
  if (ptxas.empty()) {
    image.bytes = image.ptx + '\0'; // the driver reads text up to a zero
    return Error::success();
  }
  image.cudaVersion = versionOf(ptxas);
  if (Error error = assemble(ptxas, image.ptx, image))
    return error;
  if (llvm::none_of(image.resources, [](const auto &taken) { return taken.second.localBytes != 0; }))
    return Error::success();
  auto again = parseBitcodeFile(MemoryBufferRef(optimised, "kernels"), module.getContext());
  if (!again)
    return again.takeError();
  if (!giveRegisters(**again, image))
    return Error::success();
  ptx = writePtx(**again, **machine, image.target, outside);
  if (!ptx)
    return ptx.takeError();
  image.ptx = std::move(*ptx);
  return assemble(ptxas, image.ptx, image);
}

/// What compiling filled in, as it is kept: PTX and image as text of JSON.
static std::string printImage(const KernelImage &image) {
  json::Object resources;
  for (const auto &[kernel, taken] : image.resources)
    resources[kernel] = json::Array{int64_t(taken.registers), int64_t(taken.localBytes)};
  return formatv("{0}", json::Value(json::Object{{"bytes", encodeBase64(image.bytes)},
                                                 {"ptx", image.ptx},
                                                 {"cuda", image.cudaVersion},
                                                 {"waits", image.waits},
                                                 {"resources", std::move(resources)}}))
      .str();
}

/// Whether `text` is such an image; `image` is complete only then.
static bool parseImage(StringRef text, KernelImage &image) {
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return consumeError(value.takeError()), false;
  const json::Object *object = value->getAsObject();
  const json::Object *resources = object ? object->getObject("resources") : nullptr;
  const auto bytes = object ? object->getString("bytes") : std::nullopt,
             ptx = object ? object->getString("ptx") : std::nullopt;
  const auto cuda = object ? object->getInteger("cuda") : std::nullopt;
  const auto waits = object ? object->getBoolean("waits") : std::nullopt;
  std::vector<char> decoded;
  if (!waits || !resources || !bytes || !ptx || !cuda)
    return false;
  if (Error error = decodeBase64(*bytes, decoded))
    return consumeError(std::move(error)), false;
  image.bytes.assign(decoded.begin(), decoded.end());
  image.ptx = ptx->str();
  image.cudaVersion = unsigned(*cuda);
  image.waits = *waits;
  for (const auto &[kernel, taken] : *resources)
    if (const json::Array *pair = taken.getAsArray(); pair && pair->size() == 2)
      image.resources[kernel.str()] = {unsigned((*pair)[0].getAsInteger().value_or(0)),
                                       unsigned((*pair)[1].getAsInteger().value_or(0))};
  return true;
}

std::string cubinKey(StringRef target, ArrayRef<std::string> contents) {
  const std::string assembler = identityOf(findPtxas());
  SmallVector<StringRef> parts{target, assembler};
  append_range(parts, contents);
  return KernelCache::keyOf(parts);
}

/// Of a module, where the contents of its kernels are not known or something comes from outside.
static std::string cubinKey(const Module &module, StringRef target, const OutsideKernels &outside, StringRef ptxas) {
  SmallString<0> bitcode;
  raw_svector_ostream stream(bitcode);
  WriteBitcodeToFile(module, stream, /*ShouldPreserveUseListOrder=*/true);
  const std::string assembler = identityOf(ptxas);
  SmallVector<StringRef> parts{target, bitcode, assembler};
  append_range(parts, outside.pieces);
  append_range(parts, outside.symbols);
  return KernelCache::keyOf(parts);
}

Error emitCubin(Module &module, KernelImage &image, const OutsideKernels &outside, const KernelCache &cache,
                ArrayRef<std::string> contents, StringRef known) {
  if (!known.empty())
    return parseImage(known, image) ? Error::success()
                                    : createStringError("a kept image for " + image.target + " is none");
  const std::string ptxas = findPtxas();
  if (!cache.isOpen())
    return compileCubin(module, image, outside, ptxas);
  const bool hasOutside = !outside.pieces.empty() || !outside.symbols.empty();
  const std::string key = contents.empty() || hasOutside ? cubinKey(module, image.target, outside, ptxas)
                                                         : cubinKey(image.target, contents);
  if (std::optional<std::string> kept = cache.find(key); kept && parseImage(*kept, image))
    return Error::success();
  if (Error error = compileCubin(module, image, outside, ptxas))
    return error;
  cache.store(key, printImage(image));
  return Error::success();
}

} // namespace ztc::codegen
