// What a checkpoint has and no parameter of the graph stands for.
#pragma once
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/WeightForm.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// What the graph says of tensors that nothing reads.
struct Unread {
  const Names &names;
  const Model &model;
  const FoundParameters &found;
  llvm::StringRef freeze; ///< expression over names that are not to be trained
};

/// The first of the constants that has values of its own: neither a mask nor sines and cosines; "" for none.
std::string constantOfValues(const Model &model, llvm::ArrayRef<const Initializer *> constants);

/// Notes the tensors that are not in `used`. One that PyTorch would train is an error: in a module of which others are
/// trained, or of ones or zeros alone in its module, which exporters drop, or where a constant may have been computed
/// from it, and neither a buffer nor matched by `freeze`. Gives its sentence, else "".
std::string noteUnread(llvm::ArrayRef<TensorView> checkpoint, const llvm::StringSet<> &used, const Unread &unread,
                       ImportReport &report);

/// The same of parameters of the exported module of which only the names are known. `constant`: see
/// `constantOfValues`.
std::string noteUntrained(llvm::ArrayRef<std::string> untrained, const llvm::StringSet<> &trained,
                          llvm::StringRef constant, llvm::StringRef freeze, ImportReport &report);

/// The sentence of the error where parameters of the graph are none of the exported module's, all of which the graph
/// has under their own names: an exporter computed them. "" where `freeze` matches them.
std::string noteComputed(llvm::ArrayRef<std::string> computed, llvm::StringRef freeze, ImportReport &report);

/// Without a checkpoint: named tensors of the graph of which data meet a function, and that nothing says to be
/// parameters, are an error, but for tables and what `freeze` matches; so is what TorchScript folded of tensors that it
/// no longer names. Gives its sentence, else "".
std::string checkConstants(const FoundParameters &found, const Model &model, const Names &names, llvm::StringRef freeze,
                           ImportReport &report);

} // namespace ztc::importer
