// ONNX files: reader, evaluator, importer. Whatever the bytes: a module that verifies, or messages.
#include "frontends/onnx/Import.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "tests/fuzz/Fuzz.h"
#include <cstdio>
#include <cstdlib>
#ifdef ZTC_LIBFUZZER
#include "tests/fuzz/WireMutation.h"
#endif

using namespace ztc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Scratch scratch;
  static const bool hasNeighbours = [] {
    scratch.write("config.json", R"({"max_position_embeddings": 64, "tie_word_embeddings": true})");
    scratch.write("model.onnx.data",
                  std::string(size_t(1) << 20, char(0x3d))); // external data of constants and weights
    return true;
  }();
  // What is uniqued lives as long as its context.
  static std::unique_ptr<mlir::MLIRContext> context;
  static unsigned runs = 0;
  if (!context || ++runs % 500 == 0)
    context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  unsigned errors = 0;
  mlir::ScopedDiagnosticHandler handler(context.get(), [&](mlir::Diagnostic &diagnostic) {
    errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    return mlir::success();
  });
  ImportOptions options;
  options.batch = 2;
  options.seq = 4;
  options.evaluationBytes = 32 << 20;
  options.evaluationOperations = 4 << 20;
  ImportReport report;
  auto module = importOnnx(*context, scratch.write("model.onnx", fuzz::text(data, size)), options, report);
  const bool refusedWithoutWord = mlir::failed(module) && errors == 0;
  if (!hasNeighbours || refusedWithoutWord || (mlir::succeeded(module) && mlir::failed(mlir::verify(**module)))) {
    std::fprintf(stderr, "%s\n", refusedWithoutWord ? "refused without a message" : "accepted, but does not verify");
    std::abort();
  }
  return 0;
}
