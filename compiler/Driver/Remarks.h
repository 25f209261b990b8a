// Optimization remarks: what passes did, could not do, or measured, for `ztc compile --remarks` and `--remarks-file`.
#pragma once
#include "mlir/IR/MLIRContext.h"
#include <memory>
#include <string>

namespace ztc::driver {

/// Where remarks of one context go. Passes emit them by MLIR's own interface (`mlir/IR/Remarks.h`), with their argument
/// as category; where nobody asked for remarks that costs nothing.
class Remarks {
public:
  /// Remarks whose category, the name of a pass, matches `pattern` (POSIX extended) go to stderr, one line each; all
  /// that match, or all remarks where `pattern` is empty, go as YAML for opt-viewer into `yamlFile`. Empty: not asked
  /// for. Fails with a message to stderr on a pattern that is not a regular expression and a file that cannot be
  /// written.
  static llvm::FailureOr<Remarks> enable(mlir::MLIRContext &context, const std::string &pattern,
                                         const std::string &yamlFile);

  /// While one of these lives nothing is emitted: the search for what to recompute runs passes that are thrown away.
  class Silence {
  public:
    explicit Silence(Remarks &remarks) : silent(remarks.silent) { ++*silent; }
    ~Silence() { --*silent; }
    Silence(const Silence &) = delete;
    Silence &operator=(const Silence &) = delete;

  private:
    std::shared_ptr<int> silent;
  };

private:
  std::shared_ptr<int> silent = std::make_shared<int>(0); ///< how many Silence objects live
};

} // namespace ztc::driver
