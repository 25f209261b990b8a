// Modules of an imported model, as PEFT's configurations name them.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>
#include <vector>

namespace ztc::driver {

/// A module of the model: all that is known of it is the parameters whose names begin with its own.
struct ModelModule {
  enum Kind { Linear, Embedding, Other };
  std::string name;    ///< as PEFT sees it
  std::string renamed; ///< as transformers 5 calls it, where PEFT's files have factors under an older name
  std::string stored;  ///< as the checkpoint calls it
  mlir::BlockArgument weight, bias;
  Kind kind = Other;
  bool isHead = false;
  bool isOfTokens = false; ///< a table of which the tokens' rows are looked up
  bool isTied = false;     ///< head and table are one tensor
  std::string otherName;   ///< of a table that is the head too: the head's name
};

/// The modules of one model, found by the names and uses of the parameters of @forward.
class ModelModules {
public:
  /// `hfConfig` is the text of the model's config.json, or empty. A null `forward` has no modules.
  ModelModules(mlir::func::FuncOp forward, llvm::StringRef hfConfig);

  const std::vector<ModelModule> &modules() const { return found; }
  /// config.json's model_type; empty: not known.
  const std::string &type() const { return modelType; }
  /// The name that transformers' module has for a tensor of the checkpoint.
  std::string nameOf(llvm::StringRef stored, bool isHead) const;

private:
  void find();

  mlir::func::FuncOp forward;
  std::vector<ModelModule> found;
  std::string modelType;
  std::string prefix;        ///< of transformers' names, with its dot; empty: the family is not known
  bool isMultiModal = false; ///< transformers' names have the language model below another module
  bool anyHasPrefix = false; ///< the checkpoint's names have it
};

} // namespace ztc::driver
