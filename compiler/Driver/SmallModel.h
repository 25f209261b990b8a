// The small model on which `ztc compile --verify` looks at passes.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Support/ScratchFolder.h"
#include <optional>

namespace ztc::driver {

/// A small form of what a compilation is asked for, with the files that it is read from; they are removed with this.
class SmallModel {
public:
  /// Of a Hugging Face folder: few and narrow layers, every kind of layer kept, and an adapter's folder with the
  /// configuration alone. Of an ONNX file: the same graph on few rows of few tokens.
  explicit SmallModel(const CompileOptions &options);

  const CompileOptions &options() const { return small; }

private:
  void shrinkFolder();

  CompileOptions small;
  std::optional<ScratchFolder> folder; ///< of a Hugging Face folder
};

/// `options` without what makes no sense in a trial of them: budgets, dumps, remarks, reports.
CompileOptions withoutOutputs(CompileOptions options);

} // namespace ztc::driver
