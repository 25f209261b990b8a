#include "runtime/Checkpoint/Export.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Checkpoint/FrozenTensors.h"
#include "runtime/Checkpoint/OtherTensors.h"
#include "runtime/Checkpoint/QuantizedTensors.h"
#include "runtime/Checkpoint/SharedWork.h"
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <limits>
#include <unistd.h>

namespace ztc {

using Json = nlohmann::ordered_json;

/// Of files that are being written.
static constexpr std::string_view kTemporaryPrefix = ".ztc-export-";

StatusOr<std::optional<plan::DataType>> parseExportType(const std::string &name) {
  using Result = std::optional<plan::DataType>;
  if (name.empty())
    return Result();
  if (name == "fp32")
    return Result(plan::F32);
  if (name == "bf16")
    return Result(plan::BF16);
  if (name == "fp16")
    return Result(plan::F16);
  return invalidArgument(fmt::format("--export-dtype={}: fp32, bf16 and fp16 are known", name));
}

StatusOr<std::map<std::string, plan::DataType>> typesOfWeights(const plan::Plan &plan, const std::string &weights) {
  std::map<std::string, plan::DataType> types;
  if (weights.empty())
    return types;
  const QuantizationConfig config = quantizationConfigOf(weights);
  ZTC_ASSIGN_OR_RETURN(const auto checkpoint, QuantizedCheckpoint::open(weights, "model", config));
  const SafetensorsCollection &files = checkpoint->files;
  for (const plan::Parameter &parameter : plan.parameters())
    if (checkpoint->matrices.find(parameter))
      types[parameter.name()] = config.type;
    else if (const std::optional<SafetensorsCollection::Found> found = files.find(parameter))
      types[parameter.name()] = isQuantized(files, *found->tensor) ? plan::U8 : found->tensor->type;
  return types;
}

static plan::DataType computeType(const plan::Plan &plan) {
  return plan.precision() == "bf16" || plan.precision() == "fp8" ? plan::BF16
         : plan.precision() == "fp16"                            ? plan::F16
                                                                 : plan::F32;
}

/// The type that a parameter is exported in. `dequantized`: what weights in fewer bits are then in, where their scales
/// do not say it.
static plan::DataType exportType(const plan::Plan &plan, const ExportOptions &options, const plan::Parameter &parameter,
                                 plan::DataType dequantized) {
  if (options.type)
    return *options.type;
  plan::DataType source = plan::DATA_TYPE_UNSPECIFIED;
  if (const auto found = options.weightTypes.find(parameter.name()); found != options.weightTypes.end())
    source = found->second;
  else if (options.companions.weights.empty() && !parameter.source().path().empty())
    source = parameter.source().has_codes()     ? parameter.source().codes().scales().type()
             : parameter.source().dequantized() ? dequantized
                                                : parameter.source().type();
  if (source == plan::DATA_TYPE_UNSPECIFIED && isOfAdapter(plan, parameter))
    return plan::F32;      // as PEFT makes fresh ones
  if (source == plan::F64) // nothing is kept that wide
    return plan::F32;
  return source == plan::F32 || source == plan::BF16 || source == plan::F16 ? source : computeType(plan);
}

static std::string shardName(size_t index, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

/// `otherFiles` of the shards hold what the plan does not train.
static FileSet planExport(const plan::Plan &plan, const ExportOptions &options, size_t otherFiles = 0) {
  const bool isAdapter = trainsAdapter(plan);
  const plan::DataType dequantized = parseQuantizationConfig(plan.model().hf_config()).type;
  FileSet set = planFiles(
      plan, StateKind::Model, isAdapter ? kAdapterStem : "model",
      [&](const plan::Parameter &parameter) { return exportType(plan, options, parameter, dequantized); },
      isAdapter ? std::numeric_limits<uint64_t>::max() : options.shardBytes, /*plainName=*/true);
  for (size_t i = 0; otherFiles && i < set.files.size(); ++i)
    set.files[i].name = shardName(i, set.files.size() + otherFiles);
  return set;
}

/// The checkpoint whose other tensors an export keeps: --weights, else where the plan's own weights are; empty where
/// that is not a checkpoint, or not there any more.
static std::string checkpointOf(const plan::Plan &plan, const ExportOptions &options) {
  if (trainsAdapter(plan))
    return {};
  if (!options.companions.weights.empty())
    return options.companions.weights;
  for (const plan::Parameter &parameter : plan.parameters()) {
    const std::string &path = parameter.source().path();
    if (!path.ends_with(".safetensors") || !pathExists(path))
      continue;
    const std::string folder = parentFolder(path);
    return pathExists(folder + "/model.safetensors.index.json") ? folder : path;
  }
  return {};
}

static StatusOr<OtherTensors> otherTensors(const plan::Plan &plan, const ExportOptions &options) {
  const std::string checkpoint = checkpointOf(plan, options);
  return checkpoint.empty() ? OtherTensors() : OtherTensors::open(plan, checkpoint);
}

/// What most of the bytes are in.
static plan::DataType mainType(const FileSet &set) {
  std::map<plan::DataType, uint64_t> bytes;
  for (const PlannedFile &file : set.files)
    for (const PlannedTensor &tensor : file.tensors)
      bytes[tensor.type] += tensor.elements * dataTypeBytes(tensor.type);
  const auto most = std::ranges::max_element(bytes, {}, &std::pair<const plan::DataType, uint64_t>::second);
  return most == bytes.end() ? plan::F32 : most->first;
}

/// The plan whose parameters an export has: the run's own, or that of the merged model.
namespace {
class ExportedPlan {
public:
  ExportedPlan(const plan::Plan &plan, const ExportOptions &options) : plan_(plan) {
    if (options.merge)
      whole_ = wholeModelPlan(plan);
  }
  const plan::Plan &operator*() const { return whole_ ? *whole_ : plan_; }

private:
  const plan::Plan &plan_;
  std::optional<plan::Plan> whole_;
};
} // namespace

std::string describeExport(const plan::Plan &trained, const ExportOptions &options) {
  const ExportedPlan exported(trained, options);
  const plan::Plan &plan = *exported;
  const FileSet set = planExport(plan, options);
  const plan::DataType type = mainType(set);
  std::string text = type == plan::BF16 ? "bf16" : type == plan::F16 ? "fp16" : "fp32";
  for (const PlannedFile &file : set.files)
    if (std::ranges::any_of(file.tensors, [&](const PlannedTensor &tensor) { return tensor.type != type; })) {
      text += " and what else the weights were";
      break;
    }
  const StatusOr<OtherTensors> others = otherTensors(plan, options);
  const size_t shards = set.files.size() + (others.isOk() ? others->files(options.shardBytes).size() : 0);
  if (shards > 1)
    text += fmt::format(", {} shards", shards);
  if (others.isOk() && others->count())
    text += fmt::format(", {} tensors that are not trained as they were", others->count());
  if (trainsAdapter(plan))
    text += ", the adapter alone as PEFT reads it";
  if (options.merge)
    text += *options.merge == MergeInto::Original
                ? ", the adapter merged into the original weights: the loss may be another one than in training"
                : ", the adapter merged into what it was trained beside";
  const StatusOr<CompanionFiles> found = findCompanions(plan, options.companions, type);
  const CompanionFiles files = found.isOk() ? *found : CompanionFiles();
  const std::string &folder = files.folder;
  const bool hasTokenizer = files.hasTokenizer(), hasConfig = !files.config.empty();
  if (hasConfig)
    text += ", " + files.configName;
  if (hasTokenizer)
    text += fmt::format(", tokenizer of {}", folder);
  if (!hasConfig)
    text += "; without config.json and tokenizer: give --hf-config DIR for a folder that transformers loads";
  else if (!hasTokenizer)
    text += folder.empty() || isFolder(folder) ? "; no tokenizer was found"
                                               : fmt::format("; without a tokenizer: '{}' is not there", folder);
  return text;
}

static Status checkFolder(const plan::Plan &trained, const ExportOptions &options) {
  if (options.merge)
    ZTC_RETURN_IF_ERROR(checkMerge(trained, *options.merge, options.weightTypes, !options.companions.weights.empty())
                            .withContext("--merge"));
  const ExportedPlan exported(trained, options);
  const plan::Plan &plan = *exported;
  if (const auto files = findCompanions(plan, options.companions, plan::F32); !files.isOk())
    return files.status().withContext("--hf-config");
  ZTC_RETURN_IF_ERROR(checkWritable(options.folder));
  ZTC_ASSIGN_OR_RETURN(const uint64_t present, freeBytes(options.folder));
  ZTC_ASSIGN_OR_RETURN(const OtherTensors others, otherTensors(plan, options));
  uint64_t needed = planExport(plan, options).fileBytes();
  for (const CopiedFile &file : others.files(options.shardBytes))
    needed += file.layout.fileBytes;
  if (present < needed)
    return resourceExhausted(
        fmt::format("the model in '{}' takes {}, {} are free there ({} bytes too few); free some, or export elsewhere",
                    options.folder, formatSize(needed), formatSize(present), needed - present));
  return Status::ok();
}

Status prepareExport(const plan::Plan &plan, const ExportOptions &options, ControlChannel *control) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(plan));
  ZTC_RETURN_IF_ERROR(
      agree(control, "export folder", isFirstRank(control) ? checkFolder(plan, options) : Status::ok()));
  return checkSharedFolder(control, options.folder);
}

/// A weight file of an earlier export that is not part of this one: left there, a reader would mix two models.
static bool isStale(const std::string &name, const FileSet &set, const std::vector<CopiedFile> &others) {
  const bool weights = name == "model.safetensors" || (name.starts_with("model-") && name.ends_with(".safetensors")) ||
                       name == "model.safetensors.index.json";
  if (name == "model.safetensors.index.json" && set.files.size() + others.size() > 1)
    return false;
  return weights && std::ranges::find(set.files, name, &PlannedFile::name) == set.files.end() &&
         std::ranges::find(others, name, &CopiedFile::name) == others.end();
}

namespace {

/// New files of a folder under other names, until all of them are complete. One rank's.
class FolderUpdate {
public:
  explicit FolderUpdate(std::string folder) : folder_(std::move(folder)) {}
  ~FolderUpdate() { // NOLINT(bugprone-exception-escape): short names
    for (const std::string &name : names_)
      ::unlink(temporary(name).c_str());
  }

  Status add(const std::string &name, const std::function<Status(const File &)> &write) {
    names_.push_back(name);
    ZTC_ASSIGN_OR_RETURN(const File file, File::open(temporary(name), File::Mode::Create));
    ZTC_RETURN_IF_ERROR(write(file));
    return file.sync();
  }
  Status addTensors(const PlannedFile &planned) {
    names_.push_back(planned.name);
    return createTensorFile(planned, temporary(planned.name));
  }

  Status commit() {
    for (const std::string &name : names_)
      ZTC_RETURN_IF_ERROR(renamePath(temporary(name), folder_ + "/" + name));
    names_.clear();
    return syncFolder(folder_);
  }

  /// A file's path while it is not complete begins with this.
  std::string prefix() const { return fmt::format("{}/{}{}-", folder_, kTemporaryPrefix, ::getpid()); }

private:
  std::string temporary(const std::string &name) const { return prefix() + name; }
  std::string folder_;
  std::vector<std::string> names_;
};

} // namespace

/// All that is not a tensor, at one rank.
static Status createExport(const plan::Plan &plan, std::span<std::byte> staging, const ExportOptions &options,
                           const FileSet &set, const std::vector<CopiedFile> &others, FolderUpdate &update) {
  ZTC_RETURN_IF_ERROR(makeFolders(options.folder));
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> present, listFolder(options.folder));
  for (const std::string &name : present) // what a killed export left behind; a folder has one writer
    if (name.starts_with(kTemporaryPrefix))
      ZTC_RETURN_IF_ERROR(removeAll(options.folder + "/" + name));
  for (const PlannedFile &planned : set.files)
    ZTC_RETURN_IF_ERROR(update.addTensors(planned));
  for (const CopiedFile &copied : others)
    ZTC_RETURN_IF_ERROR(update.add(copied.name, [&](const File &file) { return copied.write(file); }));
  const auto addText = [&](const char *name, const std::string &text) {
    return update.add(name, [&](const File &file) { return file.writeAt(0, text.data(), text.size()); });
  };
  if (set.files.size() + others.size() > 1)
    ZTC_RETURN_IF_ERROR(addText("model.safetensors.index.json", printIndex(set, others)));
  ZTC_ASSIGN_OR_RETURN(const CompanionFiles files, findCompanions(plan, options.companions, mainType(set)));
  if (!files.config.empty())
    ZTC_RETURN_IF_ERROR(addText(files.configName.c_str(), files.config));
  if (!options.record.empty())
    ZTC_RETURN_IF_ERROR(addText("ztc_run.json", options.record));
  for (const std::string &name : files.names) {
    const std::string from = files.folder + "/" + name;
    ZTC_RETURN_IF_ERROR(update.add(name, [&](const File &file) { return copyFile(from, file, staging); }));
  }
  return Status::ok();
}

/// What is not trained goes out as it came in, where the type was not asked for.
static Status restoreFrozen(const plan::Plan &plan, const ExportOptions &options, const FileSet &set,
                            const std::string &prefix) {
  if (options.type)
    return Status::ok();
  const std::string from = checkpointOf(plan, options);
  std::optional<SafetensorsCollection> checkpoint;
  if (!from.empty()) {
    ZTC_ASSIGN_OR_RETURN(checkpoint, SafetensorsCollection::open(from));
  }
  for (const PlannedFile &planned : set.files)
    ZTC_RETURN_IF_ERROR(
        restoreFrozenTensors(plan, checkpoint ? &*checkpoint : nullptr, planned, prefix + planned.name));
  return Status::ok();
}

static Status commitExport(const ExportOptions &options, const FileSet &set, const std::vector<CopiedFile> &others,
                           FolderUpdate &update) {
  ZTC_RETURN_IF_ERROR(update.commit());
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> present, listFolder(options.folder));
  for (const std::string &name : present)
    if (isStale(name, set, others))
      ZTC_RETURN_IF_ERROR(removeAll(options.folder + "/" + name));
  return syncFolder(options.folder);
}

static Status completeExport(const plan::Plan &plan, const ExportOptions &options, const FileSet &set,
                             const std::vector<CopiedFile> &others, FolderUpdate &update) {
  ZTC_RETURN_IF_ERROR(restoreFrozen(plan, options, set, update.prefix()));
  return commitExport(options, set, others, update);
}

static Status writeExport(const StateContext &context, const ExportOptions &options) {
  ControlChannel *const control = context.control;
  const bool first = isFirstRank(control);
  // Only the first rank must see the checkpoint.
  StatusOr<OtherTensors> kept = first ? otherTensors(context.plan, options) : OtherTensors();
  std::vector<CopiedFile> others = kept.isOk() ? kept->files(options.shardBytes) : std::vector<CopiedFile>();
  StatusOr<std::string> told = kept.isOk() ? StatusOr<std::string>(std::to_string(others.size())) : kept.status();
  ZTC_ASSIGN_OR_RETURN(const std::string otherFiles, fromFirstRank(control, "other tensors", told));
  const FileSet set = planExport(context.plan, options, std::stoul(otherFiles));
  for (size_t i = 0; i < others.size(); ++i)
    others[i].name = shardName(set.files.size() + i, set.files.size() + others.size());
  FolderUpdate update(options.folder);
  StatusOr<std::string> created = update.prefix();
  if (first)
    if (const Status status = createExport(context.plan, context.staging, options, set, others, update); !status.isOk())
      created = status;
  ZTC_ASSIGN_OR_RETURN(const std::string prefix, fromFirstRank(control, "export created", created));
  std::vector<FileToWrite> files;
  for (const PlannedFile &planned : set.files)
    files.push_back({&planned, StateKind::Model, prefix + planned.name});
  ZTC_RETURN_IF_ERROR(writeTogether(context, files, 1.0f));
  return agree(control, "export complete",
               first ? completeExport(context.plan, options, set, others, update) : Status::ok());
}

/// The merged model, of an adapter that lies in a folder. One rank's.
static Status writeMerged(const StateContext &context, const ExportOptions &options, const std::string &adapter) {
  const plan::Plan whole = wholeModelPlan(context.plan);
  WeightOptions weights = options.frozen;
  weights.adapter = adapter;
  ZTC_ASSIGN_OR_RETURN(const MergedModel merged, MergedModel::open(context.plan, weights, *options.merge));
  ZTC_ASSIGN_OR_RETURN(const OtherTensors kept, otherTensors(whole, options));
  std::vector<CopiedFile> others = kept.files(options.shardBytes);
  const FileSet set = planExport(whole, options, others.size());
  for (size_t i = 0; i < others.size(); ++i)
    others[i].name = shardName(set.files.size() + i, set.files.size() + others.size());
  FolderUpdate update(options.folder);
  ZTC_RETURN_IF_ERROR(createExport(whole, context.staging, options, set, others, update));
  for (const PlannedFile &planned : set.files)
    ZTC_RETURN_IF_ERROR(merged.write(planned, update.prefix() + planned.name));
  return commitExport(options, set, others, update);
}

/// All ranks write the adapter into a folder of its own; the first makes the model of it.
static Status writeWholeModel(const StateContext &context, const ExportOptions &options) {
  ExportOptions adapter = options;
  adapter.merge.reset();
  adapter.folder = options.folder + "/adapter.merging";
  adapter.type = plan::F32;
  const Status written = writeExport(context, adapter);
  const bool first = isFirstRank(context.control);
  Status merged = written.isOk() && first ? writeMerged(context, options, adapter.folder) : written;
  if (first)
    if (const Status removed = removeAll(adapter.folder); merged.isOk())
      merged = removed;
  return agree(context.control, "model merged", merged);
}

Status exportModel(const StateContext &context, const ExportOptions &options) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  const bool isNew = isFirstRank(context.control) && !pathExists(options.folder);
  const Status written = options.merge ? writeWholeModel(context, options) : writeExport(context, options);
  if (!written.isOk() && isNew)
    ::rmdir(options.folder.c_str());
  return written.withContext("the model was not exported");
}

Status dumpGradients(const StateContext &context, const std::string &given, float factor) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  ControlChannel *const control = context.control;
  const bool first = isFirstRank(control);
  const FileSet set = planFiles(context.plan, StateKind::Gradient, "gradients", wideType,
                                std::numeric_limits<uint64_t>::max(), /*plainName=*/true);
  StatusOr<std::string> replaced = first ? replaceablePath(given) : given;
  const std::string path = replaced.isOk() ? *replaced : given;
  StatusOr<std::string> created = fmt::format("{}.tmp-{}", path, ::getpid());
  if (first) {
    const std::string temporary = *created;
    if (!replaced.isOk())
      created = replaced.status();
    else if (const Status status = createTensorFile(set.files[0], temporary); !status.isOk()) {
      created = status;
      ::unlink(temporary.c_str());
    }
  }
  ZTC_ASSIGN_OR_RETURN(const std::string temporary, fromFirstRank(control, "gradients created", created));
  const Status written = writeTogether(context, {{&set.files[0], StateKind::Gradient, temporary}}, factor);
  const auto complete = [&]() -> Status {
    ZTC_RETURN_IF_ERROR(written);
    ZTC_RETURN_IF_ERROR(renamePath(temporary, path));
    return syncFolder(parentFolder(path));
  };
  const Status completed = first ? complete() : Status::ok();
  if (first && !completed.isOk())
    ::unlink(temporary.c_str());
  ZTC_RETURN_IF_ERROR(written);
  return agree(control, "gradients complete", completed);
}

} // namespace ztc
