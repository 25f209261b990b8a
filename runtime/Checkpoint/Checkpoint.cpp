#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Checkpoint/SharedWork.h"
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Checkpoint/TensorReader.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/BlockState.h"
#include "runtime/Format/Manifest.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <unistd.h>

namespace ztc {

/// Of one file, data and header; depends on nothing, so that files depend on the model alone.
static constexpr uint64_t kLargestFile = uint64_t(4) << 30;
/// Folders that are being written or removed. Nothing that matches step-* is ever unfinished.
static constexpr std::string_view kTemporaryPrefix = ".tmp-step-";

/// The files of one kind. PEFT reads an adapter in one file of a fixed name.
static FileSet checkpointFiles(const plan::Plan &plan, const SavedKind &kind) {
  const bool isAdapter = kind.kind == StateKind::Model && trainsAdapter(plan);
  return planFiles(plan, kind.kind, kind.stem, savedType(plan, kind.kind),
                   isAdapter ? std::numeric_limits<uint64_t>::max() : kLargestFile,
                   /*plainName=*/isAdapter);
}

uint64_t checkpointBytes(const plan::Plan &plan) {
  uint64_t bytes = uint64_t(64) << 10;
  for (const SavedKind &kind : savedKinds(plan)) {
    const FileSet set = checkpointFiles(plan, kind);
    bytes += set.fileBytes() + set.fileBytes() / kManifestPieceBytes * 72 + printIndex(set).size();
  }
  return bytes;
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

StatusOr<std::vector<CheckpointEntry>> readCheckpointEntries(const std::string &folder) {
  std::vector<CheckpointEntry> entries;
  if (!isFolder(folder))
    return entries;
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> names, listCheckpoints(folder));
  for (const std::string &name : names) {
    const std::string path = folder + "/" + name + "/trainer.json";
    const StatusOr<std::string> text = readWholeFile(path);
    const StatusOr<TrainerState> state = text.isOk() ? parseTrainerState(*text, path) : text.status();
    if (state.isOk())
      entries.push_back({name, state->step, state->run, state->evalLoss});
  }
  return entries;
}

static Status checkSpace(const plan::Plan &plan, const std::string &folder, const SavePlan &wanted) {
  ZTC_RETURN_IF_ERROR(checkWritable(folder));
  ZTC_ASSIGN_OR_RETURN(const uint64_t present, freeBytes(folder));
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> old, listCheckpoints(folder));
  // The largest number of new ones that lie beside the old ones at any moment.
  const uint64_t added = wanted.keep + 1 > old.size() ? wanted.keep + 1 - old.size() : 1;
  const uint64_t count = wanted.keep ? std::min(added, std::max<uint64_t>(wanted.saves, 1)) : 1;
  const uint64_t one = checkpointBytes(plan);
  if (present / count < one)
    return resourceExhausted(fmt::format(
        "{} in '{}' take{} {}, {} are free there ({} bytes too few); free some, or save elsewhere with --save",
        count == 1 ? "a checkpoint"
                   : fmt::format("{} checkpoints (--keep={} and the one being written)", count, wanted.keep),
        folder, count == 1 ? "s" : "", formatSize(count * one), formatSize(present), count * one - present));
  return Status::ok();
}

Status prepareCheckpoints(const plan::Plan &plan, const std::string &folder, ControlChannel *control,
                          const SavePlan &wanted) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(plan));
  ZTC_RETURN_IF_ERROR(
      agree(control, "checkpoint folder", isFirstRank(control) ? checkSpace(plan, folder, wanted) : Status::ok()));
  return checkSharedFolder(control, folder);
}

static Status writeContent(const std::string &path, std::string_view content) {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::Create));
  return file.writeAt(0, content.data(), content.size());
}

static Status syncFile(const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::Read));
  return file.sync();
}

namespace {

/// The tensor files of a checkpoint, in the order in which they are written.
struct CheckpointFiles {
  CheckpointFiles(const plan::Plan &plan, CompanionFiles companions)
      : kinds(savedKinds(plan)), companions(std::move(companions)) {
    for (const SavedKind &kind : kinds)
      sets.push_back(checkpointFiles(plan, kind));
  }
  std::vector<FileToWrite> in(const std::string &folder) const {
    std::vector<FileToWrite> files;
    for (size_t i = 0; i < sets.size(); ++i)
      for (const PlannedFile &file : sets[i].files)
        files.push_back({&file, kinds[i].kind, folder + "/" + file.name});
    return files;
  }
  std::string indexName(size_t kind) const { return fmt::format("{}.safetensors.index.json", kinds[kind].stem); }
  /// Of all files but the manifest, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names{"trainer.json"};
    for (size_t i = 0; i < sets.size(); ++i) {
      names.push_back(indexName(i));
      for (const PlannedFile &file : sets[i].files)
        names.push_back(file.name);
    }
    if (!companions.config.empty())
      names.push_back(companions.configName);
    names.insert(names.end(), companions.names.begin(), companions.names.end());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<SavedKind> kinds;
  std::vector<FileSet> sets; ///< one for each kind
  CompanionFiles companions; ///< those that were copied, once createFiles() is done
};

} // namespace

/// Copies what makes the folder one of Hugging Face's. A state is not lost for a tokenizer that is gone by now.
static Status copyCompanions(CompanionFiles &companions, const std::string &folder, std::span<std::byte> staging) {
  if (!companions.config.empty())
    ZTC_RETURN_IF_ERROR(writeContent(folder + "/" + companions.configName, companions.config));
  std::vector<std::string> copied;
  for (const std::string &name : companions.names) {
    if (!pathExists(companions.folder + "/" + name))
      continue;
    ZTC_ASSIGN_OR_RETURN(const File file, File::open(folder + "/" + name, File::Mode::Create));
    ZTC_RETURN_IF_ERROR(copyFile(companions.folder + "/" + name, file, staging));
    copied.push_back(name);
  }
  companions.names = std::move(copied);
  return Status::ok();
}

/// All files but the manifest, complete except for the tensors. None is synced: steps wait until the state has been
/// read, and that is not begun before these are there.
static Status createFiles(CheckpointFiles &files, const TrainerState &state, const std::string &folder,
                          std::span<std::byte> staging) {
  ZTC_RETURN_IF_ERROR(makeFolders(folder));
  for (const FileToWrite &file : files.in(folder))
    ZTC_RETURN_IF_ERROR(createTensorFile(*file.planned, file.path));
  for (size_t i = 0; i < files.sets.size(); ++i)
    ZTC_RETURN_IF_ERROR(writeContent(folder + "/" + files.indexName(i), printIndex(files.sets[i])));
  ZTC_RETURN_IF_ERROR(copyCompanions(files.companions, folder, staging));
  return writeContent(folder + "/trainer.json", printTrainerState(state));
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

/// Removes what `options` says, once `written` is whole. An older run's checkpoints are never counted.
static Status removeOthers(const std::string &folder, const std::string &written, const TrainerState &state,
                           const SaveOptions &options) {
  ZTC_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries, readCheckpointEntries(folder));
  std::erase_if(entries, [&](const CheckpointEntry &entry) { return entry.name == written; }); // whatever its number
  if (options.replacesOthers) {
    const auto isLeft = [&](const CheckpointEntry &entry) { return entry.run != state.run || entry.step > state.step; };
    for (const CheckpointEntry &entry : entries)
      if (isLeft(entry))
        ZTC_RETURN_IF_ERROR(removeCheckpoint(folder, entry.name));
    std::erase_if(entries, isLeft);
  }
  std::erase_if(entries, [&](const CheckpointEntry &entry) { return entry.run != state.run; });
  if (options.keepBest) {
    std::optional<double> least = state.evalLoss;
    for (const CheckpointEntry &entry : entries)
      if (entry.evalLoss && (!least || *entry.evalLoss < *least))
        least = entry.evalLoss;
    std::erase_if(entries, [&](const CheckpointEntry &entry) { return entry.evalLoss && entry.evalLoss == least; });
  }
  for (size_t i = 0; options.keep && i + options.keep < entries.size() + 1; ++i)
    ZTC_RETURN_IF_ERROR(removeCheckpoint(folder, entries[i].name));
  return Status::ok();
}

/// Gives the complete temporary folder its name, once everything in it has reached the disk; tensors have.
static Status publish(const Manifest &manifest, const std::string &temporary, const std::string &path) {
  for (const ManifestFile &file : manifest.files)
    if (!file.name.ends_with(".safetensors"))
      ZTC_RETURN_IF_ERROR(syncFile(temporary + "/" + file.name));
  ZTC_RETURN_IF_ERROR(writeContent(temporary + "/manifest.json", printManifest(manifest)));
  ZTC_RETURN_IF_ERROR(syncFile(temporary + "/manifest.json"));
  ZTC_RETURN_IF_ERROR(syncFolder(temporary));
  if (pathExists(path)) { // the same step again, after a resume
    ZTC_RETURN_IF_ERROR(exchangePaths(temporary, path));
    ZTC_RETURN_IF_ERROR(removeAll(temporary));
  } else {
    ZTC_RETURN_IF_ERROR(renamePath(temporary, path));
  }
  return syncFolder(parentFolder(path));
}

/// All ranks; `temporary` is known at rank 0 and told to the others.
static Status writeCheckpoint(const StateContext &context, const TrainerState &state, const std::string &path,
                              const SaveOptions &options, const std::function<void()> &hasRead,
                              std::string &temporary) {
  ControlChannel *const control = context.control;
  CheckpointFiles files(context.plan, options.companions);
  // What ranks take the checksums of: rank 0 knows which files there are, which have no tab in their names.
  std::vector<std::string> names;
  StatusOr<std::string> created = temporary;
  if (isFirstRank(control)) {
    const Status status = createFiles(files, state, temporary, context.staging);
    created = status.isOk() ? StatusOr<std::string>(fmt::format("{}\t{}", temporary, fmt::join(files.names(), "\t")))
                            : StatusOr<std::string>(status);
  }
  ZTC_ASSIGN_OR_RETURN(const std::string told, fromFirstRank(control, "checkpoint created", created));
  for (size_t at = 0; at <= told.size();) {
    const size_t end = std::min(told.find('\t', at), told.size());
    names.push_back(told.substr(at, end - at));
    at = end + 1;
  }
  temporary = names.front();
  names.erase(names.begin());
  ZTC_RETURN_IF_ERROR(writeTogether(context, files.in(temporary), 1.0f, hasRead));
  ZTC_ASSIGN_OR_RETURN(const Manifest manifest, describeTogether(control, temporary, names, context.staging));
  const Status published = isFirstRank(control) ? publish(manifest, temporary, path) : Status::ok();
  return agree(control, "checkpoint complete", published);
}

StatusOr<std::string> saveCheckpoint(const StateContext &context, const TrainerState &state, const std::string &folder,
                                     const SaveOptions &options, const std::function<void()> &hasRead) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  const bool first = isFirstRank(context.control), isGood = options.kind == SaveKind::Good;
  const std::string name = (isGood ? "" : "diverged-") + checkpointName(state.step), path = folder + "/" + name;
  std::string temporary = fmt::format("{}/{}{}-{}", folder, kTemporaryPrefix, state.step, ::getpid());
  const auto prepare = [&]() -> Status {
    ZTC_RETURN_IF_ERROR(makeFolders(folder));
    return removeTemporaries(folder);
  };
  ZTC_RETURN_IF_ERROR(agree(context.control, "checkpoint begun", first ? prepare() : Status::ok()));
  const Status written = writeCheckpoint(context, state, path, options, hasRead, temporary);
  if (!written.isOk()) {
    // What cannot be removed now goes with the next save.
    const Status removed = first ? removeAll(temporary) : Status::ok();
    return Status(written.code(), fmt::format("checkpoint of step {} was not saved: {}{}", state.step,
                                              written.message(), removed.isOk() ? "" : "; " + removed.message()));
  }
  const Status tidied = first && isGood ? removeOthers(folder, name, state, options) : Status::ok();
  ZTC_RETURN_IF_ERROR(agree(context.control, "older checkpoints", tidied));
  return path;
}

/// A file that the manifest does not name would be read without a checksum.
static Status checkListed(const Manifest &manifest, const std::string &path) {
  std::set<std::string> listed;
  for (const ManifestFile &file : manifest.files)
    listed.insert(file.name);
  const bool isAdapter = listed.count(kAdapterConfigName) > 0;
  for (const char *needed : {"trainer.json", isAdapter ? "adapter_model.safetensors" : "model.safetensors.index.json"})
    if (!listed.count(needed))
      return dataLoss(fmt::format("the manifest of '{}' does not name {}", path, needed));
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> names, listFolder(path));
  for (const std::string &name : names)
    if ((name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) && !listed.count(name))
      return dataLoss(fmt::format("'{}' holds {}, which its manifest does not name", path, name));
  return Status::ok();
}

/// The text of a checkpoint's manifest where everything but the checksums is right.
static StatusOr<std::string> examine(const std::string &path) {
  StatusOr<std::string> text = readWholeFile(path + "/manifest.json");
  if (!text.isOk())
    return text.status().code() == StatusCode::NotFound ? dataLoss(fmt::format("'{}' has no manifest.json", path))
                                                        : text.status();
  ZTC_ASSIGN_OR_RETURN(const Manifest manifest, parseManifest(*text, path + "/manifest.json"));
  ZTC_RETURN_IF_ERROR(verifySizes(manifest, path));
  ZTC_RETURN_IF_ERROR(checkListed(manifest, path));
  ZTC_ASSIGN_OR_RETURN(const std::string trainer, readWholeFile(path + "/trainer.json"));
  ZTC_ASSIGN_OR_RETURN(const TrainerState state, parseTrainerState(trainer, path + "/trainer.json"));
  const std::optional<uint64_t> named = checkpointStep(std::filesystem::path(path).filename().string());
  if (named && *named != state.step)
    return dataLoss(fmt::format("'{}' holds the state after {} steps", path, state.step));
  return text;
}

static std::string hashText(std::string_view text) {
  return Sha256::hex(Sha256::of(text.data(), text.size()));
}

/// One candidate, by all ranks: its status on every rank alike. `visible` turns to an error where a rank does not see
/// what rank 0 sees: no older checkpoint will help then.
static StatusOr<FoundCheckpoint> examineTogether(const std::string &path, std::span<std::byte> staging,
                                                 ControlChannel *control, Status &visible) {
  StatusOr<std::string> text = examine(path);
  StatusOr<std::string> digest = text.status();
  if (text.isOk())
    digest = hashText(*text);
  const StatusOr<std::string> wanted = fromFirstRank(control, "manifest", digest);
  ZTC_RETURN_IF_ERROR(wanted.status());
  visible = agree(control, "manifest seen",
                  digest.isOk() && *digest == *wanted
                      ? Status::ok()
                      : failedPrecondition(fmt::format(
                            "the checkpoint '{}' is not the one that rank 0 sees; all ranks need the same folder{}",
                            path, digest.isOk() ? "" : ": " + digest.status().message())));
  ZTC_RETURN_IF_ERROR(visible);
  ZTC_ASSIGN_OR_RETURN(const Manifest manifest, parseManifest(*text, path + "/manifest.json"));
  std::vector<std::string> names;
  for (const ManifestFile &file : manifest.files)
    names.push_back(file.name);
  ZTC_ASSIGN_OR_RETURN(const Manifest found, describeTogether(control, path, names, staging));
  ZTC_RETURN_IF_ERROR(compareChecksums(manifest, found, path));
  ZTC_ASSIGN_OR_RETURN(const std::string json,
                       fromFirstRank(control, "trainer state", readWholeFile(path + "/trainer.json")));
  ZTC_ASSIGN_OR_RETURN(TrainerState state, parseTrainerState(json, path + "/trainer.json"));
  return FoundCheckpoint{path, std::move(state), {}};
}

/// Which of two runs goes on is not for the higher number of steps to decide.
static Status checkOneRun(const std::string &folder) {
  ZTC_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, readCheckpointEntries(folder));
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i].run != entries[0].run)
      return failedPrecondition(fmt::format("cannot resume: '{0}' has checkpoints of several runs, {1} is of another "
                                            "one than {2}: name the one to go on from, as in --resume {0}/{2}",
                                            folder, entries[0].name, entries[i].name));
  return Status::ok();
}

/// Names of the checkpoints, newest first, one a line.
static StatusOr<std::string> candidates(const std::string &folder) {
  constexpr size_t kTried = 1000; // more broken ones than this are not looked at
  ZTC_RETURN_IF_ERROR(checkOneRun(folder));
  ZTC_ASSIGN_OR_RETURN(std::vector<std::string> names, listCheckpoints(folder));
  std::reverse(names.begin(), names.end());
  names.resize(std::min(names.size(), kTried));
  return fmt::format("{}", fmt::join(names, "\n"));
}

/// The newest whole one of `lines`, the names of the checkpoints of `folder`.
static StatusOr<FoundCheckpoint> findAmong(const std::string &folder, const std::string &lines,
                                           std::span<std::byte> staging, ControlChannel *control) {
  Status visible;
  std::vector<std::string> skipped;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string name = lines.substr(at, end - at);
    at = end + 1;
    StatusOr<FoundCheckpoint> found = examineTogether(folder + "/" + name, staging, control, visible);
    if (found.isOk()) {
      found->skipped = std::move(skipped);
      return found;
    }
    ZTC_RETURN_IF_ERROR(visible);
    if (control)
      ZTC_RETURN_IF_ERROR(control->status());
    skipped.push_back(fmt::format("{} is not whole and is skipped: {}", name, found.status().message()));
  }
  return notFound(fmt::format("cannot resume: '{}' has no {}checkpoint (step-*){}{}", folder,
                              lines.empty() ? "" : "whole ", skipped.empty() ? "" : "; ", fmt::join(skipped, "; ")));
}

StatusOr<FoundCheckpoint> findCheckpoint(const std::string &folder, std::span<std::byte> staging,
                                         ControlChannel *control) {
  if (staging.empty())
    return internalError("a staging buffer of 0 bytes");
  std::filesystem::path given(folder);
  if (given.filename().empty()) // a slash at the end
    given = given.parent_path();
  const bool isOne = checkpointStep(given.filename().string()).has_value();
  const auto list = [&]() -> StatusOr<std::string> {
    StatusOr<std::string> mine = std::string();
    if (isFirstRank(control)) {
      if (!isFolder(folder))
        mine = notFound(fmt::format("cannot resume: there is no folder '{}'", folder));
      else if (!isOne)
        mine = candidates(folder);
    }
    return fromFirstRank(control, "checkpoints", mine);
  };
  ZTC_ASSIGN_OR_RETURN(std::string lines, list());
  Status visible;
  if (isOne)
    return examineTogether(given.string(), staging, control, visible);
  constexpr int kLooks = 20;
  for (int look = 1;; ++look) {
    StatusOr<FoundCheckpoint> found = findAmong(folder, lines, staging, control);
    if (found.isOk() || look == kLooks || (control && !control->status().isOk()))
      return found;
    // Another run may write new ones there and remove those that were just listed.
    ZTC_ASSIGN_OR_RETURN(const std::string now, list());
    if (now == lines)
      return found;
    lines = now;
  }
}

/// The codes and scales of a state that a file holds in blocks; nothing where they do not fit one another.
static std::optional<StoredBlocks> storedBlocks(const SafetensorsCollection::Found &found, std::vector<float> &map) {
  const SafetensorsTensor &codes = *found.tensor;
  const SafetensorsTensor *scales = found.file->find(codes.name + kScalesSuffix), *points = found.file->find(kMapName);
  const uint64_t blocks = (codes.bytes + kStateBlock - 1) / kStateBlock;
  if (codes.typeName != "U8" || !scales || scales->type != plan::F32 || scales->bytes != blocks * sizeof(float) ||
      !points || points->type != plan::F32 || points->bytes != 256 * sizeof(float))
    return std::nullopt;
  map.resize(256);
  std::memcpy(map.data(), found.file->data(*points).data(), points->bytes);
  return StoredBlocks{found.file->data(codes), found.file->data(*scales), map};
}

static Status loadOwn(const StateContext &context, const std::string &path) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  for (const SavedKind &kind : savedKinds(context.plan)) {
    ZTC_ASSIGN_OR_RETURN(const SafetensorsCollection files, SafetensorsCollection::open(path, kind.stem));
    for (const plan::Parameter &parameter : context.plan.parameters()) {
      if (!isSaved(context.plan, parameter, kind.kind))
        continue;
      const std::optional<SafetensorsCollection::Found> found = files.find(parameter);
      if (!found)
        return failedPrecondition(fmt::format("the checkpoint '{}' has no {} of '{}', which the plan trains", path,
                                              kind.stem, parameter.name()));
      const SafetensorsTensor &tensor = *found->tensor;
      std::vector<float> map;
      const std::optional<StoredBlocks> blocks =
          kind.kind.what == StateKind::Optimizer ? storedBlocks(*found, map) : std::nullopt;
      if (!std::equal(tensor.shape.begin(), tensor.shape.end(), parameter.shape().begin(), parameter.shape().end()) ||
          (!isLoadable(tensor.type) && !blocks))
        return failedPrecondition(fmt::format("the checkpoint '{}' has {} of '{}' as {} [{}], the plan needs [{}]",
                                              path, kind.stem, parameter.name(), tensor.typeName,
                                              fmt::join(tensor.shape, ", "), fmt::join(parameter.shape(), ", ")));
      if (blocks) {
        const auto decode = [&](uint64_t begin, uint64_t count, float *out) {
          readBlocks(*blocks, begin, count, out);
          return Status::ok();
        };
        ZTC_RETURN_IF_ERROR(holdsBlocks(context.plan, parameter, kind.kind, map)
                                ? fillBlocks(context, parameter, kind.kind, *blocks)
                                : fillParameter(context, parameter, kind.kind, decode));
        continue;
      }
      const StoredTensor stored{found->file->data(tensor), tensor.type, false, 0, 0};
      ZTC_RETURN_IF_ERROR(fillParameter(context, parameter, kind.kind, [&](uint64_t begin, uint64_t count, float *out) {
        readElements(stored, begin, count, out);
        forgetElements(stored, begin, count);
        return Status::ok();
      }));
    }
  }
  return Status::ok();
}

Status loadCheckpoint(const StateContext &context, const std::string &path) {
  return agree(context.control, "checkpoint loaded", loadOwn(context, path));
}

} // namespace ztc
