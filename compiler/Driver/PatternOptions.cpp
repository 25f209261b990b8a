#include "compiler/Driver/PatternOptions.h"
#include "compiler/Driver/Session.h"
#include "passes/Patterns/Passes.h"
#include "runtime/Core/Sha256.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace ztc::driver {

namespace {
struct PatternRequest {
  std::string file;
  bool isBefore = false;
  std::string place = "import"; ///< a phase, or "loss"
  Keeps keeps = Keeps::Meaning;
};
} // namespace

static LogicalResult refuse(StringRef text, const Twine &why) {
  llvm::errs() << "ztc: --patterns=" << text << ": " << why << "\n";
  return failure();
}

static LogicalResult parseRequest(StringRef text, PatternRequest &request) {
  auto [file, words] = text.split(',');
  request.file = file.str();
  for (StringRef word : llvm::split(words, ',')) {
    auto [key, value] = word.split('=');
    if (words.empty())
      break;
    if (key == "before" || key == "after") {
      request.isBefore = key == "before";
      request.place = value.str();
    } else if (key == "keeps" && value == "changes") {
      request.keeps = Keeps::Changes;
    } else if (key == "keeps" && value == "bits") {
      request.keeps = Keeps::Bits;
    } else if (!(key == "keeps" && value == "meaning")) {
      return refuse(text, "'" + word +
                              "' is not known; expected FILE[,after=PHASE|,before=PHASE|,after=loss]"
                              "[,keeps=meaning|bits|changes]");
    }
  }
  return success();
}

LogicalResult registerPatterns(StringRef text, PhaseHooks &hooks, std::string &identity) {
  PatternRequest request;
  if (failed(parseRequest(text, request)))
    return failure();
  llvm::SmallString<256> file(request.file);
  auto content = llvm::MemoryBuffer::getFile(file);
  if (std::error_code error = content ? llvm::sys::fs::make_absolute(file) : content.getError())
    return refuse(text, error.message());
  const PhaseHooks::Factory factory = [path = file.str().str()] { return createApplyPatterns({path}); };
  hooks.setPlugin(llvm::sys::path::filename(file).str());
  if (request.place == "loss" && !request.isBefore) {
    hooks.afterLoss(factory, request.keeps);
  } else {
    FailureOr<Phase> phase = parsePhase(request.place);
    if (failed(phase))
      return refuse(text, "after= and before= take a phase, or after=loss");
    request.isBefore ? hooks.before(*phase, factory, request.keeps) : hooks.after(*phase, factory, request.keeps);
  }
  const std::string hash =
      Sha256::hex(Sha256::of((*content)->getBufferStart(), (*content)->getBufferSize())).substr(0, 16);
  identity = llvm::formatv("{0} {1} {2} ({3})", llvm::sys::path::filename(file), request.isBefore ? "before" : "after",
                           request.place, hash);
  return success();
}

} // namespace ztc::driver
