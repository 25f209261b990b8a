// Work on files that several ranks share: is the folder the same one, checksums of all files, each piece by one rank.
#pragma once
#include "runtime/Checkpoint/StateMemory.h"
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/Manifest.h"
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// Ok where all ranks see in `folder` a file that rank 0 makes and removes there; else FailedPrecondition naming the
/// first rank that does not. `folder` exists at rank 0. Collective.
Status checkSharedFolder(ControlChannel *control, const std::string &folder);

/// Sizes and checksums of `names` in `folder`; piece k of all is read by rank k modulo the number of ranks, through
/// `staging`. The same on all ranks. Collective.
StatusOr<Manifest> describeTogether(ControlChannel *control, const std::string &folder,
                                    const std::vector<std::string> &names, std::span<std::byte> staging);

/// One file of a set and where it goes.
struct FileToWrite {
  const PlannedFile *planned;
  StateKind kind;
  std::string path;
};

/// Every rank writes what it owns of all files, which are there with their headers, and syncs them; returns when all
/// have. `hasRead`, where set, is called when nothing is read any more. Collective.
Status writeTogether(const StateContext &context, const std::vector<FileToWrite> &files, float factor,
                     const std::function<void()> &hasRead = nullptr);

} // namespace ztc
