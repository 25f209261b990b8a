#include "compiler/Driver/Quantized.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "compiler/Support/StoredPiece.h"
#include "passes/Autodiff/Functions.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;

namespace ztc::driver {

static DictionaryAttr sourceOf(Builder &builder, const huggingface::QuantizedTensor &tensor) {
  llvm::SmallString<256> path(tensor.path);
  (void)llvm::sys::fs::make_absolute(path);
  uint64_t fileSize = 0;
  (void)llvm::sys::fs::file_size(path, fileSize);
  const StoredPiece piece{path.str().str(), tensor.offset, tensor.bytes, fileSize, "U8"};
  SmallVector<NamedAttribute> source = piece.attributes(builder);
  if (tensor.isDequantized)
    source.push_back(builder.getNamedAttr("dequantized", builder.getUnitAttr()));
  return builder.getDictionaryAttr(source);
}

/// The format that the parameters keep; an error where they cannot, as said in the header.
static FailureOr<FrozenFormat> keptFormat(MLIRContext *context, const huggingface::QuantizedTensor &first,
                                          const CompileOptions &options) {
  auto fail = [&](const Twine &what) { return emitError(UnknownLoc::get(context)) << what; };
  if (options.adapter.empty() && options.lora.empty())
    return fail("the weights are in " + first.format + " (" + first.name +
                "): an adapter can be trained beside them, give --lora=r=16,alpha=32,targets=all-linear or "
                "--adapter=DIR");
  const std::optional<FrozenFormat> stored = fromWord<FrozenFormat>(first.format);
  if (!stored)
    return fail("'" + Twine(first.name) + "' is stored as " + first.format + ", which is neither nf4 nor int8");
  // --quantize=nf4 accepts a folder with scales of either kind.
  const bool isSame =
      options.quantize == *stored || (options.quantize == FrozenFormat::Nf4 && *stored == FrozenFormat::Nf4Single);
  if (options.quantize != FrozenFormat::Plain && !isSame)
    return fail("--quantize=" + wordOf(options.quantize) + ": the folder's weights are in " + first.format +
                " already");
  return *stored;
}

using TensorsByName = llvm::StringMap<const huggingface::QuantizedTensor *>;

static TensorsByName tensorsByName(const std::vector<huggingface::QuantizedTensor> &tensors) {
  TensorsByName byName;
  for (const huggingface::QuantizedTensor &tensor : tensors)
    byName[tensor.name] = &tensor;
  return byName;
}

/// Whether codes of a folder stay what they are, though loading could dequantise them.
static bool isKept(const huggingface::QuantizedTensor &tensor, const CompileOptions &options) {
  return !tensor.isDequantized ||
         (options.quantize == FrozenFormat::Mxfp4 && tensor.format == wordOf(FrozenFormat::Mxfp4));
}

void describeQuantized(ImportReport &report, const std::vector<huggingface::QuantizedTensor> &tensors,
                       llvm::StringRef dequantizedType, const CompileOptions &options) {
  if (!options.weights.empty())
    return;
  const TensorsByName byName = tensorsByName(tensors);
  std::map<std::string, size_t> dequantized; // how many of each format
  for (const huggingface::QuantizedTensor &tensor : tensors)
    if (!isKept(tensor, options))
      ++dequantized[tensor.format];
  for (ImportReport::Weight &weight : report.weights)
    if (const huggingface::QuantizedTensor *tensor = byName.lookup(weight.name)) {
      weight.source = tensor->path;
      weight.transformations.push_back("stored as " + tensor->format +
                                       (isKept(*tensor, options) ? "" : ", dequantised as it is loaded"));
    }
  for (const auto &[format, count] : dequantized)
    report.notes.push_back(llvm::formatv("{0}: {1} weights are stored as {2}: they are dequantised as they are loaded, "
                                         "and exported in {3}",
                                         options.input, count, format, dequantizedType)
                               .str());
}

LogicalResult attachQuantized(ModuleOp module, const std::vector<huggingface::QuantizedTensor> &tensors,
                              CompileOptions &options) {
  if (tensors.empty() || !options.weights.empty()) // full weights in their place
    return success();
  func::FuncOp forward = findFunction(module, graph::Entry::Forward);
  if (!forward)
    return failure();
  auto fail = [&](const Twine &what) { return emitError(UnknownLoc::get(module.getContext())) << what; };
  const auto kept = llvm::find_if(tensors, [](const auto &tensor) { return !tensor.isDequantized; });
  if (kept != tensors.end()) {
    FailureOr<FrozenFormat> format = keptFormat(module.getContext(), *kept, options);
    if (failed(format))
      return failure();
    options.quantize = *format;
  }
  const TensorsByName byName = tensorsByName(tensors);
  Builder builder(module.getContext());
  size_t found = 0;
  ArgumentAttributes marks(forward);
  for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
    const huggingface::QuantizedTensor *tensor = byName.lookup(graph::argString(forward, index, graph::kName));
    if (!tensor)
      continue;
    ++found;
    marks.set(index, graph::kSource, sourceOf(builder, *tensor));
    if (!isKept(*tensor, options))
      continue;
    const std::optional<graph::WeightFormat> format = graph::symbolizeWeightFormat(tensor->format);
    if (!format)
      return fail("'" + Twine(tensor->name) + "' is stored as " + tensor->format + ", which is neither nf4 nor int8");
    marks.set(index, graph::kQuantized, graph::WeightFormatAttr::get(module.getContext(), *format));
  }
  marks.store();
  if (found != tensors.size())
    return fail(Twine(tensors.size() - found) + " of the weights in " + tensors.front().format +
                " are not parameters of the graph as they are stored; give full weights (--weights) and --quantize");
  return success();
}

} // namespace ztc::driver
