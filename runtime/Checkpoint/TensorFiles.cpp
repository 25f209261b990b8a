#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/RunParts.h"
#include "runtime/Format/BlockState.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

namespace ztc {

uint32_t slotOf(const plan::Bucket &bucket, const StateKind &kind) {
  switch (kind.what) {
  case StateKind::Model:
    return bucket.parameter_slot();
  case StateKind::Gradient:
    return bucket.gradient_slot();
  case StateKind::Optimizer:
    for (const plan::Bucket::State &state : bucket.states())
      if (state.name() == kind.name)
        return state.slot();
    return kAbsent;
  }
  return kAbsent;
}

std::vector<SavedKind> savedKinds(const plan::Plan &plan) {
  std::vector<SavedKind> kinds{{StateKind::Model, trainsAdapter(plan) ? kAdapterStem : "model"}};
  // Buckets that follow one rule have the same states.
  for (const plan::Bucket &bucket : plan.buckets())
    for (const plan::Bucket::State &state : bucket.states())
      if (bucket.trainable() &&
          std::ranges::none_of(kinds, [&](const SavedKind &kind) { return kind.stem == state.name(); }))
        kinds.push_back({{StateKind::Optimizer, state.name()}, state.name()});
  return kinds;
}

uint64_t FileSet::fileBytes() const {
  uint64_t bytes = 0;
  for (const PlannedFile &file : files)
    bytes += file.bytes;
  return bytes;
}

plan::DataType wideType(const plan::Parameter &) {
  return plan::F32;
}

TypeOfTensor savedType(const plan::Plan &plan, const StateKind &kind) {
  return [&plan, kind](const plan::Parameter &parameter) {
    const uint32_t slot = slotOf(plan.buckets(static_cast<int>(parameter.bucket())), kind);
    const bool isKnown = kind.what == StateKind::Optimizer && slot < static_cast<uint32_t>(plan.slots_size());
    const plan::DataType type = isKnown ? plan.slots(static_cast<int>(slot)).type() : plan::F32;
    return isBlockState(type) ? type : plan::F32;
  };
}

static uint64_t blocksOf(uint64_t elements) {
  return (elements + kStateBlock - 1) / kStateBlock;
}

/// What `elements` of this type take in a file.
static uint64_t fileBytesOf(plan::DataType type, uint64_t elements) {
  return isBlockState(type) ? elements + blocksOf(elements) * sizeof(float) : elements * dataTypeBytes(type);
}

static PlannedFile layOut(const std::vector<const plan::Parameter *> &parameters, const TypeOfTensor &typeOf) {
  std::vector<SafetensorsSpec> specs;
  bool hasBlocks = false;
  for (const plan::Parameter *parameter : parameters) {
    const plan::DataType type = typeOf(*parameter);
    const std::vector<int64_t> shape{parameter->shape().begin(), parameter->shape().end()};
    if (!isBlockState(type)) {
      specs.push_back({parameter->name(), type, shape});
      continue;
    }
    hasBlocks = true;
    const uint64_t elements = elementCount(shape).value_or(0), blocks = blocksOf(elements);
    specs.push_back({parameter->name(), plan::DATA_TYPE_UNSPECIFIED, shape, "U8", elements});
    specs.push_back({parameter->name() + kScalesSuffix, plan::F32, {int64_t(blocks)}});
  }
  if (hasBlocks)
    specs.push_back({kMapName, plan::F32, {256}});
  SafetensorsLayout layout = layoutSafetensors(specs);
  PlannedFile file;
  file.header = std::move(layout.header);
  file.bytes = layout.fileBytes;
  size_t spec = 0;
  for (const plan::Parameter *parameter : parameters) {
    const plan::DataType type = typeOf(*parameter);
    PlannedTensor &tensor = file.tensors.emplace_back(
        PlannedTensor{parameter, elementCount(parameter->shape()).value_or(0), layout.offsets[spec++], type});
    if (isBlockState(type))
      tensor.scalesOffset = layout.offsets[spec++];
  }
  if (hasBlocks)
    file.mapOffset = layout.offsets[spec];
  return file;
}

bool isSaved(const plan::Plan &plan, const plan::Parameter &parameter, const StateKind &kind) {
  if (kind == StateKind::Model)
    return isOfAdapter(plan, parameter) == trainsAdapter(plan);
  if (!parameter.trainable())
    return false;
  return kind.what != StateKind::Optimizer ||
         slotOf(plan.buckets(static_cast<int>(parameter.bucket())), kind) != kAbsent;
}

FileSet planFiles(const plan::Plan &plan, const StateKind &kind, const std::string &stem, const TypeOfTensor &typeOf,
                  uint64_t largestFileBytes, bool plainName) {
  std::vector<const plan::Parameter *> sorted;
  // The frozen model beside an adapter stays where it is.
  for (const plan::Parameter &parameter : plan.parameters())
    if (isSaved(plan, parameter, kind))
      sorted.push_back(&parameter);
  std::sort(sorted.begin(), sorted.end(), [](const auto *a, const auto *b) { return a->name() < b->name(); });

  std::vector<std::vector<const plan::Parameter *>> groups(1);
  FileSet set;
  uint64_t inGroup = 0;
  for (const plan::Parameter *parameter : sorted) {
    const uint64_t bytes = fileBytesOf(typeOf(*parameter), elementCount(parameter->shape()).value_or(0));
    if (!groups.back().empty() && inGroup + bytes > largestFileBytes) {
      groups.emplace_back();
      inGroup = 0;
    }
    groups.back().push_back(parameter);
    inGroup += bytes;
    set.tensorBytes += bytes;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    PlannedFile file = layOut(groups[i], typeOf);
    file.name = plainName && groups.size() == 1
                    ? stem + ".safetensors"
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, groups.size());
    set.files.push_back(std::move(file));
  }
  return set;
}

std::string printIndex(const FileSet &set, std::span<const CopiedFile> others) {
  nlohmann::ordered_json json;
  uint64_t bytes = set.tensorBytes;
  for (const CopiedFile &file : others)
    bytes += file.tensorBytes;
  json["metadata"] = {{"total_size", bytes}};
  json["weight_map"] = nlohmann::ordered_json::object();
  for (const PlannedFile &file : set.files)
    for (const PlannedTensor &tensor : file.tensors)
      json["weight_map"][tensor.parameter->name()] = file.name;
  for (const CopiedFile &file : others)
    for (const CopiedTensor &tensor : file.tensors)
      json["weight_map"][tensor.spec.name] = file.name;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

static void scale(float *values, uint64_t count, float factor) {
  for (uint64_t i = 0; i < count; ++i)
    values[i] *= factor;
}

static Status checkStaging(const StateContext &context) {
  if (context.staging.size() < kMinimumStagingBytes)
    return internalError(fmt::format("a staging buffer of {} bytes, at least {} are needed", context.staging.size(),
                                     kMinimumStagingBytes));
  return Status::ok();
}

static const plan::Bucket &bucketOf(const plan::Plan &plan, const plan::Parameter &parameter) {
  return plan.buckets(static_cast<int>(parameter.bucket()));
}

ElementRange ownedRange(const plan::Bucket &bucket, uint32_t rank, uint32_t world) {
  plan::SizeForm form;
  form.set_kind(plan::SizeForm::SHARD);
  form.set_elements(bucket.elements());
  form.set_element_bytes(1);
  form.set_quantum(bucket.quantum());
  const uint64_t shard = sizeFormBytes(form, world, false, 1).value_or(0);
  return {std::min(rank * shard, bucket.elements()), std::min((rank + 1) * shard, bucket.elements())};
}

ElementRange heldRange(const plan::Plan &plan, const plan::Bucket &bucket, uint32_t slot, uint32_t rank,
                       uint32_t world) {
  const bool isShard = slot < static_cast<uint32_t>(plan.slots_size()) &&
                       plan.slots(static_cast<int>(slot)).size().kind() == plan::SizeForm::SHARD;
  return isShard ? ownedRange(bucket, rank, world) : ElementRange{0, bucket.elements()};
}

namespace {

/// Elements [begin, end) of a parameter.
struct Part {
  uint64_t begin, end;
};

} // namespace

/// The part of a parameter that lies in `wanted` (elements of its bucket).
static Part partOf(const plan::Parameter &parameter, const ElementRange &wanted) {
  const uint64_t first = parameter.offset(), last = first + elementCount(parameter.shape()).value_or(0);
  const uint64_t begin = std::clamp(wanted.begin, first, last), end = std::clamp(wanted.end, begin, last);
  return {begin - first, end - first};
}

static plan::DataType slotType(const plan::Plan &plan, uint32_t slot) {
  const plan::DataType type =
      slot < static_cast<uint32_t>(plan.slots_size()) ? plan.slots(static_cast<int>(slot)).type() : plan::F32;
  return type == plan::DATA_TYPE_UNSPECIFIED ? plan::F32 : type;
}

namespace {

/// One kind of state of one parameter, in memory of this rank, as f32.
class ParameterState {
public:
  ParameterState(const StateContext &context, const plan::Parameter &parameter, const StateKind &kind)
      : context_(context), parameter_(parameter), bucket_(bucketOf(context.plan, parameter)),
        slot_(slotOf(bucket_, kind)), type_(slotType(context.plan, slot_)),
        master_(kind == StateKind::Model && narrowDataType(type_) ? bucket_.master_slot() : kAbsent) {}

  plan::DataType type() const { return type_; }
  Part owned() const { return partOf(parameter_, ownedRange(bucket_, context_.rank(), context_.world())); }
  Part held() const { return partOf(parameter_, heldBy(slot_)); }

  /// Elements that fit the staging buffer: as f32, and after all of them their two halves of a master.
  uint64_t piece() const { return context_.staging.size() / 8 / kStateBlock * kStateBlock; }

  /// The records of the blocks of elements [begin, begin + count), from or to `records`. `begin` is that of a block.
  Status readRecords(uint64_t begin, uint64_t count, std::byte *records) const {
    return context_.memory.read(slot_, recordPlace(begin), records, blocksOf(count) * kStateBlockBytes);
  }
  Status writeRecords(uint64_t begin, uint64_t count, const std::byte *records) const {
    return context_.memory.write(slot_, recordPlace(begin), records, blocksOf(count) * kStateBlockBytes);
  }

  /// Elements [begin, begin + count) to the beginning of the staging buffer.
  Status read(uint64_t begin, uint64_t count) const {
    const std::optional<NarrowType> narrowType = narrowDataType(type_);
    if (!narrowType)
      return readSlot(slot_, begin, count, 4, values());
    if (master_ != kAbsent && slotType(context_.plan, master_) == plan::F32)
      return readSlot(master_, begin, count, 4, values());
    ZTC_RETURN_IF_ERROR(readSlot(slot_, begin, count, 2, halves()));
    if (master_ == kAbsent) {
      widen(values(), halves(), count, *narrowType);
      return Status::ok();
    }
    uint16_t *remainders = halves() + count;
    ZTC_RETURN_IF_ERROR(readSlot(master_, begin, count, 2, remainders));
    for (uint64_t i = 0; i < count; ++i)
      values()[i] = joinMaster(halves()[i], static_cast<int16_t>(remainders[i]));
    return Status::ok();
  }
  /// The same without its master, two bytes each.
  Status readNarrow(uint64_t begin, uint64_t count) const { return readSlot(slot_, begin, count, 2, values()); }

  /// The beginning of the staging buffer to elements [begin, begin + count), which the slot holds; of the master what
  /// this rank holds of it.
  Status write(uint64_t begin, uint64_t count, uint32_t threads) const {
    if (isBlockState(type_))
      return writeBlocks(begin, count);
    const std::optional<NarrowType> narrowType = narrowDataType(type_);
    if (!narrowType)
      return writeSlot(slot_, begin, count, 4, values());
    const bool isSplit = master_ != kAbsent && slotType(context_.plan, master_) != plan::F32;
    uint16_t *remainders = halves() + count;
    runStretches(count, kLeastOfAThread, threads, [&](uint64_t from, uint64_t to) {
      if (!isSplit)
        return narrow(halves() + from, values() + from, to - from, *narrowType);
      for (uint64_t i = from; i < to; ++i) {
        const SplitMaster split = splitMaster(values()[i]);
        halves()[i] = split.parameter;
        remainders[i] = static_cast<uint16_t>(split.remainder);
      }
    });
    ZTC_RETURN_IF_ERROR(writeSlot(slot_, begin, count, 2, halves()));
    if (master_ == kAbsent)
      return Status::ok();
    const Part own = partOf(parameter_, heldBy(master_));
    const uint64_t first = std::max(begin, own.begin), last = std::min(begin + count, own.end);
    if (first >= last)
      return Status::ok();
    return isSplit ? writeSlot(master_, first, last - first, 2, remainders + (first - begin))
                   : writeSlot(master_, first, last - first, 4, values() + (first - begin));
  }

  float *values() const { return reinterpret_cast<float *>(context_.staging.data()); }

private:
  /// Numbers that are rounded faster than a thread is started.
  static constexpr uint64_t kLeastOfAThread = uint64_t(1) << 16;

  /// Numbers as codes; of the last block what lies past the tensor's end counts as zero.
  Status writeBlocks(uint64_t begin, uint64_t count) const {
    auto *records = reinterpret_cast<std::byte *>(halves());
    for (uint64_t at = 0; at < count; at += kStateBlock)
      encodeStateBlock({values() + at, std::min(kStateBlock, count - at)}, type_ == plan::BLOCK8,
                       records + at / kStateBlock * kStateBlockBytes);
    return writeRecords(begin, count, records);
  }
  uint64_t recordPlace(uint64_t begin) const { return placeIn(slot_, begin) / kStateBlock * kStateBlockBytes; }

  /// After the values of a whole piece.
  uint16_t *halves() const { return reinterpret_cast<uint16_t *>(context_.staging.data() + piece() * 4); }
  ElementRange heldBy(uint32_t slot) const {
    return heldRange(context_.plan, bucket_, slot, context_.rank(), context_.world());
  }
  uint64_t placeIn(uint32_t slot, uint64_t begin) const { return parameter_.offset() + begin - heldBy(slot).begin; }
  Status readSlot(uint32_t slot, uint64_t begin, uint64_t count, uint64_t bytes, void *to) const {
    return context_.memory.read(slot, placeIn(slot, begin) * bytes, to, count * bytes);
  }
  Status writeSlot(uint32_t slot, uint64_t begin, uint64_t count, uint64_t bytes, const void *from) const {
    return context_.memory.write(slot, placeIn(slot, begin) * bytes, from, count * bytes);
  }

  const StateContext &context_;
  const plan::Parameter &parameter_;
  const plan::Bucket &bucket_;
  uint32_t slot_;
  plan::DataType type_;
  uint32_t master_; ///< slot of the masters, where slot_ is narrow and there are any
};

} // namespace

Status createTensorFile(const PlannedFile &planned, const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::Create));
  ZTC_RETURN_IF_ERROR(file.reserve(planned.bytes));
  for (const PlannedTensor &tensor : planned.tensors)
    if (isBlockState(tensor.type)) {
      const DynamicMap &map = stateMap(tensor.type == plan::BLOCK8);
      ZTC_RETURN_IF_ERROR(file.writeAt(planned.mapOffset, map.values.data(), sizeof map.values));
      break;
    }
  return file.writeAt(0, planned.header.data(), planned.header.size());
}

/// Codes and scales go apart as they are.
static Status writeBlocks(const StateContext &context, const ParameterState &state, const PlannedTensor &tensor,
                          const File &file) {
  const Part part = state.owned();
  const uint64_t blocks = context.staging.size() / (2 * kStateBlockBytes);
  std::byte *records = context.staging.data(), *codes = records + blocks * kStateBlockBytes;
  std::vector<float> scales(blocks);
  for (uint64_t begin = part.begin; begin < part.end; begin += blocks * kStateBlock) {
    const uint64_t count = std::min(blocks * kStateBlock, part.end - begin);
    ZTC_RETURN_IF_ERROR(state.readRecords(begin, count, records));
    for (uint64_t block = 0; block < blocksOf(count); ++block) {
      const std::byte *record = records + block * kStateBlockBytes;
      std::memcpy(codes + block * kStateBlock, record, kStateBlock);
      std::memcpy(&scales[block], record + kStateBlock, sizeof(float));
    }
    ZTC_RETURN_IF_ERROR(file.writeAt(tensor.fileOffset + begin, codes, count));
    ZTC_RETURN_IF_ERROR(file.writeAt(tensor.scalesOffset + begin / kStateBlock * sizeof(float), scales.data(),
                                     blocksOf(count) * sizeof(float)));
    context.addProgress(fileBytesOf(tensor.type, count));
  }
  return Status::ok();
}

StatusOr<File> writeTensors(const StateContext &context, const PlannedFile &planned, const StateKind &kind,
                            float factor, const std::string &path) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  ZTC_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::ReadWrite));
  for (const PlannedTensor &tensor : planned.tensors) {
    const plan::DataType type = tensor.type;
    const uint64_t elementBytes = dataTypeBytes(type);
    const ParameterState state(context, *tensor.parameter, kind);
    if (isBlockState(type)) {
      ZTC_RETURN_IF_ERROR(writeBlocks(context, state, tensor, file));
      continue;
    }
    const bool asItIs = kind == StateKind::Model && factor == 1.0f && type != plan::F32 && type == state.type();
    const Part part = state.owned();
    for (uint64_t begin = part.begin; begin < part.end; begin += state.piece()) {
      const uint64_t count = std::min(state.piece(), part.end - begin);
      if (asItIs) {
        ZTC_RETURN_IF_ERROR(state.readNarrow(begin, count));
      } else {
        ZTC_RETURN_IF_ERROR(state.read(begin, count));
        if (factor != 1.0f)
          scale(state.values(), count, factor);
        if (const std::optional<NarrowType> narrowType = narrowDataType(type))
          narrow(reinterpret_cast<uint16_t *>(state.values()), state.values(), count, *narrowType);
      }
      ZTC_RETURN_IF_ERROR(
          file.writeAt(tensor.fileOffset + begin * elementBytes, context.staging.data(), count * elementBytes));
      context.addProgress(count * elementBytes);
    }
  }
  return StatusOr<File>(std::move(file));
}

void readBlocks(const StoredBlocks &blocks, uint64_t begin, uint64_t count, float *out) {
  for (uint64_t i = 0; i < count; ++i) {
    float scale = 0.0f;
    std::memcpy(&scale, blocks.scales.data() + (begin + i) / kStateBlock * sizeof scale, sizeof scale);
    out[i] = blocks.map[static_cast<uint8_t>(blocks.codes[begin + i])] * scale;
  }
}

bool holdsBlocks(const plan::Plan &plan, const plan::Parameter &parameter, const StateKind &kind,
                 std::span<const float> map) {
  const plan::DataType type = slotType(plan, slotOf(bucketOf(plan, parameter), kind));
  return isBlockState(type) && std::ranges::equal(map, stateMap(type == plan::BLOCK8).values);
}

Status fillBlocks(const StateContext &context, const plan::Parameter &parameter, const StateKind &kind,
                  const StoredBlocks &blocks) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  const ParameterState state(context, parameter, kind);
  const Part part = state.held();
  const uint64_t most = context.staging.size() / kStateBlockBytes;
  std::byte *records = context.staging.data();
  for (uint64_t begin = part.begin; begin < part.end; begin += most * kStateBlock) {
    const uint64_t count = std::min(most * kStateBlock, part.end - begin);
    for (uint64_t block = 0; block < blocksOf(count); ++block) {
      const uint64_t first = block * kStateBlock, present = std::min(kStateBlock, count - first);
      std::byte *record = records + block * kStateBlockBytes;
      // Past the tensor's end are zeros, as the update leaves them there.
      const uint8_t zero = stateMap(state.type() == plan::BLOCK8).code(0.0f);
      std::memset(record, zero, kStateBlock);
      std::memcpy(record, blocks.codes.data() + begin + first, present);
      std::memcpy(record + kStateBlock, blocks.scales.data() + (begin + first) / kStateBlock * sizeof(float),
                  sizeof(float));
    }
    ZTC_RETURN_IF_ERROR(state.writeRecords(begin, count, records));
    context.addProgress(count);
  }
  return Status::ok();
}

Status fillBytes(const StateContext &context, const plan::Parameter &parameter, std::span<const std::byte> bytes) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  const plan::Bucket &bucket = bucketOf(context.plan, parameter);
  const ElementRange held = heldRange(context.plan, bucket, bucket.parameter_slot(), context.rank(), context.world());
  const Part part = partOf(parameter, held);
  const uint64_t piece = context.staging.size();
  for (uint64_t begin = part.begin; begin < part.end; begin += piece) {
    const uint64_t count = std::min(piece, part.end - begin);
    ZTC_RETURN_IF_ERROR(context.memory.write(bucket.parameter_slot(), parameter.offset() + begin - held.begin,
                                             bytes.data() + begin, count));
    context.addProgress(count);
  }
  return Status::ok();
}

/// Scales are of whole blocks, their mean of the whole matrix: each rank that holds a part of it makes all of it.
static Status fillQuantized(const StateContext &context, const plan::Parameter &parameter,
                            const std::function<Status(uint64_t, uint64_t, float *)> &fill, uint32_t threads) {
  const plan::Bucket &bucket = bucketOf(context.plan, parameter);
  const Part part =
      partOf(parameter, heldRange(context.plan, bucket, bucket.parameter_slot(), context.rank(), context.world()));
  if (part.begin == part.end)
    return Status::ok();
  const std::optional<QuantizedLayout> layout = quantizedLayout(parameter);
  if (!layout)
    return internalError(fmt::format("'{}' has no layout", parameter.name()));
  std::mutex guard;
  std::map<uint64_t, Status> failures; // the first one is said, whichever thread finds its own first
  const ElementReader read = [&](uint64_t begin, uint64_t count, float *out) {
    Status status = fill(begin, count, out);
    if (status.isOk())
      return;
    const std::lock_guard lock(guard);
    failures.emplace(begin, std::move(status));
  };
  const std::vector<std::byte> bytes = quantize(*layout, quantizedReader(parameter, read), threads);
  return failures.empty() ? fillBytes(context, parameter, bytes) : failures.begin()->second;
}

Status fillParameter(const StateContext &context, const plan::Parameter &parameter, const StateKind &kind,
                     const std::function<Status(uint64_t, uint64_t, float *)> &fill, uint32_t threads) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  if (parameter.format() != plan::PLAIN)
    return fillQuantized(context, parameter, fill, threads);
  const ParameterState state(context, parameter, kind);
  const Part part = state.held();
  for (uint64_t begin = part.begin; begin < part.end; begin += state.piece()) {
    const uint64_t count = std::min(state.piece(), part.end - begin);
    ZTC_RETURN_IF_ERROR(fill(begin, count, state.values()));
    ZTC_RETURN_IF_ERROR(state.write(begin, count, threads));
    context.addProgress(count * 4);
  }
  return Status::ok();
}

Status checkStateTypes(const plan::Plan &plan) {
  const auto isKnown = [&](uint32_t slot) {
    return slot == kAbsent || slotType(plan, slot) == plan::F32 || narrowDataType(slotType(plan, slot)).has_value();
  };
  std::vector<StateKind> kinds{StateKind::Gradient};
  for (const SavedKind &saved : savedKinds(plan))
    kinds.push_back(saved.kind);
  for (const plan::Parameter &parameter : plan.parameters()) {
    const plan::Bucket &bucket = bucketOf(plan, parameter);
    for (const StateKind &kind : kinds)
      if (const uint32_t slot = slotOf(bucket, kind);
          !isKnown(slot) && !(kind.what == StateKind::Optimizer && isBlockState(slotType(plan, slot))) &&
          parameter.format() == plan::PLAIN)
        return failedPrecondition(fmt::format("'{}' lies in memory as {}: it can be neither saved nor loaded",
                                              parameter.name(), dataTypeName(slotType(plan, slot))));
    const plan::DataType type = slotType(plan, bucket.parameter_slot());
    if (!narrowDataType(type) || bucket.master_slot() == kAbsent)
      continue;
    if (const plan::DataType master = slotType(plan, bucket.master_slot());
        master != plan::F32 && !(type == plan::BF16 && master == plan::I16))
      return failedPrecondition(
          fmt::format("the master of '{}' lies in memory as {} beside {}: it can be neither saved "
                      "nor loaded",
                      parameter.name(), dataTypeName(master), dataTypeName(type)));
  }
  return Status::ok();
}

} // namespace ztc
