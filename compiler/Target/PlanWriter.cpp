#include "compiler/Target/PlanWriter.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Target/StepWriter.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "runtime/Core/File.h"
#include "runtime/Format/Bindings.h"
#include "runtime/Format/KernelSignature.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/WeightDigest.h"
#include <map>

using namespace mlir;

namespace ztc {
namespace {

/// Writes module-level records first, then the programs that refer to them by index.
class PlanWriter {
public:
  PlanWriter(ModuleOp module, const PlanOptions &options, plan::Plan &out)
      : module(module), options(options), out(out) {}
  LogicalResult write();

private:
  void writeHeader();
  LogicalResult writeSlot(plan_ir::SlotOp slot);
  LogicalResult writeBucket(plan_ir::BucketOp bucket);
  LogicalResult writeParameter(plan_ir::ParameterOp parameter);
  LogicalResult writeSource(plan_ir::ParameterOp parameter, plan::Parameter &record);
  /// Path, place and type of a source, or of a part of one, and what its bytes are now.
  template <typename Piece> void writePiece(DictionaryAttr dictionary, Piece &piece);
  template <typename Piece> void addDigest(Piece &source);
  void writeCodes(DictionaryAttr dictionary, plan::WeightSource::Codes &codes);
  LogicalResult writeConstant(plan_ir::ConstantOp constant);
  LogicalResult writeBindings(plan_ir::BindingsOp bindings);
  LogicalResult writeKernel(plan_ir::KernelOp kernel);
  LogicalResult writeProgram(plan_ir::ProgramOp program);
  LogicalResult writeStep(plan_ir::StepOpInterface step, plan::Step &record);
  using Indices = SymbolIndices;
  FailureOr<uint32_t> indexOf(Operation *op, const Indices &indices, FlatSymbolRefAttr symbol, StringRef what);
  LogicalResult setSlot(Operation *op, FlatSymbolRefAttr symbol, uint32_t &index);

  ModuleOp module;
  const PlanOptions &options;
  std::map<std::string, MappedFile> weightFiles;
  plan::Plan &out;
  Indices slots, buckets, kernels, images;
};

FailureOr<uint32_t> PlanWriter::indexOf(Operation *op, const Indices &indices, FlatSymbolRefAttr symbol,
                                        StringRef what) {
  auto found = indices.find(symbol.getAttr());
  if (found == indices.end())
    return op->emitOpError("refers to an unknown ") << what << " " << symbol, failure();
  return found->second;
}

void PlanWriter::writeHeader() {
  out.set_ztc_version(options.ztcVersion);
  out.set_precision(options.precision);
  out.set_zero(options.zero);
  out.set_budget_bytes(options.budgetBytes);
  if (options.reserveBytes)
    out.set_reserve_bytes(*options.reserveBytes);
  out.set_tf32(options.tf32);
  out.set_adapter_config(options.adapterConfig);
  for (const auto &[name, value] : options.options)
    (*out.mutable_options())[name] = value;
  bindNothing(*out.mutable_bindings());
  for (auto model : module.getOps<plan_ir::ModelOp>()) {
    plan::Model &record = *out.mutable_model();
    record.set_name(model.getModel().str());
    record.set_batch(model.getBatch());
    record.set_seq(model.getSeq());
    record.set_vocabulary(model.getVocabulary());
    record.set_position_limit(model.getPositionLimit());
    record.set_layers(model.getLayers());
    record.set_parameters(model.getParameters());
    record.set_flops_per_token(model.getFlopsPerToken().convertToDouble());
    record.set_hf_config(options.hfConfig);
  }
}

LogicalResult PlanWriter::writeSlot(plan_ir::SlotOp slot) {
  slots[slot.getSymNameAttr()] = out.slots_size();
  plan::Slot &record = *out.add_slots();
  record.set_name(slot.getSymName().str());
  record.set_slot_class(static_cast<plan::SlotClass>(slot.getSlotClass()));
  plan::SizeForm &size = *record.mutable_size();
  size.set_kind(static_cast<plan::SizeForm::Kind>(slot.getSizeKind()));
  size.set_elements(slot.getElements());
  if (std::optional<uint64_t> gpu = slot.getGpuElements())
    size.set_gpu_elements(*gpu);
  size.set_element_bytes(slot.getElementBytes());
  size.set_block_elements(uint32_t(slot.getBlockElements().value_or(0)));
  size.set_quantum(uint32_t(slot.getQuantum().value_or(0)));
  size.set_only_if_accumulating(slot.getOnlyIfAccumulating());
  size.set_only_if_several_ranks(slot.getOnlyIfSeveralRanks());
  FailureOr<plan::DataType> type = dataType(slot, slot.getType());
  if (failed(type))
    return failure();
  record.set_type(*type);
  for (int64_t dimension : slot.getShape())
    record.add_shape(dimension);
  record.set_layer(slot.getLayer());
  record.set_reason(slot.getReason().str());
  record.set_persistent(slot.getPersistent());
  record.set_accumulator(slot.getAccumulator());
  record.set_space(static_cast<plan::Space>(slot.getSpace()));
  if (FlatSymbolRefAttr other = slot.getSameAsAtOneRankAttr()) {
    FailureOr<uint32_t> index = indexOf(slot, slots, other, "earlier slot");
    if (failed(index))
      return failure();
    record.set_same_as_at_one_rank(*index + 1);
  }
  if (FlatSymbolRefAttr other = slot.getSameAsIfAccumulatingAttr()) {
    FailureOr<uint32_t> index = indexOf(slot, slots, other, "earlier slot");
    if (failed(index))
      return failure();
    record.set_same_as_if_accumulating(*index + 1);
  }
  return success();
}

LogicalResult PlanWriter::writeBucket(plan_ir::BucketOp bucket) {
  buckets[bucket.getSymNameAttr()] = out.buckets_size();
  plan::Bucket &record = *out.add_buckets();
  record.set_name(bucket.getSymName().str());
  record.set_elements(bucket.getElements());
  record.set_decayed(bucket.getDecayed());
  record.set_trainable(bucket.getTrainable());
  record.set_quantum(uint32_t(bucket.getQuantum().value_or(0)));
  struct Field {
    FlatSymbolRefAttr symbol;
    void (plan::Bucket::*set)(uint32_t);
  };
  for (auto [symbol, set] : {Field{bucket.getParameterSlotAttr(), &plan::Bucket::set_parameter_slot},
                             Field{bucket.getGradientSlotAttr(), &plan::Bucket::set_gradient_slot},
                             Field{bucket.getMasterSlotAttr(), &plan::Bucket::set_master_slot}}) {
    (record.*set)(kAbsent);
    if (!symbol)
      continue;
    FailureOr<uint32_t> index = indexOf(bucket, slots, symbol, "slot");
    if (failed(index))
      return failure();
    (record.*set)(*index);
  }
  for (auto kept : bucket.getStates().getAsRange<plan_ir::StateAttr>()) {
    FailureOr<uint32_t> index = indexOf(bucket, slots, kept.getSlot(), "slot");
    if (failed(index))
      return failure();
    plan::Bucket::State &state = *record.add_states();
    state.set_name(kept.getName().str());
    state.set_slot(*index);
  }
  return success();
}

LogicalResult PlanWriter::writeSource(plan_ir::ParameterOp parameter, plan::Parameter &record) {
  plan::WeightSource &source = *record.mutable_source();
  DictionaryAttr dictionary = parameter.getSource().value_or(DictionaryAttr());
  if (!dictionary)
    return success();
  if (auto format = dictionary.getAs<StringAttr>("format")) {
    record.set_format(weightFormat(format.getValue()));
    for (int64_t dimension : dictionary.getAs<DenseI64ArrayAttr>("quantized_shape").asArrayRef())
      record.add_quantized_shape(dimension);
    record.set_quantized_transposed(dictionary.contains("quantized_transposed"));
  }
  writePiece(dictionary, source);
  Attribute transpose = dictionary.get("transpose");
  auto flag = dyn_cast_or_null<BoolAttr>(transpose);
  source.set_transpose(flag ? flag.getValue() : isa_and_nonnull<UnitAttr>(transpose));
  if (auto type = dictionary.getAs<TypeAttr>("type")) {
    FailureOr<plan::DataType> value = dataType(parameter, type.getValue());
    if (failed(value))
      return failure();
    source.set_type(*value);
  }
  source.set_dequantized(dictionary.contains("dequantized"));
  if (auto codes = dictionary.getAs<DictionaryAttr>("codes"))
    writeCodes(codes, *source.mutable_codes());
  if (auto shift = dictionary.getAs<FloatAttr>("shift"))
    if (shift.getValueAsDouble() != 0)
      source.set_shift(shift.getValueAsDouble());
  if (auto start = dictionary.getAs<StringAttr>("start"))
    source.set_start(llvm::StringSwitch<plan::WeightSource::Start>(start.getValue())
                         .Case("zero", plan::WeightSource::ZERO)
                         .Case("one", plan::WeightSource::ONE)
                         .Case("uniform", plan::WeightSource::UNIFORM)
                         .Case("normal", plan::WeightSource::NORMAL)
                         .Case("orthogonal_rows", plan::WeightSource::ORTHOGONAL_ROWS)
                         .Case("orthogonal_columns", plan::WeightSource::ORTHOGONAL_COLUMNS)
                         .Default(plan::WeightSource::NONE));
  if (auto range = dictionary.getAs<FloatAttr>("range"))
    source.set_range(range.getValueAsDouble());
  return success();
}

static uint64_t number(DictionaryAttr dictionary, StringRef name) {
  auto attribute = dictionary.getAs<IntegerAttr>(name);
  return attribute ? attribute.getInt() : 0;
}

template <typename Piece> void PlanWriter::writePiece(DictionaryAttr dictionary, Piece &piece) {
  if (auto path = dictionary.getAs<StringAttr>("path"))
    piece.set_path(path.getValue().str());
  piece.set_offset(number(dictionary, "offset"));
  piece.set_length(number(dictionary, "length"));
  piece.set_file_size(number(dictionary, "file_size"));
  piece.set_type(plan::F32);
  if (auto name = dictionary.getAs<StringAttr>("type")) // as safetensors calls it
    piece.set_type(llvm::StringSwitch<plan::DataType>(name.getValue())
                       .Case("F16", plan::F16)
                       .Case("BF16", plan::BF16)
                       .Case("F64", plan::F64)
                       .Case("U8", plan::U8)
                       .Default(plan::F32));
  if (!piece.path().empty() && options.withContents)
    addDigest(piece);
}

void PlanWriter::writeCodes(DictionaryAttr dictionary, plan::WeightSource::Codes &codes) {
  if (auto kind = dictionary.getAs<StringAttr>("kind"))
    codes.set_kind(llvm::StringSwitch<plan::WeightSource::Codes::Kind>(kind.getValue())
                       .Case("e4m3", plan::WeightSource::Codes::E4M3)
                       .Case("e5m2", plan::WeightSource::Codes::E5M2)
                       .Default(plan::WeightSource::Codes::INTEGER));
  codes.set_bits(number(dictionary, "bits"));
  codes.set_is_signed(dictionary.contains("signed"));
  codes.set_rows(number(dictionary, "rows"));
  codes.set_columns(number(dictionary, "columns"));
  codes.set_row_bytes(number(dictionary, "row_bytes"));
  codes.set_transposed(dictionary.contains("transposed"));
  codes.set_block_rows(number(dictionary, "block_rows"));
  codes.set_block_columns(number(dictionary, "block_columns"));
  codes.set_zero(float(number(dictionary, "zero")));
  auto write = [&](DictionaryAttr from, plan::WeightSource::Piece &piece) {
    writePiece(from, piece);
    if (auto data = from.getAs<StringAttr>("data"))
      piece.set_data(data.getValue().str());
  };
  if (auto scales = dictionary.getAs<DictionaryAttr>("scales"))
    write(scales, *codes.mutable_scales());
  if (auto zeros = dictionary.getAs<DictionaryAttr>("zeros")) {
    write(zeros, *codes.mutable_zeros());
    codes.set_zero_row_bits(number(dictionary, "zero_row_bits"));
  }
}

/// What the bytes are now; nothing where their file cannot be read, which the run says.
template <typename Piece> void PlanWriter::addDigest(Piece &piece) {
  auto place = weightFiles.find(piece.path());
  if (place == weightFiles.end()) {
    StatusOr<MappedFile> file = MappedFile::open(piece.path());
    if (!file.isOk())
      return;
    place = weightFiles.emplace(piece.path(), std::move(*file)).first;
  }
  std::span<const std::byte> bytes = place->second.bytes();
  if (piece.offset() > bytes.size() || piece.length() > bytes.size() - piece.offset())
    return;
  Sha256Digest digest = digestOfWeights(bytes.subspan(piece.offset(), piece.length()));
  piece.set_sha256(digest.data(), digest.size());
}

LogicalResult PlanWriter::writeParameter(plan_ir::ParameterOp parameter) {
  plan::Parameter &record = *out.add_parameters();
  record.set_name(parameter.getLabel().str());
  for (Attribute name : parameter.getTied())
    record.add_tied(cast<StringAttr>(name).getValue().str());
  for (int64_t dimension : parameter.getShape())
    record.add_shape(dimension);
  FailureOr<plan::DataType> type = dataType(parameter, parameter.getType());
  FailureOr<uint32_t> bucket = indexOf(parameter, buckets, parameter.getBucketAttr(), "bucket");
  if (failed(type) || failed(bucket))
    return failure();
  record.set_type(*type);
  record.set_bucket(*bucket);
  record.set_offset(parameter.getOffset());
  record.set_decayed(parameter.getDecayed());
  record.set_trainable(parameter.getTrainable());
  return writeSource(parameter, record);
}

/// The bytes of dense elements, splats written out.
static std::string bytesOf(ElementsAttr data) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(data)) {
    ArrayRef<char> bytes =
        resource.getRawHandle().getBlob() ? resource.getRawHandle().getBlob()->getData() : ArrayRef<char>();
    return std::string(bytes.begin(), bytes.end());
  }
  auto dense = cast<DenseElementsAttr>(data);
  if (dense.getElementType().isInteger(1)) { // a byte each, however the attribute packs them
    std::string bytes;
    for (bool value : dense.getValues<bool>())
      bytes.push_back(value);
    return bytes;
  }
  ArrayRef<char> raw = dense.getRawData();
  std::string bytes(raw.begin(), raw.end());
  if (dense.isSplat()) {
    std::string one = bytes;
    for (int64_t i = 1; i < dense.getNumElements(); ++i)
      bytes += one;
  }
  return bytes;
}

LogicalResult PlanWriter::writeConstant(plan_ir::ConstantOp constant) {
  FailureOr<uint32_t> slot = indexOf(constant, slots, constant.getSlotAttr(), "slot");
  if (failed(slot))
    return failure();
  plan::Constant &record = *out.add_constants();
  record.set_slot(*slot);
  if (options.withContents)
    record.set_data(bytesOf(constant.getData()));
  return success();
}

LogicalResult PlanWriter::writeBindings(plan_ir::BindingsOp bindings) {
  plan::Bindings &record = *out.mutable_bindings();
  static const llvm::StringMap<void (plan::Bindings::*)(uint32_t)> fields{
      {"tokens", &plan::Bindings::set_tokens},
      {"targets", &plan::Bindings::set_targets},
      {"loss", &plan::Bindings::set_loss},
      {"step_parameters", &plan::Bindings::set_step_parameters},
      {"eval_loss", &plan::Bindings::set_eval_loss},
      {"gradient_norm", &plan::Bindings::set_gradient_norm},
      {"finite", &plan::Bindings::set_finite},
      {"position", &plan::Bindings::set_position},
      {"logits", &plan::Bindings::set_logits},
      {"staging", &plan::Bindings::set_staging},
      {"first_token", &plan::Bindings::set_first_token},
      {"document_starts", &plan::Bindings::set_document_starts},
      {"loss_weights", &plan::Bindings::set_loss_weights},
      {"fp8_amax", &plan::Bindings::set_fp8_amax},
  };
  for (NamedAttribute entry : bindings.getSlots()) {
    auto field = fields.find(entry.getName().getValue());
    auto symbol = dyn_cast<FlatSymbolRefAttr>(entry.getValue());
    if (field == fields.end() || !symbol)
      return bindings.emitOpError("the plan file has no binding ") << entry.getName();
    FailureOr<uint32_t> slot = indexOf(bindings, slots, symbol, "slot");
    if (failed(slot))
      return failure();
    (record.*field->second)(*slot);
  }
  return success();
}

LogicalResult PlanWriter::writeKernel(plan_ir::KernelOp kernel) {
  kernels[kernel.getSymNameAttr()] = out.kernels_size();
  plan::Kernel &record = *out.add_kernels();
  record.set_name(kernel.getSymName().str());
  record.set_form(kernel.getForm().str());
  record.set_text(kernel.getText().str());
  for (Attribute entry : kernel.getImages()) {
    auto device = dyn_cast<DictionaryAttr>(entry);
    FailureOr<uint32_t> image = indexOf(
        kernel, images, device ? device.getAs<FlatSymbolRefAttr>("image") : cast<FlatSymbolRefAttr>(entry), "image");
    if (failed(image))
      return failure();
    plan::Kernel::Version &version = *record.add_versions();
    if (auto outside = device ? device.getAs<StringAttr>("outside") : StringAttr())
      version.set_outside(outside.str());
    if (device && device.get("block_threads")) {
      auto field = [&](StringRef name) { return uint32_t(device.getAs<IntegerAttr>(name).getInt()); };
      version.set_block_threads(field("block_threads"));
      version.set_units_per_block(field("units_per_block"));
      version.set_shared_bytes(field("shared_bytes"));
      version.set_registers(field("registers"));
      version.set_local_bytes(field("local_bytes"));
      version.set_waits(bool(device.get("waits")));
    }
    version.set_image(*image);
    version.set_target(out.images(*image).target());
  }
  return success();
}

LogicalResult PlanWriter::writeStep(plan_ir::StepOpInterface step, plan::Step &record) {
  record.set_name(step.getStepLabel().str());
  record.set_layer(step.getStepLayer());
  record.set_stream(step.getStepStream());
  record.set_reason(step.getStepReason().str());
  record.set_flops(step.getStepFlops());
  record.set_only_last_microstep(step.isOnlyLast());
  record.set_only_if_accumulating(step.isOnlyIfAccumulating());
  record.set_unless_accumulating(step.isUnlessAccumulating());
  if (auto owned = step->getAttrOfType<StringAttr>(dist::kOwnedParameter)) {
    const auto found = llvm::find_if(
        out.parameters(), [&](const plan::Parameter &parameter) { return parameter.name() == owned.getValue(); });
    if (found == out.parameters().end())
      return step.emitOpError("belongs to the owner of ") << owned << ", which is not a parameter";
    record.set_owned_parameter(uint32_t(found - out.parameters().begin()) + 1);
    record.set_unless_owner(step->hasAttr(dist::kUnlessOwner));
  }
  for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>()) {
    FailureOr<uint32_t> slot = indexOf(step, slots, operand.getSlot(), "slot");
    if (failed(slot))
      return failure();
    plan::Operand &entry = *record.add_operands();
    entry.set_slot(*slot);
    entry.set_offset(operand.getOffset());
    entry.set_bytes(operand.getBytes());
    entry.set_access(static_cast<plan::Operand::Access>(operand.getAccess()));
    entry.set_own_shard(operand.getOwnShard());
    entry.set_piece_elements(operand.getPieceElements());
    entry.set_piece(uint32_t(operand.getPiece()));
  }
  StepFields fields(step, kernels, buckets, options.withKernels);
  return writeStepKind(fields, step, record);
}

LogicalResult PlanWriter::writeProgram(plan_ir::ProgramOp program) {
  plan::Program &record = *out.add_programs();
  record.set_name(program.getSymName().str());
  for (Operation &op : program.getBody().front())
    if (failed(writeStep(cast<plan_ir::StepOpInterface>(op), *record.add_steps())))
      return failure();
  return success();
}

LogicalResult PlanWriter::write() {
  writeHeader();
  for (Operation &op : *module.getBody())
    if (!isa_and_nonnull<plan_ir::PlanDialect>(op.getDialect()))
      return op.emitOpError("is in a module of phase `plan`, where only plan ops belong");
  auto writeAll = [&](auto ops, auto write) {
    return success(llvm::all_of(ops, [&](auto op) { return succeeded((this->*write)(op)); }));
  };
  for (auto image : module.getOps<plan_ir::ImageOp>()) {
    images[image.getSymNameAttr()] = out.images_size();
    plan::Image &record = *out.add_images();
    record.set_target(image.getTarget().str());
    record.set_data(bytesOf(image.getData()));
    record.set_cuda_version(uint32_t(image.getCudaVersion()));
    if (image.getPtx())
      record.set_ptx(bytesOf(*image.getPtx()));
  }
  for (auto matrix : module.getOps<plan_ir::ScaledMatrixOp>()) {
    plan::ScaledMatrix &record = *out.add_scaled_matrices();
    for (StringAttr name : matrix.getNames().getAsRange<StringAttr>())
      record.add_names(name.str());
  }
  for (auto remark : module.getOps<plan_ir::RemarkOp>())
    out.add_remarks(remark.getText().str());
  return failure(failed(writeAll(module.getOps<plan_ir::SlotOp>(), &PlanWriter::writeSlot)) ||
                 failed(writeAll(module.getOps<plan_ir::BucketOp>(), &PlanWriter::writeBucket)) ||
                 failed(writeAll(module.getOps<plan_ir::ParameterOp>(), &PlanWriter::writeParameter)) ||
                 failed(writeAll(module.getOps<plan_ir::ConstantOp>(), &PlanWriter::writeConstant)) ||
                 failed(writeAll(module.getOps<plan_ir::BindingsOp>(), &PlanWriter::writeBindings)) ||
                 failed(writeAll(module.getOps<plan_ir::KernelOp>(), &PlanWriter::writeKernel)) ||
                 failed(writeAll(module.getOps<plan_ir::ProgramOp>(), &PlanWriter::writeProgram)));
}

} // namespace

FailureOr<plan::Plan> buildPlan(ModuleOp module, const PlanOptions &options) {
  plan::Plan result;
  if (failed(PlanWriter(module, options, result).write()))
    return failure();
  recordKernelSignatures(result);
  if (options.withKernels)
    if (Status status = validatePlan(result); !status.isOk())
      return module.emitError("the plan is not valid: ") << status.message(), failure();
  return result;
}

} // namespace ztc
