#include "compiler/Driver/Remarks.h"
#include "compiler/Support/Location.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Remark/RemarkStreamer.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using remark::detail::MLIRRemarkStreamerBase;

namespace ztc::driver {
namespace {

/// Lines on stderr, and through to MLIR's writer of YAML; each where asked for.
class Streamer final : public MLIRRemarkStreamerBase {
public:
  Streamer(const std::string &pattern, std::unique_ptr<MLIRRemarkStreamerBase> file, std::shared_ptr<int> silent)
      : pattern(pattern), prints(!pattern.empty()), file(std::move(file)), silent(std::move(silent)) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    if (*silent || (prints && !pattern.match(remark.getCategoryName())))
      return;
    if (file)
      file->streamOptimizationRemark(remark);
    if (!prints)
      return;
    std::string line = "remark: ", scope = scopeOf(remark.getLocation());
    if (!scope.empty())
      line += scope + ": ";
    for (const remark::detail::Remark::Arg &argument : remark.getArgs())
      line += argument.key == "Remark" ? argument.val : " " + argument.key + "=" + argument.val;
    llvm::errs() << line << " [" << remark.getCategoryName() << ", " << remark.getRemarkTypeString().lower() << "]\n";
  }

  void finalize() override {
    if (file)
      file->finalize();
  }

private:
  llvm::Regex pattern;
  bool prints;
  std::unique_ptr<MLIRRemarkStreamerBase> file;
  std::shared_ptr<int> silent;
};

} // namespace

FailureOr<Remarks> Remarks::enable(MLIRContext &context, const std::string &pattern, const std::string &yamlFile) {
  Remarks remarks;
  if (pattern.empty() && yamlFile.empty())
    return remarks;
  std::string why;
  if (!pattern.empty() && !llvm::Regex(pattern).isValid(why)) {
    llvm::errs() << "ztc: --remarks: '" << pattern << "' is not a regular expression: " << why << "\n";
    return failure();
  }
  std::unique_ptr<MLIRRemarkStreamerBase> file;
  if (!yamlFile.empty()) {
    auto opened = remark::detail::LLVMRemarkStreamer::createToFile(yamlFile, llvm::remarks::Format::YAML);
    if (failed(opened)) {
      llvm::errs() << "ztc: --remarks-file: cannot write '" << yamlFile << "'\n";
      return failure();
    }
    file = std::move(*opened);
  }
  remark::RemarkCategories categories;
  // MLIR's patterns must match the whole name; ours, like a user's of --freeze, a part of it.
  categories.passed = categories.missed = categories.analysis = categories.failed = ".*";
  if (failed(remark::enableOptimizationRemarks(context,
                                               std::make_unique<Streamer>(pattern, std::move(file), remarks.silent),
                                               std::make_unique<remark::RemarkEmittingPolicyAll>(), categories)))
    return failure();
  return remarks;
}

} // namespace ztc::driver
