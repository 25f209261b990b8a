// The parameters of a plan as safetensors files: which tensor lies where, and moving ranges between slots and files.
#pragma once
#include "runtime/Checkpoint/OtherTensors.h"
#include "runtime/Checkpoint/StateMemory.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// What of a parameter a file holds: its value, its gradient, or a state of the optimizer, by its name in the plan.
struct StateKind {
  enum What { Model, Gradient, Optimizer };
  StateKind(What what, std::string name = {}) : what(what), name(std::move(name)) {}
  bool operator==(const StateKind &) const = default;

  What what;
  std::string name; ///< of Optimizer
};

/// What a checkpoint of this plan holds, each in files whose names begin with `stem`: model first, then the states.
struct SavedKind {
  StateKind kind;
  std::string stem;
};
std::vector<SavedKind> savedKinds(const plan::Plan &plan);

/// Whether a checkpoint holds this kind of the parameter: optimizers keep other states of some than of others.
bool isSaved(const plan::Plan &plan, const plan::Parameter &parameter, const StateKind &kind);

/// The slot of a bucket that holds this kind; kAbsent: it has none.
uint32_t slotOf(const plan::Bucket &bucket, const StateKind &kind);

/// One tensor of a planned file.
struct PlannedTensor {
  const plan::Parameter *parameter;
  uint64_t elements;
  uint64_t fileOffset;
  plan::DataType type;       ///< in the file; of a state in blocks that of its slot, codes are U8
  uint64_t scalesOffset = 0; ///< of a state in blocks: where "NAME.absmax" begins, an f32 for each 256 elements
};

/// The type that a parameter has in a file.
using TypeOfTensor = std::function<plan::DataType(const plan::Parameter &)>;

/// One file before it is written.
struct PlannedFile {
  std::string name;
  std::string header;
  uint64_t bytes = 0;
  std::vector<PlannedTensor> tensors;
  uint64_t mapOffset = 0; ///< of states in blocks: where "quant_map" begins, what the 256 codes stand for
};

/// What a file of states in blocks has beside the codes of NAME.
inline constexpr const char *kScalesSuffix = ".absmax", *kMapName = "quant_map";

/// Files of one kind. They depend on the parameters' names and shapes alone, not on buckets or ranks: tensors in the
/// order of their names, a new file before one would exceed `largestFileBytes`. Kinds other than Model have the
/// trainable parameters only.
struct FileSet {
  std::vector<PlannedFile> files;
  uint64_t tensorBytes = 0; ///< without headers
  uint64_t fileBytes() const;
};

/// Names are "<stem>-00001-of-0000N.safetensors", or "<stem>.safetensors" where `plainName` and one file is enough.
FileSet planFiles(const plan::Plan &plan, const StateKind &kind, const std::string &stem, const TypeOfTensor &typeOf,
                  uint64_t largestFileBytes, bool plainName);

/// All in f32.
plan::DataType wideType(const plan::Parameter &);

/// What a checkpoint holds of this kind: f32, and states in blocks as they are.
TypeOfTensor savedType(const plan::Plan &plan, const StateKind &kind);

/// The text of <stem>.safetensors.index.json; `others` are further files of the same model.
std::string printIndex(const FileSet &set, std::span<const CopiedFile> others = {});

/// Makes one file of a set: its size and its header; the tensors are still to be written, and it is to be synced then.
/// One rank does it.
Status createTensorFile(const PlannedFile &planned, const std::string &path);

/// Writes what this rank owns of a file's tensors into the file at `path`, which is there: as f32 (masters, where there
/// are any), multiplied by `factor` and rounded to the planned type; parameters that lie in memory in it go as they
/// are. Returns the file, which is still to be synced. No agreement with other ranks.
StatusOr<File> writeTensors(const StateContext &context, const PlannedFile &planned, const StateKind &kind,
                            float factor, const std::string &path);

/// Fills what this rank's slots hold of a parameter, piece by piece: `fill(begin, count, out)` makes elements [begin,
/// begin + count) of the parameter as f32. A master is split into parameter and remainder; where there is none the
/// value is rounded to the slot's type. A parameter in fewer bits is made of the whole of the checkpoint's matrix, by
/// `threads` threads that call `fill` at a time. No agreement with other ranks.
Status fillParameter(const StateContext &context, const plan::Parameter &parameter, const StateKind &kind,
                     const std::function<Status(uint64_t begin, uint64_t count, float *out)> &fill,
                     uint32_t threads = 1);

/// A state in blocks as a file holds it: codes, and the f32 scales of the blocks.
struct StoredBlocks {
  std::span<const std::byte> codes, scales;
  std::span<const float> map; ///< 256 numbers
};

/// Elements [begin, begin + count) of such a state as f32.
void readBlocks(const StoredBlocks &blocks, uint64_t begin, uint64_t count, float *out);

/// Whether what the plan holds of this parameter and kind is in blocks with the same map: codes can be taken as they
/// are.
bool holdsBlocks(const plan::Plan &plan, const plan::Parameter &parameter, const StateKind &kind,
                 std::span<const float> map);

/// Fills what this rank's slots hold of a state in blocks, for which holdsBlocks is true, bit for bit.
Status fillBlocks(const StateContext &context, const plan::Parameter &parameter, const StateKind &kind,
                  const StoredBlocks &blocks);

/// The same of a parameter in fewer bits whose bytes are there, all of them.
Status fillBytes(const StateContext &context, const plan::Parameter &parameter, std::span<const std::byte> bytes);

/// Fails, naming the first, where a parameter or state lies in memory in a type that files cannot be made from: f32, or
/// bf16 and f16, parameters of which have masters as remainder (bf16, i16) or f32.
Status checkStateTypes(const plan::Plan &plan);

} // namespace ztc
