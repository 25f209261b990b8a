#include "runtime/Checkpoint/Export.h"
#include "runtime/Checkpoint/SharedWork.h"
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace ztc {

using Json = nlohmann::ordered_json;

/// Of files that are being written.
static constexpr std::string_view kTemporaryPrefix = ".ztc-export-";

/// Where Hugging Face's own writer begins a new shard.
static constexpr uint64_t kLargestShard = 5'000'000'000;

/// What a Hugging Face folder has beside weights and config.json. Files that are not there are not copied.
static constexpr const char *kCompanions[] = {"generation_config.json",
                                              "tokenizer.json",
                                              "tokenizer_config.json",
                                              "tokenizer.model",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "merges.txt",
                                              "chat_template.jinja",
                                              "chat_template.json"};

StatusOr<plan::DataType> parseExportType(const std::string &name, const plan::Plan &plan) {
  const std::string &wanted = name.empty() ? plan.precision() : name;
  if (wanted == "fp32" || wanted.empty())
    return plan::F32;
  if (wanted == "bf16")
    return plan::BF16;
  if (wanted == "fp16")
    return plan::F16;
  return invalidArgument(fmt::format("--export-dtype={}: fp32, bf16 and fp16 are known", wanted));
}

static FileSet planExport(const plan::Plan &plan, plan::DataType type) {
  return planFiles(plan, StateKind::Model, "model", type, kLargestShard, /*plainName=*/true);
}

/// The text of config.json, with the type of the weights in it; empty where there is none.
static StatusOr<std::string> configText(const plan::Plan &plan, const ExportOptions &options) {
  std::string text = plan.model().hf_config();
  if (!options.hfConfig.empty()) {
    ZTC_ASSIGN_OR_RETURN(text, readWholeFile(options.hfConfig + "/config.json"));
  }
  if (text.empty())
    return text;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return dataLoss(fmt::format("{} is no JSON object", options.hfConfig.empty()
                                                            ? "the plan's config.json"
                                                            : "'" + options.hfConfig + "/config.json'"));
  const char *type = options.type == plan::BF16 ? "bfloat16" : options.type == plan::F16 ? "float16" : "float32";
  for (const char *key : {"dtype", "torch_dtype"}) // transformers 5 and 4
    if (json.contains(key))
      json[key] = type;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

static Status checkFolder(const plan::Plan &plan, const ExportOptions &options) {
  if (const StatusOr<std::string> config = configText(plan, options); !config.isOk())
    return config.status().withContext("--hf-config");
  ZTC_RETURN_IF_ERROR(checkWritable(options.folder));
  ZTC_ASSIGN_OR_RETURN(const uint64_t present, freeBytes(options.folder));
  const uint64_t needed = planExport(plan, options.type).fileBytes();
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

static Status copyFile(const std::string &from, const File &to, std::span<std::byte> staging) {
  ZTC_ASSIGN_OR_RETURN(const File source, File::open(from, File::Mode::Read));
  ZTC_ASSIGN_OR_RETURN(const uint64_t bytes, source.size());
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t piece = std::min<uint64_t>(staging.size(), bytes - at);
    ZTC_RETURN_IF_ERROR(source.readAt(at, staging.data(), piece));
    ZTC_RETURN_IF_ERROR(to.writeAt(at, staging.data(), piece));
    at += piece;
  }
  return Status::ok();
}

/// A weight file of an earlier export that is not part of this one: left there, a reader would mix two models.
static bool isStale(const std::string &name, const FileSet &set) {
  const bool weights = name == "model.safetensors" || (name.starts_with("model-") && name.ends_with(".safetensors")) ||
                       name == "model.safetensors.index.json";
  if (name == "model.safetensors.index.json" && set.files.size() > 1)
    return false;
  return weights &&
         std::none_of(set.files.begin(), set.files.end(), [&](const PlannedFile &file) { return file.name == name; });
}

namespace {

/// New files of a folder under other names, until all of them are complete. One rank's.
class FolderUpdate {
public:
  explicit FolderUpdate(std::string folder) : folder_(std::move(folder)) {}
  ~FolderUpdate() {
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
static Status createExport(const StateContext &context, const ExportOptions &options, const FileSet &set,
                           FolderUpdate &update) {
  ZTC_RETURN_IF_ERROR(makeFolders(options.folder));
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> present, listFolder(options.folder));
  for (const std::string &name : present) // what a killed export left behind; a folder has one writer
    if (name.starts_with(kTemporaryPrefix))
      ZTC_RETURN_IF_ERROR(removeAll(options.folder + "/" + name));
  for (const PlannedFile &planned : set.files)
    ZTC_RETURN_IF_ERROR(update.addTensors(planned));
  const auto addText = [&](const char *name, const std::string &text) {
    return update.add(name, [&](const File &file) { return file.writeAt(0, text.data(), text.size()); });
  };
  if (set.files.size() > 1)
    ZTC_RETURN_IF_ERROR(addText("model.safetensors.index.json", printIndex(set)));
  ZTC_ASSIGN_OR_RETURN(const std::string config, configText(context.plan, options));
  if (!config.empty())
    ZTC_RETURN_IF_ERROR(addText("config.json", config));
  for (const char *name : kCompanions) {
    const std::string from = options.hfConfig + "/" + name;
    if (!options.hfConfig.empty() && pathExists(from))
      ZTC_RETURN_IF_ERROR(update.add(name, [&](const File &file) { return copyFile(from, file, context.staging); }));
  }
  return Status::ok();
}

static Status completeExport(const ExportOptions &options, const FileSet &set, FolderUpdate &update) {
  ZTC_RETURN_IF_ERROR(update.commit());
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> present, listFolder(options.folder));
  for (const std::string &name : present)
    if (isStale(name, set))
      ZTC_RETURN_IF_ERROR(removeAll(options.folder + "/" + name));
  return syncFolder(options.folder);
}

static Status writeExport(const StateContext &context, const ExportOptions &options) {
  ControlChannel *const control = context.control;
  const bool first = isFirstRank(control);
  const FileSet set = planExport(context.plan, options.type);
  FolderUpdate update(options.folder);
  StatusOr<std::string> created = update.prefix();
  if (first)
    if (const Status status = createExport(context, options, set, update); !status.isOk())
      created = status;
  ZTC_ASSIGN_OR_RETURN(const std::string prefix, fromFirstRank(control, "export created", created));
  std::vector<FileToWrite> files;
  for (const PlannedFile &planned : set.files)
    files.push_back({&planned, StateKind::Model, prefix + planned.name});
  ZTC_RETURN_IF_ERROR(writeTogether(context, files, options.type, 1.0f));
  return agree(control, "export complete", first ? completeExport(options, set, update) : Status::ok());
}

Status exportModel(const StateContext &context, const ExportOptions &options) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  const bool isNew = isFirstRank(context.control) && !pathExists(options.folder);
  const Status written = writeExport(context, options);
  if (!written.isOk() && isNew)
    ::rmdir(options.folder.c_str());
  return written.withContext("the model was not exported");
}

Status dumpGradients(const StateContext &context, const std::string &given, float factor) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  ControlChannel *const control = context.control;
  const bool first = isFirstRank(control);
  const FileSet set = planFiles(context.plan, StateKind::Gradient, "gradients", plan::F32,
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
  const Status written = writeTogether(context, {{&set.files[0], StateKind::Gradient, temporary}}, plan::F32, factor);
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
