// Attention and its gradient: by cuDNN where it is there and takes the call within the workspace that the plan
// reserves, else by generated kernels, see runtime/Format/ServiceKernels.md. Nothing of the size of the scores is in
// memory.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Device/cuda/CudnnShape.h"
#include "runtime/Format/CudnnAttention.h"
#include "runtime/Format/PlanValidator.h"
#include <array>
#include <bit>
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaAttention : public CudaAttentionStep {
public:
  explicit CudaAttention(const CudaPrepare &from) : CudaAttentionStep(from), attention_(from.step.attention()) {}

  Status prepare(const CudaPrepare &from) {
    const bool grad = attention_.grad();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {(grad ? 10 : 6) + (attention_.packed() ? 1 : 0)}));
    const uint64_t batch = attention_.batch(), seq = attention_.seq(), heads = attention_.heads(),
                   kvHeads = attention_.kv_heads(), dim = attention_.head_dim();
    if (!batch || !seq || !heads || !kvHeads || !dim || heads % kvHeads != 0)
      return dataLoss("attention has an empty dimension or heads that do not divide");
    // Kernels number what is in a batch, and all rows, with 31 bits.
    if (static_cast<unsigned __int128>(batch) * heads * (seq + kMaxRows) >> 31)
      return dataLoss(
          fmt::format("attention over {} sequences of {} in {} heads has too many rows", batch, seq, heads));
    const uint64_t bytes = dataTypeBytes(attention_.type());
    const auto queries = {batch, seq, heads, dim}, keys = {batch, seq, kvHeads, dim};
    for (size_t index : grad ? std::vector<size_t>{Q, Out, DOut, DQ} : std::vector<size_t>{Q, Out})
      ZTC_RETURN_IF_ERROR(operands_.requireElements(index, queries, bytes));
    for (size_t index : grad ? std::vector<size_t>{K, V, DK, DV} : std::vector<size_t>{K, V})
      ZTC_RETURN_IF_ERROR(operands_.requireElements(index, keys, bytes));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(Lse, {batch, heads, seq}));
    if (grad)
      ZTC_RETURN_IF_ERROR(operands_.requireElements(Scratch, {gpuAttentionGradScratchBytes(batch, seq, heads)}, 1));
    if (attention_.packed())
      ZTC_RETURN_IF_ERROR(operands_.requireElements(starts(), {batch, seq}));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(kernels_, gpuKernels(attention_.gpu_kernels(), (grad ? 3 : 1) + (hasTable() ? 1 : 0)));
    choose(from.context.documents);
    return Status::ok();
  }

  std::string signature() const override {
    const ZtcCudnnAttention &shape = whole_;
    return fmt::format("attention{} {} of {} x {}, {}/{} heads of {}{}{}{}{}, {} bytes beside",
                       isGradient() ? "'s gradient" : "", dataTypeName(attention_.type()), attention_.batch(),
                       shape.seq, shape.heads, shape.kvHeads, shape.headDim, shape.causal ? ", causal" : "",
                       shape.window ? fmt::format(", window {}", shape.window) : "",
                       shape.documents ? fmt::format(", {} documents of {}", shape.documents, shape.longest) : "",
                       isGradient() && !shape.deterministic ? ", not deterministic" : "", operands_.bytes(scratch()));
  }
  bool isGradient() const override { return attention_.grad(); }
  std::vector<AttentionWay> ways() const override {
    std::vector<AttentionWay> ways;
    for (AttentionWay way : {AttentionWay::CudnnScores, AttentionWay::Cudnn})
      if (callOf(way).graph)
        ways.push_back(way);
    ways.push_back(AttentionWay::OwnKernels);
    return ways;
  }
  AttentionWay way() const override { return way_; }
  void take(AttentionWay way, const std::string &why) override {
    way_ = way;
    if (way == AttentionWay::OwnKernels)
      obstacle_ = why;
  }
  std::string text() const override {
    if (way_ == AttentionWay::OwnKernels)
      return fmt::format("own kernels ({})", obstacle_);
    const ZtcCudnnAttention &part = callOf(way_).part;
    const uint64_t parts = uint64_t(whole_.batch / part.batch) * uint64_t(whole_.kvHeads / part.kvHeads);
    std::string text = resources_.cudnn.version();
    if (way_ == AttentionWay::CudnnScores)
      text += " with scores in memory";
    if (parts > 1)
      text += fmt::format(" in {} parts", parts);
    return isGradient() && !whole_.deterministic ? text + ", not deterministic" : text;
  }
  Status prepareTrial() override {
    if (!attention_.packed())
      return Status::ok();
    // As many documents as a row has at most, of one length.
    const uint64_t seq = attention_.seq(), most = std::max<uint64_t>(1, table_.documents),
                   length = (seq + most - 1) / most;
    std::vector<int32_t> starts;
    for (uint64_t i = 0; i < attention_.batch() * seq; ++i)
      starts.push_back(int32_t(i % seq / length * length));
    ZTC_RETURN_IF_ERROR(driver().check(
        driver().cuMemcpyHtoDAsync_v2(address(this->starts()), starts.data(), starts.size() * sizeof(int32_t), stream_),
        "cuMemcpyHtoDAsync"));
    return driver().check(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }

  Status execute(uint32_t) override {
    if (way_ != AttentionWay::OwnKernels)
      return attention_.packed() ? executePacked() : executeParts(0, attention_.batch(), nullptr);
    if (!attention_.grad())
      return launchOver(kernels_[0], {Q, K, V, Out, Lse}, attention_.heads());
    ZTC_RETURN_IF_ERROR(launchOver(kernels_[0], {DOut, Out, Scratch}, attention_.heads()));
    ZTC_RETURN_IF_ERROR(launchOver(kernels_[1], {Q, K, V, DOut, Lse, Scratch, DK, DV}, attention_.kv_heads()));
    return launchOver(kernels_[2], {Q, K, V, DOut, Lse, Scratch, DQ}, attention_.heads());
  }

private:
  /// Of the forward step only those up to Lse, and then its scratch. The module's tensors have the same order.
  enum Operands : size_t { Q, K, V, Out, Lse, DOut, DQ, DK, DV, Scratch };
  static_assert(Lse == size_t(ZTC_CUDNN_LSE) && DV == size_t(ZTC_CUDNN_DV) && Scratch == size_t(ZTC_CUDNN_TENSORS));
  size_t scratch() const { return attention_.grad() ? Scratch : Lse + 1; }
  /// Of packed rows: where each position's document starts.
  size_t starts() const { return scratch() + 1; }

  AttentionExtras extras() const { return {attention_.packed(), attention_.softcap() != 0}; }
  bool hasTable() const { return hasDocumentTable(attention_.type() != plan::F32, attention_.head_dim(), extras()); }

  /// What cuDNN computes at a time: a call as a whole or, of a gradient, parts of it.
  struct CudnnCall {
    ZtcCudnnGraph *graph = nullptr; ///< null: there is none
    ZtcCudnnAttention part{};
  };
  const CudnnCall &callOf(AttentionWay way) const { return way == AttentionWay::CudnnScores ? byScores_ : byCudnn_; }

  /// What no run can change is known to the compiler, too.
  void choose(DocumentBounds documents) {
    const char *known = cudnnAttentionObstacle(attention_.type() != plan::F32, attention_.head_dim(), extras());
    obstacle_ = known ? std::string(known) : findCalls(documents).message();
    way_ = ways().front();
  }

  /// The reason where there is none.
  Status findCalls(DocumentBounds documents) {
    uint64_t room = operands_.bytes(scratch());
    whole_ = cudnnShape(attention_, resources_.deterministic);
    if (attention_.packed()) {
      const uint64_t most = cudnnMostDocuments(attention_.seq());
      if (documents.most == 0)
        return failedPrecondition("how many documents a row has is not known");
      if (documents.most > most)
        return failedPrecondition(
            fmt::format("a row has up to {} documents, the plan reserves for {}", documents.most, most));
      table_.documents = documents.most;
      room -= std::min(room, table_.bytes(attention_.batch()));
      whole_ = cudnnPackedShape(attention_, documents, resources_.deterministic);
    }
    const Status status = findCall(whole_, room, byCudnn_);
    // The scores of packed rows would be those of all documents as long as the longest.
    if (whole_.deterministic && !attention_.packed() && resources_.cudnn.hasTwoGradients(resources_.gpu)) {
      ZtcCudnnAttention whole = whole_;
      whole.linearWorkspace = 0;
      (void)findCall(whole, room, byScores_); // there is another way
    }
    return status;
  }

  /// The call as a whole or, of a gradient whose workspace is larger than `room`, in the largest parts for which it is
  /// not: each part's results are its own, so that no bit depends on their number.
  Status findCall(const ZtcCudnnAttention &whole, uint64_t room, CudnnCall &call) {
    Status refusal;
    double wanted = 0; // by the whole
    for (const ZtcCudnnAttention &part : cudnnParts(whole)) {
      // A plan takes cuDNN seconds to make: none is asked for that cannot fit.
      const double share = double(part.batch * part.heads) / double(whole.batch * whole.heads);
      if (share * wanted > 1.02 * double(room))
        continue;
      StatusOr<ZtcCudnnGraph *> graph = resources_.cudnn.find(part, room, resources_.libraries, resources_.gpu);
      if (graph.isOk()) {
        call = {*graph, part};
        return Status::ok();
      }
      if (wanted == 0) {
        refusal = graph.status();
        wanted = double(resources_.cudnn.workspaceOf(whole));
        if (!attention_.grad() || wanted <= double(room)) // refused for another reason
          break;
      }
    }
    return refusal;
  }

  /// Row by row: where the documents of all lie is found out once.
  Status executePacked() {
    const uint64_t batch = attention_.batch(), dim = attention_.head_dim();
    ZTC_RETURN_IF_ERROR(launch(kernels_.back(),
                               {address(starts()), address(scratch()), attention_.seq(), table_.documents,
                                attention_.heads() * dim, attention_.kv_heads() * dim},
                               batch));
    auto *const rows = reinterpret_cast<int32_t *>(operands_.address(scratch()));
    for (uint64_t row = 0; row < batch; ++row)
      ZTC_RETURN_IF_ERROR(executeParts(row, 1, rows + row * table_.numbersOfRow()));
    return Status::ok();
  }

  /// `documents`: of a packed row, its part of the table.
  Status executeParts(uint64_t firstSequence, uint64_t sequences, int32_t *documents) {
    const int64_t elementBytes = int64_t(dataTypeBytes(attention_.type()));
    const auto first = int64_t(firstSequence), end = int64_t(firstSequence + sequences);
    std::byte *const workspace =
        operands_.address(scratch()) + (documents ? table_.bytes(attention_.batch()) : uint64_t(0));
    const CudnnCall &call = callOf(way_);
    for (int64_t sequence = first; sequence < end; sequence += call.part.batch)
      for (int64_t kvHead = 0; kvHead < whole_.kvHeads; kvHead += call.part.kvHeads) {
        const int64_t head = kvHead * (whole_.heads / whole_.kvHeads);
        std::array<void *, ZTC_CUDNN_ALL_TENSORS> tensors{};
        const size_t count = attention_.grad() ? size_t(ZTC_CUDNN_TENSORS) : size_t(ZTC_CUDNN_LSE) + 1;
        for (size_t i = 0; i < count; ++i) {
          const ZtcCudnnStrides &strides = whole_.strides[i];
          const bool ofKeys = i == K || i == V || i == DK || i == DV;
          const int64_t offset =
              i == Lse ? 4 * (sequence * whole_.heads + head) * whole_.seq
                       : elementBytes * (sequence * strides.batch + (ofKeys ? kvHead : head) * strides.head);
          tensors[i] = operands_.address(i) + offset;
        }
        if (documents) {
          tensors[ZTC_CUDNN_LENGTHS] = documents + table_.lengths();
          tensors[ZTC_CUDNN_QUERY_OFFSETS] = documents + table_.queryOffsets();
          tensors[ZTC_CUDNN_KEY_OFFSETS] = documents + table_.keyOffsets();
          tensors[ZTC_CUDNN_LSE_OFFSETS] = documents + table_.lseOffsets();
        }
        ZTC_RETURN_IF_ERROR(resources_.cudnn.execute(call.graph, stream_, tensors.data(), workspace));
      }
    return Status::ok();
  }

  /// The kernel that looks at rows alone, of whatever document; null in the forward form.
  const CudaKernel *delta() const { return attention_.grad() ? &kernels_[0] : nullptr; }

  /// No block has more.
  static constexpr uint64_t kMaxRows = 1024;

  /// A block's rows are of one head: the extent counts whole blocks.
  Status launchOver(const CudaKernel &kernel, std::initializer_list<Operands> operands, uint64_t heads) {
    const uint64_t rows = kernel.blocks(attention_.seq()) * kernel.unitsPerBlock;
    parameters_.clear();
    for (Operands operand : operands)
      parameters_.push_back(address(operand));
    if (attention_.packed() && &kernel != delta())
      parameters_.push_back(address(starts()));
    for (uint64_t scalar : {attention_.seq(), attention_.heads(), attention_.kv_heads(), attention_.window(),
                            uint64_t(std::bit_cast<uint32_t>(float(attention_.scale())))})
      parameters_.push_back(scalar);
    if (attention_.softcap() != 0 && &kernel != delta())
      parameters_.push_back(std::bit_cast<uint32_t>(float(attention_.softcap())));
    parameters_.push_back(attention_.batch() * heads * rows);
    return launch(kernel, parameters_.data(), parameters_.size());
  }

  const plan::Attention attention_;
  AttentionWay way_ = AttentionWay::OwnKernels;
  std::string obstacle_;      ///< of cuDNN
  ZtcCudnnAttention whole_{}; ///< of all sequences, or of a packed row
  CudnnCall byCudnn_, byScores_;
  DocumentTable table_;
  std::vector<CudaKernel> kernels_;
  std::vector<uint64_t> parameters_;
};

} // namespace

CudaAttentionStep::CudaAttentionStep(const CudaPrepare &from) : CudaStep(from) {
  resources_.attention.push_back(this);
}
CudaAttentionStep::~CudaAttentionStep() {
  std::erase(resources_.attention, this);
}

PreparedStep prepareCudaAttention(const CudaPrepare &from) {
  auto step = std::make_unique<CudaAttention>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
