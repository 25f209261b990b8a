#include "compiler/Support/PatternFile.h"
#include "compiler/Support/LibraryFolder.h"
#include "mlir/Dialect/PDL/IR/PDL.h"
#include "mlir/Dialect/PDL/IR/PDLOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;

namespace ztc {

/// A file that goes with this.
class ScratchFile {
public:
  ScratchFile() { (void)llvm::sys::fs::createTemporaryFile("ztc-patterns", "txt", path); }
  ~ScratchFile() { (void)llvm::sys::fs::remove(path); }
  ScratchFile(const ScratchFile &) = delete;
  ScratchFile &operator=(const ScratchFile &) = delete;
  std::string content() const {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  }
  llvm::SmallString<128> path;
};

/// LLVM's compiler of PDLL: that of the LLVM that ztc was built with, or one on the path.
static std::string pdllCompiler() {
  const StringRef tools[] = {ZTC_LLVM_TOOLS};
  for (const char *name : {"mlir-pdll", "mlir-pdll-" ZTC_LLVM_MAJOR}) {
    if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(name, tools))
      return *found;
    if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(name))
      return *found;
  }
  return {};
}

/// PDLL as text of the PDL dialect; "" after a diagnostic.
static std::string compilePdll(Location loc, StringRef file) {
  const std::string compiler = pdllCompiler();
  if (compiler.empty()) {
    emitError(loc, "PDLL is compiled by LLVM's mlir-pdll, which is not here (Debian's package mlir-" ZTC_LLVM_MAJOR
                   "-tools has it); or give the patterns in the PDL dialect, as mlir-pdll -x=mlir writes them");
    return {};
  }
  ScratchFile out, errors;
  llvm::SmallString<256> headers(libraryFolder());
  llvm::sys::path::append(headers, "..", "include", "ztc");
  const StringRef words[] = {compiler, "-x=mlir", "-I", headers, "-I", ZTC_LLVM_INCLUDE, "-o", out.path, file};
  const std::optional<StringRef> output[] = {StringRef(""), StringRef(""), StringRef(errors.path)};
  std::string why;
  if (llvm::sys::ExecuteAndWait(compiler, words, std::nullopt, output, 0, 0, &why) != 0) {
    emitError(loc, "mlir-pdll: ") << (why.empty() ? StringRef(errors.content()).trim().str() : why);
    return {};
  }
  return out.content();
}

/// An op of a dialect that is loaded is one of its ops: else a pattern with a slip in a name would never apply.
static LogicalResult checkNames(ModuleOp module) {
  MLIRContext *context = module.getContext();
  WalkResult result = module.walk([&](pdl::OperationOp op) {
    const StringRef name = op.getOpName().value_or("");
    if (name.empty() || RegisteredOperationName::lookup(name, context) ||
        !context->getLoadedDialect(name.split('.').first))
      return WalkResult::advance();
    emitError(op.getLoc(), "a pattern names '") << name << "', which is no op";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

OwningOpRef<ModuleOp> readPatterns(MLIRContext &context, StringRef file) {
  Location loc = FileLineColLoc::get(&context, file, 0, 0);
  auto text = llvm::MemoryBuffer::getFile(file);
  if (!text) {
    emitError(loc, "cannot read patterns: ") << text.getError().message();
    return {};
  }
  context.getOrLoadDialect<pdl::PDLDialect>();
  std::string pdl = (*text)->getBuffer().str();
  if (file.ends_with(".pdll") && (pdl = compilePdll(loc, file)).empty())
    return {};
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(pdl, ParserConfig(&context), file);
  if (!module || failed(checkNames(*module)))
    return {};
  if (module->getOps<pdl::PatternOp>().empty()) {
    emitError(loc, "there is no pattern in the file");
    return {};
  }
  return module;
}

} // namespace ztc
