// `ztc export`: trained weights back in the ONNX file that was compiled.
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/MergedTensors.h"
#include "compiler/Driver/Session.h"
#include "frontends/huggingface/Folder.h"
#include "frontends/onnx/StoredTensors.h"
#include "frontends/onnx/WriteModel.h"
#include "passes/Adapters/WeightUses.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/ListText.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using llvm::formatv;

namespace ztc::driver {

/// What stands in the way, seen before any work; "" where nothing does.
static std::string unusable(const CompileOptions &o, const ExportModelOptions &form) {
  if (huggingface::isModelFolder(o.input))
    return o.input + ": is a folder, not an ONNX file: what ztc-run exports is such a folder already, complete with "
                     "its config.json";
  if (isPlanFile(o.input))
    return o.input + ": is a plan; name the ONNX file that it was compiled from";
  for (const std::string &path : {o.output, o.output + ".data"}) {
    if (llvm::sys::fs::equivalent(path, o.input))
      return "cannot write " + path + ": it is the model itself; name another file";
    if (llvm::sys::fs::is_directory(path))
      return "cannot write " + path + ": it is a folder; name a file in it";
    if (pathExists(path) && !form.overwrite)
      return "cannot write " + path + ": it is there already; name another file, or give --overwrite";
  }
  if (std::string why = unwritable(o.output); !why.empty())
    return why;
  if (StatusOr<std::vector<std::string>> names = listFolder(o.weights); names.isOk())
    for (const std::string &name : llvm::reverse(*names))
      if (llvm::StringRef(name).starts_with("step-") && !pathExists(o.weights + "/model.safetensors") &&
          !pathExists(o.weights + "/model.safetensors.index.json"))
        return o.weights + ": is a folder of checkpoints; name one of them, as --weights=" + o.weights + "/" + name;
  return {};
}

/// The checkpoint that the run's plan was compiled with, as its export says; "" where it does not, or it is gone.
static std::string recordedBase(const std::string &weights) {
  StatusOr<std::string> text = readWholeFile(weights + "/ztc_run.json");
  if (!text.isOk())
    return {};
  nlohmann::json record = parseJson(*text);
  if (!record.is_object() || !record.contains("base") || !record["base"].is_string())
    return {};
  std::string base = record["base"].get<std::string>();
  return pathExists(base) ? base : std::string();
}

/// The trained tensors by any of the names that they have.
class TrainedTensors {
public:
  TrainedTensors(std::vector<importer::TensorView> views, const importer::WriteBack &writeBack)
      : tensors(std::move(views)) {
    for (const importer::TensorView &tensor : tensors)
      byName[tensor.name] = &tensor;
    for (const std::vector<std::string> &names : writeBack.names)
      for (const std::string &name : names)
        others.try_emplace(name, &names);
  }

  const importer::TensorView *find(llvm::StringRef name) {
    if (auto group = others.find(name); group != others.end())
      for (const std::string &other : *group->second)
        if (auto found = byName.find(other); found != byName.end())
          return use(found->second);
    auto found = byName.find(name);
    return found == byName.end() ? nullptr : use(found->second);
  }

  /// Those that nothing of the graph asked for.
  std::vector<std::string> unread() const {
    std::vector<std::string> names;
    for (const importer::TensorView &tensor : tensors)
      if (!used.contains(tensor.name))
        names.push_back(tensor.name);
    return names;
  }

private:
  const importer::TensorView *use(const importer::TensorView *tensor) {
    used.insert(tensor->name);
    return tensor;
  }

  std::vector<importer::TensorView> tensors;
  llvm::StringMap<const importer::TensorView *> byName;
  llvm::StringMap<const std::vector<std::string> *> others;
  llvm::StringSet<> used;
};

/// The model that an adapter's configuration names; "" where that is not a folder here.
static std::string namedBase(const std::string &adapter) {
  StatusOr<std::string> text = readWholeFile(adapter + "/adapter_config.json");
  const nlohmann::json config = text.isOk() ? parseJson(*text) : nlohmann::json();
  const auto name = config.is_object() ? config.find("base_model_name_or_path") : config.end();
  if (name == config.end() || !name->is_string())
    return {};
  const std::string base = name->get<std::string>();
  return llvm::sys::fs::is_directory(base) ? base : std::string();
}

/// A table that is the head too, of which the adapter changes one use alone.
static std::string tiedChange(const MergedTensors &merged, ModuleOp module) {
  func::FuncOp forward = graph::findEntry(module, graph::Entry::Forward);
  BlockArgument head = forward ? adapters::headWeight(forward) : BlockArgument();
  if (!head || llvm::none_of(head.getUses(), adapters::isLookup))
    return {};
  const StringRef name = graph::argString(forward, head.getArgNumber(), graph::kName);
  if (!merged.changes(name) || merged.changesRows(name))
    return {};
  return ("'" + name +
          "' is a table of embeddings and the head too, they are one tensor, and the adapter changes one of "
          "its uses: PEFT's merge_and_unload makes two of it")
      .str();
}

int runExport(const CompileOptions &given, const ExportModelOptions &form) {
  if (std::string what = unusable(given, form); !what.empty())
    return fail(what);
  std::string base = form.base;
  if (base.empty())
    base = form.merge ? namedBase(given.weights) : recordedBase(given.weights);
  if (form.merge && base.empty())
    return fail("--merge: " + given.weights +
                " changes weights of a model that its adapter_config.json does not name: give --base=DIR, the "
                "checkpoint that the graph was exported from");
  std::optional<MergedTensors> merged;
  std::optional<SafetensorsCollection> files;
  if (form.merge) {
    StatusOr<MergedTensors> made = MergedTensors::open(given.weights, base);
    if (!made.isOk())
      return fail("--merge: " + made.status().message());
    merged.emplace(std::move(*made));
  } else {
    StatusOr<SafetensorsCollection> opened = SafetensorsCollection::open(given.weights);
    if (!opened.isOk())
      return fail("--weights: " + opened.status().message());
    files.emplace(std::move(*opened));
  }
  CompileOptions options = given;
  options.weights = base.empty() ? given.weights : base;
  Session session(options);
  importer::WriteBack writeBack;
  writeBack.isTrained = base.empty();
  session.fillWriteBack(writeBack);
  if (!session.isValid())
    return 2;
  if (failed(session.run(Phase::Import))) {
    const ImportReport &report = session.importReport();
    const bool isTooLong = report.positionLimit && !report.seq; // no sequence was taken
    if (base.empty() && report.opset && !isTooLong)             // without an opset it is not an ONNX file
      llvm::errs() << "ztc: --base=DIR, the checkpoint that the graph was exported from, tells what the exporter "
                      "folded, joined or renamed\n";
    return 1;
  }
  if (merged)
    if (std::string what = tiedChange(*merged, session.module()); !what.empty())
      return fail("--merge: " + what);
  TrainedTensors trained(merged ? merged->views() : importer::floatTensorsOf(*files), writeBack);
  StatusOr<importer::WrittenModel> written =
      importer::writeModel(writeBack, {options.input, options.output, form.inlineLimit},
                           [&](llvm::StringRef name) { return trained.find(name); });
  if (!written.isOk())
    return fail(given.weights + ": " + written.status().message());
  std::string text = formatv("{0}: {1} tensors of {2}, {3}", options.output, written->tensors, given.weights,
                             formatSize(written->bytes));
  if (written->externalBytes)
    text += formatv(", and {0} in {1}.data", formatSize(written->externalBytes),
                    llvm::sys::path::filename(options.output).str());
  llvm::outs() << printable(text) << "\n";
  if (!written->parted.empty())
    llvm::errs() << printable(formatv("ztc: {0} tensors that the exporter had merged with equal ones are separate now: "
                                      "{1}",
                                      written->parted.size(), listText(written->parted, 3))
                                  .str())
                 << "\n";
  if (std::vector<std::string> unread = trained.unread(); !unread.empty())
    llvm::errs() << printable(formatv("ztc: {0} tensors of {1} are nowhere in the graph: {2}", unread.size(),
                                      given.weights, listText(unread, 3))
                                  .str())
                 << "\n";
  return 0;
}

} // namespace ztc::driver
