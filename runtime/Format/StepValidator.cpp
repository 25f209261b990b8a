#include "runtime/Format/StepValidator.h"
#include "runtime/Format/KernelSignature.h"
#include "runtime/Format/PlanValidator.h"
#include <fmt/format.h>
#include <initializer_list>

namespace ztc {

using namespace plan;

namespace {

/// A byte count that knows that it overflowed; what is computed from it stays overflowed.
class Bytes {
public:
  Bytes(uint64_t value) : Bytes(value, true) {}
  Bytes operator*(Bytes other) const {
    uint64_t product = 0;
    const bool overflows = __builtin_mul_overflow(value_, other.value_, &product);
    return {product, valid_ && other.valid_ && !overflows};
  }
  Bytes operator+(Bytes other) const {
    uint64_t sum = 0;
    const bool overflows = __builtin_add_overflow(value_, other.value_, &sum);
    return {sum, valid_ && other.valid_ && !overflows};
  }
  bool isValid() const { return valid_; }
  uint64_t value() const { return value_; }

private:
  Bytes(uint64_t value, bool valid) : value_(value), valid_(valid && value <= (uint64_t(1) << 62)) {}
  uint64_t value_;
  bool valid_;
};

class StepChecker {
public:
  StepChecker(const Plan &plan, const std::vector<uint64_t> &slotBytes, const Step &step)
      : plan_(plan), slotBytes_(slotBytes), step_(step) {}

  Status check() {
    ZTC_RETURN_IF_ERROR(checkOperands());
    switch (step_.kind_case()) {
    case Step::kLaunch:
      return checkLaunch(step_.launch());
    case Step::kGemm:
      return checkGemm(step_.gemm());
    case Step::kAttention:
      return checkAttention(step_.attention());
    case Step::kLinearCrossEntropy:
      return checkLinearCrossEntropy(step_.linear_cross_entropy());
    case Step::kGather: {
      const Gather &gather = step_.gather();
      ZTC_RETURN_IF_ERROR(count(3));
      ZTC_RETURN_IF_ERROR(gpuKernels(gather));
      ZTC_RETURN_IF_ERROR(holds(0, "table", Bytes(gather.table_rows()) * gather.row_bytes()));
      ZTC_RETURN_IF_ERROR(holds(1, "indices", Bytes(gather.rows()) * 4));
      return holds(2, "result", Bytes(gather.rows()) * gather.row_bytes());
    }
    case Step::kScatterAdd: {
      const ScatterAdd &scatter = step_.scatter_add();
      ZTC_RETURN_IF_ERROR(real(scatter.type()));
      ZTC_RETURN_IF_ERROR(accumulation(scatter.accumulate()));
      ZTC_RETURN_IF_ERROR(count(3));
      ZTC_RETURN_IF_ERROR(gpuKernels(scatter));
      ZTC_RETURN_IF_ERROR(holds(0, "indices", Bytes(scatter.rows()) * 4));
      ZTC_RETURN_IF_ERROR(holds(1, "dy", Bytes(scatter.rows()) * scatter.width() * dataTypeBytes(scatter.type())));
      return holds(2, "dtable", Bytes(scatter.table_rows()) * scatter.width() * 4);
    }
    case Step::kCopy:
      ZTC_RETURN_IF_ERROR(count(2));
      ZTC_RETURN_IF_ERROR(holds(0, "from", step_.copy().bytes()));
      return holds(1, "to", step_.copy().bytes());
    case Step::kFill:
      return count(1);
    case Step::kCollective:
      return checkCollective(step_.collective());
    case Step::kRecord:
      return event(step_.record().event());
    case Step::kWait:
      return event(step_.wait().event());
    case Step::kNarrow:
      return checkNarrow(step_.narrow());
    case Step::kTransfer:
      return Status::ok();
    case Step::KIND_NOT_SET:
      return dataLoss("it has no kind, or one that this program does not know");
    }
    return dataLoss("it has an unknown kind");
  }

private:
  Status checkOperands() {
    for (int i = 0; i < step_.operands_size(); ++i) {
      const Operand &operand = step_.operands(i);
      if (operand.slot() >= slotBytes_.size())
        return dataLoss(fmt::format("operand {}: slot {}, but there are {}", i, operand.slot(), slotBytes_.size()));
      const uint64_t slot = slotBytes_[operand.slot()];
      if (operand.offset() > slot || operand.bytes() > slot - operand.offset())
        return dataLoss(fmt::format("operand {}: {} bytes from {} leave slot {} '{}' of {} bytes", i, operand.bytes(),
                                    operand.offset(), operand.slot(),
                                    plan_.slots(static_cast<int>(operand.slot())).name(), slot));
      if (!Operand::Access_IsValid(operand.access()))
        return dataLoss(fmt::format("operand {}: unknown access {}", i, int(operand.access())));
      if (operand.own_shard() && (slotOf(i).size().kind() != SizeForm::FULL || operand.offset() || operand.bytes()))
        return dataLoss(fmt::format("operand {}: the own shard of slot {} '{}', which is not full, or a piece of it", i,
                                    operand.slot(), slotOf(i).name()));
    }
    return Status::ok();
  }

  const Slot &slotOf(int index) const { return plan_.slots(static_cast<int>(step_.operands(index).slot())); }

  Status count(int wanted) const {
    if (step_.operands_size() != wanted)
      return dataLoss(fmt::format("{} operands, {} are needed", step_.operands_size(), wanted));
    return Status::ok();
  }

  Status bucket(uint32_t index) const {
    if (index >= static_cast<uint32_t>(plan_.buckets_size()))
      return dataLoss(fmt::format("bucket {}, but there are {}", index, plan_.buckets_size()));
    return Status::ok();
  }

  Status kernel(uint32_t index) const {
    if (index >= static_cast<uint32_t>(plan_.kernels_size()))
      return dataLoss(fmt::format("kernel {}, but there are {}", index, plan_.kernels_size()));
    return Status::ok();
  }

  template <typename Record> Status gpuKernels(const Record &record) const {
    for (uint32_t index : record.gpu_kernels())
      ZTC_RETURN_IF_ERROR(kernel(index));
    return Status::ok();
  }

  /// A kernel of the host's library call: absent in a plan for GPUs alone.
  template <typename Record> Status hostKernel(uint32_t index, const Record &record) const {
    return index == kAbsent && !record.gpu_kernels().empty() ? Status::ok() : kernel(index);
  }

  static Status event(uint32_t index) {
    if (index >= 1u << 20)
      return dataLoss(fmt::format("event {} is out of any range", index));
    return Status::ok();
  }

  static Status accumulation(Accumulate mode) {
    if (!Accumulate_IsValid(mode))
      return dataLoss(fmt::format("unknown accumulation {}", int(mode)));
    return Status::ok();
  }

  /// A type that tensors of library calls may have.
  static Status real(DataType type) {
    if (type != F32 && !isNarrow(type))
      return dataLoss(fmt::format("unknown or unsuitable type {}", int(type)));
    return Status::ok();
  }

  /// Operand `index` has at least `needed` bytes. Operands are in range here.
  Status holds(int index, const char *name, Bytes needed) const {
    const Operand &operand = step_.operands(index);
    const uint64_t present = operand.bytes() ? operand.bytes() : slotBytes_[operand.slot()] - operand.offset();
    if (!needed.isValid())
      return dataLoss(fmt::format("the size of operand {} ({}) overflows", index, name));
    if (needed.value() > present)
      return dataLoss(fmt::format("operand {} ({}) has {} bytes, {} are needed", index, name, present, needed.value()));
    return Status::ok();
  }

  Status checkLaunch(const Launch &launch) const {
    ZTC_RETURN_IF_ERROR(kernel(launch.kernel()));
    ZTC_RETURN_IF_ERROR(accumulation(launch.accumulate()));
    if (launch.accumulate() != OVERWRITE)
      ZTC_RETURN_IF_ERROR(kernel(launch.kernel_add()));
    constexpr uint64_t kLargest = uint64_t(1) << 62;
    if (launch.flat()) {
      ZTC_RETURN_IF_ERROR(bucket(launch.bucket()));
      if (launch.flat_block() == 0 || launch.flat_block() > kLargest)
        return dataLoss(fmt::format("a flat launch with blocks of {} elements", launch.flat_block()));
      if (!Launch::FlatRange_IsValid(launch.flat_range()))
        return dataLoss(fmt::format("unknown range {}", int(launch.flat_range())));
      ZTC_RETURN_IF_ERROR(checkFlatOperands(launch));
    }
    if (launch.extent() > kLargest || launch.grain() > kLargest)
      return dataLoss(fmt::format("range of {} units in grains of {}", launch.extent(), launch.grain()));
    ZTC_RETURN_IF_ERROR(checkKernelSignature(plan_, step_, launch.kernel()));
    return launch.accumulate() == OVERWRITE ? Status::ok()
                                            : checkKernelSignature(plan_, step_, launch.kernel_add());
  }

  /// A kernel over a shard gets shards, a kernel over the whole bucket whole slots of it.
  Status checkFlatOperands(const Launch &launch) const {
    const uint64_t elements = plan_.buckets(static_cast<int>(launch.bucket())).elements();
    for (int i = 0; i < step_.operands_size(); ++i) {
      const SizeForm::Kind kind = slotOf(i).size().kind();
      if (slotOf(i).size().elements() != elements || (kind != SizeForm::SHARD && kind != SizeForm::FULL))
        continue;
      const bool isShard = kind == SizeForm::SHARD || step_.operands(i).own_shard();
      if (isShard != (launch.flat_range() == Launch::OWN_SHARD))
        return dataLoss(fmt::format("operand {}: {} bucket in a launch over {}", i,
                                    isShard ? "a shard of the" : "a whole",
                                    isShard ? "all of it" : "the rank's shard"));
    }
    return Status::ok();
  }

  /// Operand `index` is a whole slot of the bucket in the type of the collective, of this form.
  Status bucketSlot(int index, const char *name, SizeForm::Kind kind, const Collective &collective) const {
    const Slot &slot = slotOf(index);
    const Operand &operand = step_.operands(index);
    if (slot.size().kind() != kind || operand.offset() || operand.bytes() ||
        slot.size().elements() != plan_.buckets(static_cast<int>(collective.bucket())).elements() ||
        slot.size().element_bytes() != dataTypeBytes(collective.type()))
      return dataLoss(fmt::format("operand {} ({}): slot {} '{}' is not the whole {} of bucket {}", index, name,
                                  operand.slot(), slot.name(), kind == SizeForm::FULL ? "length" : "shard",
                                  collective.bucket()));
    return Status::ok();
  }

  /// A buffer for what other ranks send: it exists where there are others.
  Status receiveBuffer(int index, const Collective &collective) const {
    const Slot &slot = slotOf(index);
    if (slot.slot_class() != COMMUNICATION || slot.size().kind() != SizeForm::FULL || slot.size().elements() == 0 ||
        slot.size().element_bytes() != dataTypeBytes(collective.type()) || step_.operands(index).own_shard())
      return dataLoss(fmt::format("operand {} (scratch): slot {} '{}' is not a receive buffer", index,
                                  step_.operands(index).slot(), slot.name()));
    return Status::ok();
  }

  Status checkCollective(const Collective &collective) const {
    if (!Collective::Kind_IsValid(collective.kind()))
      return dataLoss(fmt::format("unknown collective {}", int(collective.kind())));
    if (collective.kind() != Collective::ALL_REDUCE)
      ZTC_RETURN_IF_ERROR(bucket(collective.bucket()));
    if (collective.axis().empty())
      return dataLoss("a collective over no axis");
    const bool isScalar = collective.kind() == Collective::ALL_REDUCE;
    if (collective.type() != F32 && (isScalar || !isNarrow(collective.type())))
      return dataLoss(fmt::format("a collective of type {}", dataTypeName(collective.type())));
    ZTC_RETURN_IF_ERROR(count(2));
    switch (collective.kind()) {
    case Collective::REDUCE_SCATTER:
      ZTC_RETURN_IF_ERROR(bucketSlot(0, "full", SizeForm::FULL, collective));
      if (step_.operands(0).own_shard())
        return dataLoss("operand 0 (full): only a shard of it");
      return receiveBuffer(1, collective);
    case Collective::ALL_REDUCE:
      ZTC_RETURN_IF_ERROR(holds(0, "value", 4));
      return receiveBuffer(1, collective);
    default:
      return checkAllGather(collective);
    }
  }

  /// At one rank nothing is copied: the shard is the full slot's own, or a slot whose storage the full slot shares.
  Status checkAllGather(const Collective &collective) const {
    const Operand &shard = step_.operands(0), &full = step_.operands(1);
    ZTC_RETURN_IF_ERROR(bucketSlot(0, "shard", shard.own_shard() ? SizeForm::FULL : SizeForm::SHARD, collective));
    ZTC_RETURN_IF_ERROR(bucketSlot(1, "full", SizeForm::FULL, collective));
    if (full.own_shard() ||
        (shard.own_shard() ? shard.slot() != full.slot() : slotOf(1).same_as_at_one_rank() != shard.slot() + 1))
      return dataLoss(fmt::format("at one rank slot {} would not be slot {}", full.slot(), shard.slot()));
    return Status::ok();
  }

  /// Operand `index` is a whole slot of form FULL in that type.
  Status bucketSlot(int index, const char *name, DataType type) const {
    const Slot &slot = slotOf(index);
    const Operand &operand = step_.operands(index);
    const bool isBucket = slot.size().kind() == SizeForm::FULL || slot.size().kind() == SizeForm::SHARD;
    if (!isBucket || operand.offset() || operand.bytes() || operand.own_shard() ||
        slot.size().element_bytes() != dataTypeBytes(type))
      return dataLoss(fmt::format("operand {} ({}): slot {} '{}' is not a bucket or shard of {}", index, name,
                                  operand.slot(), slot.name(), dataTypeName(type)));
    return Status::ok();
  }

  Status checkNarrow(const Narrow &narrow) const {
    ZTC_RETURN_IF_ERROR(count(2));
    ZTC_RETURN_IF_ERROR(gpuKernels(narrow));
    if (narrow.from() != F32 || !isNarrow(narrow.to()))
      return dataLoss(fmt::format("rounding from {} to {}", dataTypeName(narrow.from()), dataTypeName(narrow.to())));
    ZTC_RETURN_IF_ERROR(bucketSlot(0, "from", narrow.from()));
    ZTC_RETURN_IF_ERROR(bucketSlot(1, "to", narrow.to()));
    if (slotOf(0).size().kind() != slotOf(1).size().kind())
      return dataLoss("rounding a bucket to a shard, or a shard to a bucket");
    if (slotOf(0).size().elements() != slotOf(1).size().elements())
      return dataLoss(
          fmt::format("rounding {} elements to {}", slotOf(0).size().elements(), slotOf(1).size().elements()));
    return Status::ok();
  }

  /// A matrix (or a batch of them) of rows x columns with row stride `ld` inside operand `index`.
  Status matrix(int index, const char *name, uint64_t rows, uint64_t columns, uint64_t ld, uint64_t batch,
                uint64_t stride, uint64_t bytes) const {
    if (ld < columns && rows > 1)
      return dataLoss(fmt::format("operand {} ({}): row stride {} below {} columns", index, name, ld, columns));
    return holds(index, name, (Bytes(batch - 1) * stride + Bytes(rows - 1) * ld + columns) * bytes);
  }

  Status checkGemm(const Gemm &gemm) const {
    const DataType type = gemm.type_a();
    if (!real(type).isOk() || !real(gemm.type_c()).isOk())
      return dataLoss(fmt::format("matrix product of unknown types {} and {}", int(type), int(gemm.type_c())));
    if (gemm.type_c() != F32 && gemm.type_c() != type)
      return dataLoss(fmt::format("matrix product of {} into {}", dataTypeName(type), dataTypeName(gemm.type_c())));
    ZTC_RETURN_IF_ERROR(count(isNarrow(type) ? 4 : 3));
    ZTC_RETURN_IF_ERROR(accumulation(gemm.accumulate()));
    const uint64_t batch = gemm.batch() ? gemm.batch() : 1;
    if (!gemm.m() || !gemm.n() || !gemm.k())
      return dataLoss(fmt::format("matrix product of size {} x {} x {}", gemm.m(), gemm.n(), gemm.k()));
    const uint64_t in = dataTypeBytes(type), out = dataTypeBytes(gemm.type_c());
    const bool ta = gemm.transpose_a(), tb = gemm.transpose_b();
    ZTC_RETURN_IF_ERROR(
        matrix(0, "a", ta ? gemm.k() : gemm.m(), ta ? gemm.m() : gemm.k(), gemm.lda(), batch, gemm.stride_a(), in));
    ZTC_RETURN_IF_ERROR(
        matrix(1, "b", tb ? gemm.n() : gemm.k(), tb ? gemm.k() : gemm.n(), gemm.ldb(), batch, gemm.stride_b(), in));
    // Each product has its own result; operands may be the same for all.
    if (batch > 1 && gemm.stride_c() < gemm.n())
      return dataLoss(
          fmt::format("{} products, whose results of {} columns are {} apart", batch, gemm.n(), gemm.stride_c()));
    return matrix(2, "c", gemm.m(), gemm.n(), gemm.ldc(), batch, gemm.stride_c(), out);
  }

  Status checkAttention(const Attention &attention) const {
    const bool grad = attention.grad();
    ZTC_RETURN_IF_ERROR(real(attention.type()));
    ZTC_RETURN_IF_ERROR(gpuKernels(attention));
    ZTC_RETURN_IF_ERROR(count(grad ? 10 : 6));
    if (!attention.batch() || !attention.seq() || !attention.heads() || !attention.kv_heads() ||
        !attention.head_dim() || !attention.block())
      return dataLoss("attention with a size of zero");
    if (attention.heads() % attention.kv_heads() != 0)
      return dataLoss(fmt::format("attention: {} heads over {} key heads", attention.heads(), attention.kv_heads()));
    if (grad) {
      ZTC_RETURN_IF_ERROR(hostKernel(attention.softmax_grad_kernel(), attention));
      ZTC_RETURN_IF_ERROR(hostKernel(attention.row_dot_kernel(), attention));
    } else {
      ZTC_RETURN_IF_ERROR(hostKernel(attention.softmax_kernel(), attention));
    }
    const Bytes rows = Bytes(attention.batch()) * attention.seq();
    const Bytes q = rows * attention.heads() * attention.head_dim(),
                kv = rows * attention.kv_heads() * attention.head_dim();
    const Bytes lse = rows * attention.heads() * 4;
    struct Use {
      const char *name;
      const Bytes *elements;
    };
    const std::initializer_list<Use> forward = {{"q", &q}, {"k", &kv}, {"v", &kv}, {"out", &q}, {"lse", nullptr}};
    const std::initializer_list<Use> backward = {{"q", &q},    {"k", &kv}, {"v", &kv},  {"out", &q}, {"lse", nullptr},
                                                 {"dout", &q}, {"dq", &q}, {"dk", &kv}, {"dv", &kv}};
    int index = 0;
    for (const Use &use : grad ? backward : forward) {
      ZTC_RETURN_IF_ERROR(holds(index, use.name, use.elements ? *use.elements * dataTypeBytes(attention.type()) : lse));
      ++index;
    }
    return Status::ok();
  }

  Status checkLinearCrossEntropy(const LinearCrossEntropy &loss) const {
    ZTC_RETURN_IF_ERROR(real(loss.type()));
    ZTC_RETURN_IF_ERROR(count((loss.training() ? 8 : 5) + (isNarrow(loss.type()) ? 1 : 0)));
    ZTC_RETURN_IF_ERROR(hostKernel(loss.rows_kernel(), loss));
    ZTC_RETURN_IF_ERROR(gpuKernels(loss));
    if (!loss.gpu_kernels().empty() && !loss.gpu_chunk())
      return dataLoss("linear_cross_entropy without a chunk for GPUs");
    ZTC_RETURN_IF_ERROR(accumulation(loss.accumulate()));
    ZTC_RETURN_IF_ERROR(accumulation(loss.loss_accumulate()));
    if (!loss.tokens() || !loss.width() || !loss.vocabulary() || !loss.chunk())
      return dataLoss("linear_cross_entropy with a size of zero");
    const uint64_t bytes = dataTypeBytes(loss.type());
    const Bytes hidden = Bytes(loss.tokens()) * loss.width(), head = Bytes(loss.vocabulary()) * loss.width();
    ZTC_RETURN_IF_ERROR(holds(0, "hidden", hidden * bytes));
    ZTC_RETURN_IF_ERROR(holds(1, "head", head * bytes));
    ZTC_RETURN_IF_ERROR(holds(2, "targets", Bytes(loss.tokens()) * 4));
    ZTC_RETURN_IF_ERROR(holds(3, "loss", 4));
    if (!loss.training())
      return Status::ok();
    ZTC_RETURN_IF_ERROR(holds(5, "scale", 4));
    ZTC_RETURN_IF_ERROR(holds(6, "dhidden", hidden * bytes));
    return holds(7, "dhead", head * 4);
  }

  const Plan &plan_;
  const std::vector<uint64_t> &slotBytes_;
  const Step &step_;
};

} // namespace

Status validateStep(const Plan &plan, const std::vector<uint64_t> &slotBytes, const Step &step) {
  return StepChecker(plan, slotBytes, step).check();
}

} // namespace ztc
