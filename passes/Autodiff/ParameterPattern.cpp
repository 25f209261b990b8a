#include "passes/Autodiff/ParameterPattern.h"
#include "llvm/Support/Regex.h"

using namespace mlir;

namespace ztc {

FailureOr<SmallVector<unsigned>> matchParameters(func::FuncOp function, StringRef pattern, StringRef option) {
  llvm::Regex expression(pattern);
  std::string why;
  if (!expression.isValid(why))
    return emitError(function.getLoc(), "the ")
           << option << " pattern '" << pattern << "' is not a regular expression: " << why;
  SmallVector<unsigned> matches;
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter)) {
    bool matched = expression.match(graph::argString(function, index, graph::kName));
    if (auto tied = function.getArgAttrOfType<ArrayAttr>(index, graph::kTied))
      for (StringAttr name : tied.getAsRange<StringAttr>())
        matched |= expression.match(name.getValue());
    if (matched)
      matches.push_back(index);
  }
  if (matches.empty())
    return emitError(function.getLoc(), "the ") << option << " pattern '" << pattern << "' matches no parameter";
  return matches;
}

} // namespace ztc
