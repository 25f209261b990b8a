#include "compiler/Support/PatternFile.h"
#include "compiler/Support/LibraryFolder.h"
#include "compiler/Support/ScratchFolder.h"
#include "mlir/Dialect/PDL/IR/PDL.h"
#include "mlir/Dialect/PDL/IR/PDLOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;

namespace ztc {

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
  const ScratchFolder folder("ztc-patterns");
  if (folder.path.empty()) {
    emitError(loc, "cannot make a temporary folder for mlir-pdll");
    return {};
  }
  const std::string out = folder / "patterns.mlir", errors = folder / "errors.txt";
  auto contentOf = [](StringRef path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  };
  llvm::SmallString<256> headers(libraryFolder());
  llvm::sys::path::append(headers, "..", "include", "ztc");
  const StringRef words[] = {compiler, "-x=mlir", "-I", headers, "-I", ZTC_LLVM_INCLUDE, "-o", out, file};
  const std::optional<StringRef> output[] = {StringRef(""), StringRef(""), StringRef(errors)};
  std::string why;
  if (llvm::sys::ExecuteAndWait(compiler, words, std::nullopt, output, 0, 0, &why) != 0) {
    emitError(loc, "mlir-pdll: ") << (why.empty() ? StringRef(contentOf(errors)).trim().str() : why);
    return {};
  }
  return contentOf(out);
}

/// An op of a dialect that is loaded is one of its ops: else a pattern with a slip in a name would never apply.
static LogicalResult checkNames(ModuleOp module) {
  MLIRContext *context = module.getContext();
  WalkResult result = module.walk([&](pdl::OperationOp op) {
    const StringRef name = op.getOpName().value_or("");
    if (name.empty() || RegisteredOperationName::lookup(name, context) ||
        !context->getLoadedDialect(name.split('.').first))
      return WalkResult::advance();
    emitError(op.getLoc(), "the pattern names '") << name << "', but its dialect has no such op";
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
  if (file.ends_with(".pdll")) {
    pdl = compilePdll(loc, file);
    if (pdl.empty())
      return {};
  }
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(pdl, ParserConfig(&context), file);
  if (!module || failed(checkNames(*module)))
    return {};
  if (module->getOps<pdl::PatternOp>().empty()) {
    emitError(loc, "the file contains no pattern");
    return {};
  }
  return module;
}

} // namespace ztc
