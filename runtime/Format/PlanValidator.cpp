#include "runtime/Format/PlanValidator.h"
#include "runtime/Core/Fp8.h"
#include "runtime/Format/BlockState.h"
#include "runtime/Format/OrderValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/SourceValidator.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Format/StepValidator.h"
#include "runtime/Format/UpdateTime.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <string_view>
#include <vector>

namespace ztc {

using namespace plan;

uint64_t dataTypeBytes(DataType type) {
  switch (type) {
  case F64:
  case I64:
    return 8;
  case F32:
  case I32:
    return 4;
  case BF16:
  case F16:
  case I16:
    return 2;
  case I1:
  case U8:
  case E4M3:
  case E5M2:
    return 1;
  default:
    return 0;
  }
}

bool isNarrow(DataType type) {
  return type == BF16 || type == F16;
}

DataType productType(const Plan &plan) {
  return plan.precision() == "bf16" || plan.precision() == "fp8" ? BF16 : plan.precision() == "fp16" ? F16 : F32;
}

const char *dataTypeName(DataType type) {
  switch (type) {
  case F32:
    return "f32";
  case BF16:
    return "bf16";
  case F16:
    return "f16";
  case F64:
    return "f64";
  case I32:
    return "i32";
  case I64:
    return "i64";
  case I1:
    return "i1";
  case I16:
    return "i16";
  case U8:
    return "u8";
  case BLOCK8:
    return "block8";
  case UBLOCK8:
    return "ublock8";
  case E4M3:
    return "e4m3";
  case E5M2:
    return "e5m2";
  default:
    return "unspecified";
  }
}

bool isGpuTarget(std::string_view target) {
  return target == "simt" || target.substr(0, 3) == "sm_";
}

static constexpr uint64_t kLargest = uint64_t(1) << 62;

static std::optional<uint64_t> times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kLargest)
    return std::nullopt;
  return product;
}

std::optional<uint64_t> sizeFormBytes(const SizeForm &size, uint64_t world, bool accumulating, uint64_t threads) {
  if ((size.only_if_accumulating() && !accumulating) || (size.only_if_several_ranks() && world == 1))
    return 0;
  if (size.elements() > kLargest)
    return std::nullopt;
  if (threads == 0 && size.has_gpu_elements())
    return times(size.gpu_elements(), size.element_bytes());
  std::optional<uint64_t> elements = size.elements();
  switch (size.kind()) {
  case SizeForm::CONSTANT:
    break;
  case SizeForm::SHARD:
  case SizeForm::FULL: {
    const uint64_t unit = shardQuantum(size.quantum());
    const std::optional<uint64_t> row = times(world, unit);
    if (!row)
      return std::nullopt;
    elements = times((*elements + *row - 1) / *row, size.kind() == SizeForm::FULL ? *row : unit);
    if (elements && size.block_elements())
      *elements /= size.block_elements();
    break;
  }
  case SizeForm::PER_THREAD:
    elements = times(*elements, threads);
    break;
  default:
    return std::nullopt;
  }
  return elements ? times(*elements, size.element_bytes()) : std::nullopt;
}

namespace {

/// Checks the parts of a plan in the order in which later ones rely on earlier ones.
class PlanChecker {
public:
  explicit PlanChecker(const Plan &plan) : plan_(plan) {}

  Status check() {
    ZTC_RETURN_IF_ERROR(checkModel());
    ZTC_RETURN_IF_ERROR(checkSlots());
    ZTC_RETURN_IF_ERROR(checkImages());
    ZTC_RETURN_IF_ERROR(checkBuckets());
    ZTC_RETURN_IF_ERROR(checkParameters());
    ZTC_RETURN_IF_ERROR(checkConstants());
    ZTC_RETURN_IF_ERROR(checkBindings());
    ZTC_RETURN_IF_ERROR(checkPrograms());
    return validateOrder(plan_);
  }

private:
  Status checkModel() {
    const Model &model = plan_.model();
    for (const auto &[name, value] :
         {std::pair{"batch", model.batch()}, {"seq", model.seq()}, {"vocabulary", model.vocabulary()}})
      if (value == 0 || value > (uint64_t(1) << 31))
        return dataLoss(fmt::format("model: {} is {}", name, value));
    if (!times(model.batch(), model.seq() * 8))
      return dataLoss(fmt::format("model: batch {} times seq {} overflows", model.batch(), model.seq()));
    return Status::ok();
  }

  Status checkSlots() {
    for (int i = 0; i < plan_.slots_size(); ++i) {
      const Slot &slot = plan_.slots(i);
      const std::string where = fmt::format("slot {} '{}'", i, slot.name());
      if (!SlotClass_IsValid(slot.slot_class()) || slot.slot_class() == SLOT_CLASS_UNSPECIFIED)
        return dataLoss(fmt::format("{}: unknown class {}", where, int(slot.slot_class())));
      if (!DataType_IsValid(slot.type()))
        return dataLoss(fmt::format("{}: unknown type {}", where, int(slot.type())));
      if (!SizeForm::Kind_IsValid(slot.size().kind()))
        return dataLoss(fmt::format("{}: unknown size form {}", where, int(slot.size().kind())));
      if (slot.size().element_bytes() == 0 || slot.size().element_bytes() > 4096)
        return dataLoss(fmt::format("{}: {} bytes per element", where, slot.size().element_bytes()));
      const bool isInBlocks = slot.size().block_elements() != 0;
      if ((isInBlocks || slot.size().quantum() != 0) && !isSharded(slot.size()))
        return dataLoss(where + ": blocks or a quantum, though it is not a bucket's");
      if (slot.size().quantum() % kShardQuantum != 0 ||
          (isInBlocks && shardQuantum(slot.size().quantum()) % slot.size().block_elements() != 0))
        return dataLoss(fmt::format("{}: blocks of {} elements in shards of multiples of {}", where,
                                    slot.size().block_elements(), slot.size().quantum()));
      const std::optional<uint64_t> bytes = sizeFormBytes(slot.size(), 1, true, 1);
      if (!bytes)
        return dataLoss(fmt::format("{}: its size overflows ({} elements of {} bytes)", where, slot.size().elements(),
                                    slot.size().element_bytes()));
      const bool mayDiffer = slot.size().kind() == SizeForm::CONSTANT || slot.size().kind() == SizeForm::PER_THREAD;
      if (slot.size().has_gpu_elements() &&
          (!mayDiffer || slot.persistent() || !sizeFormBytes(slot.size(), 1, true, 0)))
        return dataLoss(fmt::format("{}: {} elements on a GPU", where, slot.size().gpu_elements()));
      if (!elementCount(slot.shape()))
        return dataLoss(fmt::format("{}: its shape overflows or is negative", where));
      if (!Space_IsValid(slot.space()) || (slot.space() != DEVICE && (!slot.persistent() || slot.accumulator())))
        return dataLoss(
            fmt::format("{}: space {}: only what is persistent lies below the device", where, int(slot.space())));
      if ((slot.kept() || slot.carried()) &&
          (slot.persistent() || slot.accumulator() || slot.space() != DEVICE ||
           (slot.size().kind() != SizeForm::FULL && (slot.carried() || slot.size().kind() != SizeForm::CONSTANT))))
        return dataLoss(where + ": only a gathered bucket is kept over micro-steps or carried to the next step, and "
                                "codes of a weight are kept");
      slotBytes_.push_back(*bytes);
    }
    for (int i = 0; i < plan_.slots_size(); ++i)
      ZTC_RETURN_IF_ERROR(checkSharedStorage(i));
    return Status::ok();
  }

  static bool isSharded(const SizeForm &size) {
    return size.kind() == SizeForm::SHARD || size.kind() == SizeForm::FULL;
  }

  static bool isCutAlike(const SizeForm &a, const SizeForm &b) {
    return a.block_elements() == b.block_elements() && shardQuantum(a.quantum()) == shardQuantum(b.quantum());
  }

  /// `other` is the index + 1 of a slot that serves slot `index` too: it exists and is not such a slot itself.
  Status checkSharedSlot(uint32_t other, const std::string &where) const {
    if (other > static_cast<uint32_t>(plan_.slots_size()))
      return dataLoss(fmt::format("{}: shares slot {}, but there are {}", where, other - 1, plan_.slots_size()));
    const Slot &target = plan_.slots(static_cast<int>(other - 1));
    if (target.space() != DEVICE)
      return dataLoss(
          fmt::format("{}: shares slot {} '{}', which is not on the device", where, other - 1, target.name()));
    if (target.same_as_at_one_rank() != 0 || target.same_as_if_accumulating() != 0)
      return dataLoss(
          fmt::format("{}: shares slot {} '{}', which shares another one itself", where, other - 1, target.name()));
    return Status::ok();
  }

  /// A slot that is another one's storage at one rank: that one always lives and has the same size there.
  Status checkSharedAtOneRank(int index, const std::string &where) const {
    const Slot &slot = plan_.slots(index);
    const uint32_t other = slot.same_as_at_one_rank();
    ZTC_RETURN_IF_ERROR(checkSharedSlot(other, where));
    const Slot &target = plan_.slots(static_cast<int>(other - 1));
    if (slot.persistent() || !target.persistent())
      return dataLoss(fmt::format("{}: shares slot {} '{}', and only one of them may be persistent: that one", where,
                                  other - 1, target.name()));
    if (!isSharded(slot.size()) || !isSharded(target.size()) || slot.size().elements() != target.size().elements() ||
        slot.size().element_bytes() != target.size().element_bytes() || !isCutAlike(slot.size(), target.size()) ||
        slotBytes_[other - 1] == 0 || slotBytes_[other - 1] != slotBytes_[static_cast<size_t>(index)])
      return dataLoss(fmt::format("{}: shares slot {} '{}' of another size", where, other - 1, target.name()));
    return Status::ok();
  }

  /// A slot that lies in an accumulator where there is one: it holds the same elements, no larger, in the same form.
  Status checkSharedIfAccumulating(int index, const std::string &where) const {
    const Slot &slot = plan_.slots(index);
    const uint32_t other = slot.same_as_if_accumulating();
    ZTC_RETURN_IF_ERROR(checkSharedSlot(other, where));
    const Slot &target = plan_.slots(static_cast<int>(other - 1));
    if (!target.accumulator() || target.persistent())
      return dataLoss(
          fmt::format("{}: shares slot {} '{}', which is not an accumulator", where, other - 1, target.name()));
    if (slot.accumulator() || slot.persistent() || slot.same_as_at_one_rank() != 0)
      return dataLoss(
          fmt::format("{}: shares slot {} '{}', but has a lifetime of its own", where, other - 1, target.name()));
    const SizeForm &size = slot.size(), &around = target.size();
    const bool always = !size.only_if_accumulating() && !size.only_if_several_ranks() &&
                        !around.only_if_accumulating() && !around.only_if_several_ranks();
    if (!always || !isSharded(size) || size.kind() != around.kind() || size.elements() != around.elements() ||
        !isCutAlike(size, around) || size.element_bytes() > around.element_bytes())
      return dataLoss(
          fmt::format("{}: does not fit into slot {} '{}' in every shape of the run", where, other - 1, target.name()));
    return Status::ok();
  }

  Status checkSharedStorage(int index) const {
    const std::string where = fmt::format("slot {} '{}'", index, plan_.slots(index).name());
    if (plan_.slots(index).same_as_if_accumulating() != 0)
      return checkSharedIfAccumulating(index, where);
    return plan_.slots(index).same_as_at_one_rank() != 0 ? checkSharedAtOneRank(index, where) : Status::ok();
  }

  Status checkImages() {
    for (int i = 0; i < plan_.images_size(); ++i)
      if (plan_.images(i).target().empty() || plan_.images(i).data().empty())
        return dataLoss(fmt::format("image {}: {}", i, plan_.images(i).target().empty() ? "no target" : "no data"));
    for (int i = 0; i < plan_.kernels_size(); ++i) {
      const Kernel &kernel = plan_.kernels(i);
      const std::string where = fmt::format("kernel {} '{}'", i, kernel.name());
      if (kernel.name().empty() || kernel.name().find('\0') != std::string::npos)
        return dataLoss(where + ": no symbol name");
      if (kernel.versions().empty())
        return dataLoss(where + ": no version for any target");
      for (const Kernel::Version &version : kernel.versions()) {
        if (version.image() >= static_cast<uint32_t>(plan_.images_size()))
          return dataLoss(fmt::format("{}: image {}, but there are {}", where, version.image(), plan_.images_size()));
        if (plan_.images(static_cast<int>(version.image())).target() != version.target())
          return dataLoss(fmt::format("{}: version for '{}' in an image for '{}'", where, version.target(),
                                      plan_.images(static_cast<int>(version.image())).target()));
        ZTC_RETURN_IF_ERROR(checkGeometry(version, where));
      }
    }
    return Status::ok();
  }

  static Status checkGeometry(const Kernel::Version &version, const std::string &where) {
    if (!isGpuTarget(version.target())) {
      if (version.block_threads() || version.units_per_block() || version.shared_bytes() || version.waits())
        return dataLoss(fmt::format("{}: a version for '{}' has no blocks", where, version.target()));
      return Status::ok();
    }
    if (version.waits() && !version.outside().empty())
      return dataLoss(fmt::format("{}: a kernel from outside is marked as waiting for the kernels before it", where));
    // What no GPU's block exceeds: 1024 threads, 227 KiB of shared memory.
    if (version.block_threads() == 0 || version.block_threads() > 1024 || version.units_per_block() == 0 ||
        version.shared_bytes() > 227u * 1024)
      return dataLoss(fmt::format("{}: a block for '{}' of {} threads, {} units and {} bytes of shared memory", where,
                                  version.target(), version.block_threads(), version.units_per_block(),
                                  version.shared_bytes()));
    return Status::ok();
  }

  Status checkBuckets() {
    for (int i = 0; i < plan_.buckets_size(); ++i) {
      const Bucket &bucket = plan_.buckets(i);
      const std::string where = fmt::format("bucket {} '{}'", i, bucket.name());
      if (bucket.elements() > kLargest || bucket.decayed() > bucket.elements())
        return dataLoss(fmt::format("{}: {} of {} elements decayed", where, bucket.decayed(), bucket.elements()));
      struct Use {
        std::string name;
        uint32_t slot;
        bool needed;
      };
      if (bucket.trainable())
        ZTC_RETURN_IF_ERROR(checkStates(bucket, where));
      std::vector<Use> uses{{"parameter", bucket.parameter_slot(), true},
                            {"gradient", bucket.gradient_slot(), bucket.trainable() && !updatesInBackward(plan_)},
                            {"master", bucket.master_slot(), hasMaster(bucket)}};
      for (const Bucket::State &state : bucket.states())
        uses.push_back({state.name(), state.slot(), bucket.trainable()});
      for (const Use &use : uses) {
        // A frozen bucket's further slots are read by nobody, whatever they say.
        if (!use.needed)
          continue;
        if (use.slot >= slotBytes_.size())
          return dataLoss(
              fmt::format("{}: {} slot {}, but there are {}", where, use.name, use.slot, slotBytes_.size()));
        const Slot &slot = plan_.slots(static_cast<int>(use.slot));
        if (isSharded(slot.size()) && shardQuantum(slot.size().quantum()) != shardQuantum(bucket.quantum()))
          return dataLoss(fmt::format("{}: shards in multiples of {} elements, its {} slot in those of {}", where,
                                      shardQuantum(bucket.quantum()), use.name, shardQuantum(slot.size().quantum())));
        const uint64_t perRecord = std::max<uint64_t>(slot.size().block_elements(), 1);
        const std::optional<uint64_t> bytes =
            times((bucket.elements() + perRecord - 1) / perRecord, slot.size().element_bytes());
        if (!bytes || *bytes > slotBytes_[use.slot])
          return dataLoss(fmt::format("{}: {} elements do not fit its {} slot of {} bytes", where, bucket.elements(),
                                      use.name, slotBytes_[use.slot]));
      }
      if (bucket.trainable())
        ZTC_RETURN_IF_ERROR(checkBlocks(bucket, where));
      if (hasMaster(bucket))
        ZTC_RETURN_IF_ERROR(checkMaster(bucket, where));
    }
    return Status::ok();
  }

  /// A state is in blocks where its type says so, in records of BlockState.h, and never a parameter or a gradient.
  Status checkBlocks(const Bucket &bucket, const std::string &where) const {
    for (const Bucket::State &state : bucket.states()) {
      const Slot &slot = plan_.slots(static_cast<int>(state.slot()));
      const bool hasBlocks = slot.size().block_elements() != 0;
      if (!isBlockState(slot.type()) && !hasBlocks)
        continue;
      if (!isBlockState(slot.type()) || slot.size().block_elements() != kStateBlock ||
          slot.size().element_bytes() != kStateBlockBytes || bucket.quantum() % kStateBlock != 0 ||
          bucket.quantum() == 0 || !slot.persistent())
        return dataLoss(fmt::format("{}: state '{}' of type {} in records of {} bytes for {} elements, shards in "
                                    "multiples of {}",
                                    where, state.name(), dataTypeName(slot.type()), slot.size().element_bytes(),
                                    slot.size().block_elements(), bucket.quantum()));
    }
    return Status::ok();
  }

  /// The names of states are those of files in checkpoints, and one list for all buckets that follow one rule.
  Status checkStates(const Bucket &bucket, const std::string &where) const {
    std::set<std::string_view> names{"model"};
    for (const Bucket::State &state : bucket.states()) {
      const std::string &name = state.name();
      if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
        return dataLoss(fmt::format("{}: a state cannot be called '{}'", where, name));
      if (!names.insert(name).second)
        return dataLoss(fmt::format("{}: the name '{}' of a state stands twice, or is the model's", where, name));
    }
    const auto sameName = [](const Bucket::State &a, const Bucket::State &b) { return a.name() == b.name(); };
    const auto first = std::find_if(plan_.buckets().begin(), plan_.buckets().end(), [&](const Bucket &other) {
      return other.trainable() &&
             (bucket.states().empty() || std::any_of(other.states().begin(), other.states().end(),
                                                     [&](const auto &state) { return names.contains(state.name()); }));
    });
    if (first != plan_.buckets().end() && !std::equal(bucket.states().begin(), bucket.states().end(),
                                                      first->states().begin(), first->states().end(), sameName))
      return dataLoss(fmt::format("{}: its states are not those of bucket '{}'", where, first->name()));
    return Status::ok();
  }

  static bool hasMaster(const Bucket &bucket) { return bucket.trainable() && bucket.master_slot() != kAbsent; }

  /// Remainders complete bf16 parameters, masters stand beside f16 ones; either is a state.
  Status checkMaster(const Bucket &bucket, const std::string &where) const {
    const Slot &parameter = plan_.slots(static_cast<int>(bucket.parameter_slot()));
    const Slot &master = plan_.slots(static_cast<int>(bucket.master_slot()));
    const bool fits =
        (parameter.type() == BF16 && master.type() == I16) || (parameter.type() == F16 && master.type() == F32);
    if (!fits || master.size().element_bytes() != dataTypeBytes(master.type()) || !master.persistent())
      return dataLoss(fmt::format("{}: masters of type {} in slot {} '{}' beside parameters of type {}", where,
                                  dataTypeName(master.type()), bucket.master_slot(), master.name(),
                                  dataTypeName(parameter.type())));
    return Status::ok();
  }

  Status checkParameters() {
    std::set<std::string_view> names;
    std::vector<std::vector<std::pair<uint64_t, uint64_t>>> ranges(static_cast<size_t>(plan_.buckets_size()));
    for (int i = 0; i < plan_.parameters_size(); ++i) {
      const Parameter &parameter = plan_.parameters(i);
      const std::string where = fmt::format("parameter {} '{}'", i, parameter.name());
      if (parameter.name().empty() || !names.insert(parameter.name()).second)
        return dataLoss(where + (parameter.name().empty() ? ": no name" : ": its name stands twice"));
      for (const std::string &tied : parameter.tied())
        if (!names.insert(tied).second)
          return dataLoss(fmt::format("{}: the name '{}' stands twice", where, tied));
      if (!dataTypeBytes(parameter.type()))
        return dataLoss(fmt::format("{}: unknown type {}", where, int(parameter.type())));
      if (parameter.bucket() >= static_cast<uint32_t>(plan_.buckets_size()))
        return dataLoss(
            fmt::format("{}: bucket {}, but there are {}", where, parameter.bucket(), plan_.buckets_size()));
      const Bucket &bucket = plan_.buckets(static_cast<int>(parameter.bucket()));
      const Slot &slot = plan_.slots(static_cast<int>(bucket.parameter_slot()));
      if (parameter.type() != slot.type())
        return dataLoss(fmt::format("{}: type {} in a bucket of {}", where, dataTypeName(parameter.type()),
                                    dataTypeName(slot.type())));
      const std::optional<uint64_t> count = elementCount(parameter.shape());
      if (bucket.quantum() && parameter.offset() % bucket.quantum())
        return dataLoss(
            fmt::format("{}: begins at {}, which is not a multiple of the {} elements that its bucket is cut at", where,
                        parameter.offset(), bucket.quantum()));
      if (!count || *count > bucket.elements() || parameter.offset() > bucket.elements() - *count)
        return dataLoss(fmt::format("{}: element {} onwards leaves its bucket of {} elements", where,
                                    parameter.offset(), bucket.elements()));
      if (parameter.trainable() != bucket.trainable())
        return dataLoss(fmt::format("{}: {} in a {} bucket", where, parameter.trainable() ? "trainable" : "frozen",
                                    bucket.trainable() ? "trainable" : "frozen"));
      if (*count)
        ranges[parameter.bucket()].emplace_back(parameter.offset(), parameter.offset() + *count);
      ZTC_RETURN_IF_ERROR(checkFormat(parameter, *count, where));
      ZTC_RETURN_IF_ERROR(checkSource(parameter, *elementCount(checkpointShape(parameter)), where));
    }
    for (size_t bucket = 0; bucket < ranges.size(); ++bucket) {
      std::sort(ranges[bucket].begin(), ranges[bucket].end());
      for (size_t i = 1; i < ranges[bucket].size(); ++i)
        if (ranges[bucket][i].first < ranges[bucket][i - 1].second)
          return dataLoss(fmt::format("bucket {}: two parameters share element {}", bucket, ranges[bucket][i].first));
    }
    return Status::ok();
  }

  /// A weight in fewer bits is frozen and has the bytes that its format needs.
  static Status checkFormat(const Parameter &parameter, uint64_t bytes, const std::string &where) {
    if (parameter.format() == PLAIN)
      return parameter.quantized_shape_size() == 0 && !parameter.quantized_transposed() && parameter.type() != U8
                 ? Status::ok()
                 : dataLoss(fmt::format("{}: type {} and a quantised shape without a format", where,
                                        dataTypeName(parameter.type())));
    const std::optional<QuantizedLayout> layout = quantizedLayout(parameter);
    if (!layout || layout->bytes != bytes || parameter.type() != U8 || parameter.trainable() ||
        parameter.shape_size() != 1)
      return dataLoss(fmt::format("{}: {} {} of {} for a matrix [{}] as {}", where,
                                  parameter.trainable() ? "trainable" : "frozen", bytes, dataTypeName(parameter.type()),
                                  fmt::join(parameter.quantized_shape(), ", "), weightFormatName(parameter.format())));
    return Status::ok();
  }

  Status checkConstants() {
    for (int i = 0; i < plan_.constants_size(); ++i) {
      const Constant &constant = plan_.constants(i);
      if (constant.slot() >= slotBytes_.size())
        return dataLoss(fmt::format("constant {}: slot {}, but there are {}", i, constant.slot(), slotBytes_.size()));
      if (constant.data().size() > slotBytes_[constant.slot()])
        return dataLoss(fmt::format("constant {}: {} bytes in slot {} of {} bytes", i, constant.data().size(),
                                    constant.slot(), slotBytes_[constant.slot()]));
      const Slot &slot = plan_.slots(static_cast<int>(constant.slot()));
      if (!slot.persistent() || slot.size().kind() != SizeForm::CONSTANT || slot.size().only_if_accumulating())
        return dataLoss(fmt::format("constant {}: slot {} '{}' is not persistent and of constant size", i,
                                    constant.slot(), slot.name()));
    }
    return Status::ok();
  }

  Status checkBindings() {
    const Bindings &b = plan_.bindings();
    const Model &model = plan_.model();
    const uint64_t tokens = model.batch() * model.seq() * 4;
    struct Binding {
      const char *name;
      uint32_t slot;
      uint64_t bytes;
    };
    for (const Binding &binding :
         {Binding{"tokens", b.tokens(), tokens}, Binding{"targets", b.targets(), tokens},
          Binding{"step_parameters", b.step_parameters(), uint64_t(kStepParameterCount) * 4},
          Binding{"loss", b.loss(), 4}, Binding{"eval_loss", b.eval_loss(), 4},
          Binding{"gradient_norm", b.gradient_norm(), 4}, Binding{"finite", b.finite(), 1},
          Binding{"position", b.position(), 4}, Binding{"logits", b.logits(), 4}, Binding{"staging", b.staging(), 0},
          Binding{"first_token", b.first_token(), 8},
          Binding{"document_starts", b.has_document_starts() ? b.document_starts() : kAbsent, tokens},
          Binding{"loss_weights", b.has_loss_weights() ? b.loss_weights() : kAbsent, tokens},
          Binding{"fp8_amax", b.has_fp8_amax() ? b.fp8_amax() : kAbsent, kFp8ScaleRecord * sizeof(float)}}) {
      if (binding.slot == kAbsent)
        continue;
      if (binding.slot >= slotBytes_.size())
        return dataLoss(
            fmt::format("binding {}: slot {}, but there are {}", binding.name, binding.slot, slotBytes_.size()));
      if (slotBytes_[binding.slot] < binding.bytes)
        return dataLoss(fmt::format("binding {}: slot {} has {} bytes, {} are needed", binding.name, binding.slot,
                                    slotBytes_[binding.slot], binding.bytes));
    }
    const uint64_t matrices =
        b.has_fp8_amax() && b.fp8_amax() != kAbsent ? slotBytes_[b.fp8_amax()] / (kFp8ScaleRecord * sizeof(float)) : 0;
    if (uint64_t(plan_.scaled_matrices_size()) != matrices)
      return dataLoss(fmt::format("binding fp8_amax: {} absolute maxima, but {} scaled matrices have names", matrices,
                                  plan_.scaled_matrices_size()));
    return Status::ok();
  }

  Status checkPrograms() {
    std::set<std::string_view> names;
    for (const Program &program : plan_.programs()) {
      static constexpr std::string_view kKnown[] = {"microstep", "update",      "eval",    "generate",
                                                    "decode",    "decode_rows", "transfer"};
      if (std::find(std::begin(kKnown), std::end(kKnown), program.name()) == std::end(kKnown))
        return dataLoss(fmt::format("program '{}': unknown name", program.name()));
      if (!names.insert(program.name()).second)
        return dataLoss(fmt::format("program '{}' stands twice", program.name()));
      for (int i = 0; i < program.steps_size(); ++i)
        if (Status status = validateStep(plan_, slotBytes_, program.steps(i)); !status.isOk())
          return status.withContext(fmt::format("{} step {} '{}'", program.name(), i, program.steps(i).name()));
    }
    return Status::ok();
  }

  const Plan &plan_;
  std::vector<uint64_t> slotBytes_; ///< at W = 1, T = 1, M > 1: the smallest size that operands may rely on
};

} // namespace

Status validatePlan(const Plan &plan) {
  return PlanChecker(plan).check();
}

} // namespace ztc
