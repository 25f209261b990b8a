#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Checkpoint/TensorReader.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/Manifest.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Safetensors.h"
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace ztc {

/// Of one file, data and header; depends on nothing, so that files depend on the model alone.
static constexpr uint64_t kLargestFile = uint64_t(4) << 30;
/// Folders that are being written or removed. Nothing that matches step-* is ever unfinished.
static constexpr std::string_view kTemporaryPrefix = ".tmp-step-";

namespace {
struct KindName {
  StateKind kind;
  const char *stem;
};
} // namespace
static constexpr KindName kKinds[] = {
    {StateKind::Model, "model"}, {StateKind::ExpAvg, "exp_avg"}, {StateKind::ExpAvgSq, "exp_avg_sq"}};

uint64_t checkpointBytes(const plan::Plan &plan) {
  uint64_t bytes = uint64_t(64) << 10;
  for (const KindName &kind : kKinds) {
    const FileSet set = planFiles(plan, kind.kind, kind.stem, plan::F32, kLargestFile, false);
    bytes += set.fileBytes() + set.fileBytes() / kManifestPieceBytes * 72 + printIndex(set).size();
  }
  return bytes;
}

Status prepareCheckpoints(const plan::Plan &plan, const std::string &folder) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(plan));
  ZTC_RETURN_IF_ERROR(checkWritable(folder));
  ZTC_ASSIGN_OR_RETURN(const uint64_t present, freeBytes(folder));
  const uint64_t needed = checkpointBytes(plan);
  if (present < needed)
    return resourceExhausted(fmt::format(
        "a checkpoint in '{}' takes {}, {} are free there ({} bytes too few); free some, or save elsewhere with --save",
        folder, formatSize(needed), formatSize(present), needed - present));
  return Status::ok();
}

static Status writeSynced(const std::string &path, std::string_view content) {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::Create));
  ZTC_RETURN_IF_ERROR(file.writeAt(0, content.data(), content.size()));
  return file.sync();
}

/// All files of a checkpoint in `folder`, synced, the manifest last.
static Status writeFiles(const StateContext &context, const TrainerState &state, const std::string &folder) {
  std::vector<std::string> names;
  for (const KindName &kind : kKinds) {
    const FileSet set = planFiles(context.plan, kind.kind, kind.stem, plan::F32, kLargestFile, false);
    for (const PlannedFile &planned : set.files) {
      ZTC_ASSIGN_OR_RETURN(const File file, File::open(folder + "/" + planned.name, File::Mode::Create));
      ZTC_RETURN_IF_ERROR(writeTensors(context, planned, kind.kind, plan::F32, 1.0f, file));
      ZTC_RETURN_IF_ERROR(file.sync());
      names.push_back(planned.name);
    }
    names.push_back(fmt::format("{}.safetensors.index.json", kind.stem));
    ZTC_RETURN_IF_ERROR(writeSynced(folder + "/" + names.back(), printIndex(set)));
  }
  names.push_back("trainer.json");
  ZTC_RETURN_IF_ERROR(writeSynced(folder + "/trainer.json", printTrainerState(state)));
  std::sort(names.begin(), names.end());
  Manifest manifest;
  for (const std::string &name : names) {
    ZTC_ASSIGN_OR_RETURN(ManifestFile file, describeFile(folder, name, context.staging));
    manifest.files.push_back(std::move(file));
  }
  ZTC_RETURN_IF_ERROR(writeSynced(folder + "/manifest.json", printManifest(manifest)));
  return syncFolder(folder);
}

/// What a killed run left behind. A folder has one writer.
static Status removeTemporaries(const std::string &folder) {
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> names, listFolder(folder));
  for (const std::string &name : names)
    if (name.starts_with(kTemporaryPrefix))
      ZTC_RETURN_IF_ERROR(removeAll(folder + "/" + name));
  return Status::ok();
}

/// A step-* folder first loses its name, then its files: it is whole or not there.
static Status removeCheckpoint(const std::string &folder, const std::string &name) {
  const std::string aside = fmt::format("{}/{}old-{}", folder, kTemporaryPrefix, name);
  ZTC_RETURN_IF_ERROR(renamePath(folder + "/" + name, aside));
  return removeAll(aside);
}

/// Checkpoints of a folder, oldest first.
static StatusOr<std::vector<std::string>> listCheckpoints(const std::string &folder) {
  ZTC_ASSIGN_OR_RETURN(std::vector<std::string> names, listFolder(folder));
  std::erase_if(names,
                [&](const std::string &name) { return !checkpointStep(name) || !isFolder(folder + "/" + name); });
  std::sort(names.begin(), names.end(),
            [](const std::string &a, const std::string &b) { return *checkpointStep(a) < *checkpointStep(b); });
  return names;
}

StatusOr<std::string> saveCheckpoint(const StateContext &context, const TrainerState &state, const std::string &folder,
                                     uint64_t keep) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  ZTC_RETURN_IF_ERROR(makeFolders(folder));
  ZTC_RETURN_IF_ERROR(removeTemporaries(folder));
  const std::string name = checkpointName(state.step), path = folder + "/" + name;
  const std::string temporary = fmt::format("{}/{}{}-{}", folder, kTemporaryPrefix, state.step, ::getpid());
  const Status written = [&]() -> Status {
    ZTC_RETURN_IF_ERROR(makeFolders(temporary));
    ZTC_RETURN_IF_ERROR(writeFiles(context, state, temporary));
    if (pathExists(path)) { // the same step again, after a resume
      ZTC_RETURN_IF_ERROR(exchangePaths(temporary, path));
      return removeAll(temporary);
    }
    return renamePath(temporary, path);
  }();
  if (!written.isOk()) {
    const Status removed = removeAll(temporary); // what cannot be removed now goes with the next save
    return Status(written.code(), fmt::format("checkpoint of step {} was not saved: {}{}", state.step,
                                              written.message(), removed.isOk() ? "" : "; " + removed.message()));
  }
  ZTC_RETURN_IF_ERROR(syncFolder(folder));
  if (keep) {
    ZTC_ASSIGN_OR_RETURN(std::vector<std::string> names, listCheckpoints(folder));
    std::erase(names, name); // never the one just written, whatever its number
    for (size_t i = 0; i + keep < names.size() + 1; ++i)
      ZTC_RETURN_IF_ERROR(removeCheckpoint(folder, names[i]));
  }
  return path;
}

static StatusOr<FoundCheckpoint> examine(const std::string &path, std::span<std::byte> staging) {
  StatusOr<Manifest> manifest = readManifest(path);
  if (!manifest.isOk())
    return manifest.status().code() == StatusCode::NotFound ? dataLoss(fmt::format("'{}' has no manifest.json", path))
                                                            : manifest.status();
  ZTC_RETURN_IF_ERROR(verifyManifest(*manifest, path, /*checksums=*/true, staging));
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path + "/trainer.json"));
  ZTC_ASSIGN_OR_RETURN(TrainerState state, parseTrainerState(text, path + "/trainer.json"));
  return FoundCheckpoint{path, std::move(state), {}};
}

StatusOr<FoundCheckpoint> findCheckpoint(const std::string &folder, std::span<std::byte> staging) {
  if (!isFolder(folder))
    return notFound(fmt::format("cannot resume: there is no folder '{}'", folder));
  if (staging.empty())
    return internalError("a staging buffer of 0 bytes");
  std::filesystem::path given(folder);
  if (given.filename().empty()) // a slash at the end
    given = given.parent_path();
  if (checkpointStep(given.filename().string()))
    return examine(given.string(), staging);
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> names, listCheckpoints(folder));
  std::vector<std::string> skipped;
  for (size_t i = names.size(); i-- > 0;) {
    StatusOr<FoundCheckpoint> found = examine(folder + "/" + names[i], staging);
    if (found.isOk()) {
      found->skipped = std::move(skipped);
      return found;
    }
    skipped.push_back(fmt::format("{} is not whole and is skipped: {}", names[i], found.status().message()));
  }
  return notFound(fmt::format("cannot resume: '{}' has no {}checkpoint (step-*){}{}", folder,
                              names.empty() ? "" : "whole ", skipped.empty() ? "" : "; ", fmt::join(skipped, "; ")));
}

Status loadCheckpoint(const StateContext &context, const std::string &path) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  for (const KindName &kind : kKinds) {
    ZTC_ASSIGN_OR_RETURN(const SafetensorsCollection files, SafetensorsCollection::open(path, kind.stem));
    for (const plan::Parameter &parameter : context.plan.parameters()) {
      if (kind.kind != StateKind::Model && !parameter.trainable())
        continue;
      std::optional<SafetensorsCollection::Found> found = files.find(parameter.name());
      for (int i = 0; !found && i < parameter.tied_size(); ++i)
        found = files.find(parameter.tied(i));
      if (!found)
        return failedPrecondition(fmt::format("the checkpoint '{}' has no {} of '{}', which the plan trains", path,
                                              kind.stem, parameter.name()));
      const SafetensorsTensor &tensor = *found->tensor;
      if (!std::equal(tensor.shape.begin(), tensor.shape.end(), parameter.shape().begin(), parameter.shape().end()) ||
          !isLoadable(tensor.type))
        return failedPrecondition(fmt::format("the checkpoint '{}' has {} of '{}' as {} [{}], the plan needs [{}]",
                                              path, kind.stem, parameter.name(), tensor.typeName,
                                              fmt::join(tensor.shape, ", "), fmt::join(parameter.shape(), ", ")));
      const StoredTensor stored{found->file->data(tensor), tensor.type, false, 0, 0};
      ZTC_RETURN_IF_ERROR(fillParameter(context, parameter, kind.kind, [&](uint64_t begin, uint64_t count, float *out) {
        readElements(stored, begin, count, out);
        return Status::ok();
      }));
    }
  }
  return Status::ok();
}

} // namespace ztc
