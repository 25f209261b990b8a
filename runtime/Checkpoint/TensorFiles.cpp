#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ztc {

uint32_t slotOf(const plan::Bucket &bucket, StateKind kind) {
  switch (kind) {
  case StateKind::Model:
    return bucket.parameter_slot();
  case StateKind::ExpAvg:
    return bucket.exp_avg_slot();
  case StateKind::ExpAvgSq:
    return bucket.exp_avg_sq_slot();
  case StateKind::Gradient:
    return bucket.gradient_slot();
  }
  return kAbsent;
}

uint64_t FileSet::fileBytes() const {
  uint64_t bytes = 0;
  for (const PlannedFile &file : files)
    bytes += file.bytes;
  return bytes;
}

static PlannedFile layOut(const std::vector<const plan::Parameter *> &parameters, plan::DataType type) {
  std::vector<SafetensorsSpec> specs;
  for (const plan::Parameter *parameter : parameters)
    specs.push_back({parameter->name(), type, {parameter->shape().begin(), parameter->shape().end()}});
  SafetensorsLayout layout = layoutSafetensors(specs);
  PlannedFile file;
  file.header = std::move(layout.header);
  file.bytes = layout.fileBytes;
  for (size_t i = 0; i < parameters.size(); ++i)
    file.tensors.push_back({parameters[i], elementCount(parameters[i]->shape()).value_or(0), layout.offsets[i]});
  return file;
}

FileSet planFiles(const plan::Plan &plan, StateKind kind, const std::string &stem, plan::DataType type,
                  uint64_t largestFileBytes, bool plainName) {
  std::vector<const plan::Parameter *> sorted;
  for (const plan::Parameter &parameter : plan.parameters())
    if (kind == StateKind::Model || parameter.trainable())
      sorted.push_back(&parameter);
  std::sort(sorted.begin(), sorted.end(), [](const auto *a, const auto *b) { return a->name() < b->name(); });

  std::vector<std::vector<const plan::Parameter *>> groups(1);
  FileSet set;
  uint64_t inGroup = 0;
  for (const plan::Parameter *parameter : sorted) {
    const uint64_t bytes = elementCount(parameter->shape()).value_or(0) * dataTypeBytes(type);
    if (!groups.back().empty() && inGroup + bytes > largestFileBytes) {
      groups.emplace_back();
      inGroup = 0;
    }
    groups.back().push_back(parameter);
    inGroup += bytes;
    set.tensorBytes += bytes;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    PlannedFile file = layOut(groups[i], type);
    file.name = plainName && groups.size() == 1
                    ? stem + ".safetensors"
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, groups.size());
    set.files.push_back(std::move(file));
  }
  return set;
}

std::string printIndex(const FileSet &set) {
  nlohmann::ordered_json json;
  json["metadata"] = {{"total_size", set.tensorBytes}};
  json["weight_map"] = nlohmann::ordered_json::object();
  for (const PlannedFile &file : set.files)
    for (const PlannedTensor &tensor : file.tensors)
      json["weight_map"][tensor.parameter->name()] = file.name;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Converts in place, from f32 to a type of two bytes: writing never overtakes reading.
static void narrow(std::byte *data, uint64_t count, plan::DataType type) {
  for (uint64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, data + 4 * i, 4);
    const uint16_t bits = type == plan::BF16 ? toBf16(value) : toF16(value);
    std::memcpy(data + 2 * i, &bits, 2);
  }
}

static void scale(std::byte *data, uint64_t count, float factor) {
  for (uint64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, data + 4 * i, 4);
    value *= factor;
    std::memcpy(data + 4 * i, &value, 4);
  }
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

/// A part of a parameter and where it lies in a slot.
struct Part {
  uint64_t begin, end; ///< elements of the parameter
  uint64_t slotOffset; ///< of element `begin` in the slot, in elements
};

} // namespace

/// The part of a parameter that lies in `wanted` (elements of its bucket) of a slot that holds `held`.
static Part partOf(const plan::Parameter &parameter, const ElementRange &wanted, const ElementRange &held) {
  const uint64_t first = parameter.offset(), last = first + elementCount(parameter.shape()).value_or(0);
  const uint64_t begin = std::clamp(wanted.begin, first, last), end = std::clamp(wanted.end, begin, last);
  return {begin - first, end - first, begin < end ? begin - held.begin : 0};
}

Status createTensorFile(const PlannedFile &planned, const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::Create));
  ZTC_RETURN_IF_ERROR(file.reserve(planned.bytes));
  ZTC_RETURN_IF_ERROR(file.writeAt(0, planned.header.data(), planned.header.size()));
  return file.sync();
}

Status writeTensors(const StateContext &context, const PlannedFile &planned, StateKind kind, plan::DataType type,
                    float factor, const std::string &path) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::ReadWrite));
  const uint64_t piece = context.staging.size() / 4, elementBytes = dataTypeBytes(type);
  for (const PlannedTensor &tensor : planned.tensors) {
    const plan::Bucket &bucket = bucketOf(context.plan, *tensor.parameter);
    const uint32_t slot = slotOf(bucket, kind);
    const Part part = partOf(*tensor.parameter, ownedRange(bucket, context.rank(), context.world()),
                             heldRange(context.plan, bucket, slot, context.rank(), context.world()));
    for (uint64_t begin = part.begin; begin < part.end; begin += piece) {
      const uint64_t count = std::min(piece, part.end - begin);
      ZTC_RETURN_IF_ERROR(
          context.memory.read(slot, (part.slotOffset + begin - part.begin) * 4, context.staging.data(), count * 4));
      if (factor != 1.0f)
        scale(context.staging.data(), count, factor);
      if (type != plan::F32)
        narrow(context.staging.data(), count, type);
      ZTC_RETURN_IF_ERROR(
          file.writeAt(tensor.fileOffset + begin * elementBytes, context.staging.data(), count * elementBytes));
      context.addProgress(count * elementBytes);
    }
  }
  return file.sync();
}

Status fillParameter(const StateContext &context, const plan::Parameter &parameter, StateKind kind,
                     const std::function<Status(uint64_t, uint64_t, float *)> &fill) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  const plan::Bucket &bucket = bucketOf(context.plan, parameter);
  const uint32_t slot = slotOf(bucket, kind);
  const ElementRange held = heldRange(context.plan, bucket, slot, context.rank(), context.world());
  const Part part = partOf(parameter, held, held);
  const uint64_t piece = context.staging.size() / 4;
  auto *out = reinterpret_cast<float *>(context.staging.data());
  for (uint64_t begin = part.begin; begin < part.end; begin += piece) {
    const uint64_t count = std::min(piece, part.end - begin);
    ZTC_RETURN_IF_ERROR(fill(begin, count, out));
    ZTC_RETURN_IF_ERROR(context.memory.write(slot, (part.slotOffset + begin - part.begin) * 4, out, count * 4));
    context.addProgress(count * 4);
  }
  return Status::ok();
}

Status checkStateTypes(const plan::Plan &plan) {
  for (const plan::Parameter &parameter : plan.parameters())
    if (parameter.type() != plan::F32)
      return failedPrecondition(fmt::format("parameter '{}' lies in memory as {}; only f32 can be saved and loaded",
                                            parameter.name(), dataTypeName(parameter.type())));
  return Status::ok();
}

} // namespace ztc
