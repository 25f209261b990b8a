#include "KernelHarness.h"
#include "compiler/Interfaces/Interfaces.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/Core/FloatTypes.h"
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace ztc::test {

LoadedImage::LoadedImage(const KernelImage &image) {
  descriptor_ = memfd_create("kernels", MFD_CLOEXEC);
  EXPECT_EQ(write(descriptor_, image.bytes.data(), image.bytes.size()), static_cast<ssize_t>(image.bytes.size()));
  std::string path = "/proc/self/fd/" + std::to_string(descriptor_);
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle_, nullptr) << dlerror();
}

LoadedImage::~LoadedImage() {
  if (handle_)
    dlclose(handle_);
  close(descriptor_);
}

KernelFunction LoadedImage::find(const std::string &name) const {
  void *symbol = handle_ ? dlsym(handle_, name.c_str()) : nullptr;
  EXPECT_NE(symbol, nullptr) << name;
  return reinterpret_cast<KernelFunction>(symbol);
}

Group::Group(const std::string &text) {
  context_.loadDialect<graph::GraphDialect, func::FuncDialect>();
  module_ = parseSourceString<ModuleOp>(text, &context_);
  if (!module_) {
    ADD_FAILURE() << "cannot parse " << text;
    return;
  }
  original_ = *module_->getOps<func::FuncOp>().begin();
  OpBuilder builder(&context_);
  builder.setInsertionPointToEnd(module_->getBody());
  func::FuncOp copy = original_.clone();
  copy.setName((original_.getName() + "_group").str());
  builder.insert(copy);
  Block &entry = copy.getBody().front();
  builder.setInsertionPointToStart(&entry);
  OperationState state(copy.getLoc(), graph::FusionOp::getOperationName());
  state.addOperands(entry.getArguments());
  state.addTypes(copy.getFunctionType().getResults());
  state.addAttribute("name", builder.getStringAttr(original_.getName()));
  Region *region = state.addRegion();
  Block *body = builder.createBlock(region);
  builder.setInsertionPointToStart(&entry);
  fusion_ = cast<graph::FusionOp>(builder.create(state));
  body->getOperations().splice(body->end(), entry.getOperations(), std::next(fusion_->getIterator()), entry.end());
  for (BlockArgument argument : entry.getArguments()) {
    Value inner = body->addArgument(argument.getType(), argument.getLoc());
    argument.replaceUsesWithIf(inner, [&](OpOperand &use) { return use.getOwner() != fusion_; });
  }
  Operation *terminator = body->getTerminator();
  builder.setInsertionPoint(terminator);
  OperationState yield(copy.getLoc(), graph::YieldOp::getOperationName());
  yield.addOperands(terminator->getOperands());
  builder.create(yield);
  terminator->erase();
  builder.setInsertionPointToEnd(&entry);
  func::ReturnOp::create(builder, copy.getLoc(), fusion_->getResults());
  SmallVector<DecomposableOpInterface> macros;
  body->walk([&](DecomposableOpInterface op) { macros.push_back(op); });
  for (DecomposableOpInterface macro : macros) {
    builder.setInsertionPoint(macro);
    auto values = macro.decompose(builder);
    EXPECT_TRUE(succeeded(values));
    macro->replaceAllUsesWith(*values);
    macro->erase();
  }
  EXPECT_TRUE(succeeded(verify(*module_)));
}

template <typename T, typename From> static void append(Bytes &bytes, const std::vector<From> &values) {
  for (From value : values) {
    T stored = static_cast<T>(value);
    const char *at = reinterpret_cast<const char *>(&stored);
    bytes.insert(bytes.end(), at, at + sizeof(T));
  }
}

/// Elements of a narrow float as they are stored.
static std::vector<uint16_t> narrowBits(const Tensor &tensor) {
  bool brain = tensor.elementType.isBF16();
  std::vector<uint16_t> bits;
  for (double value : tensor.reals)
    bits.push_back(brain ? toBf16(static_cast<float>(value)) : toF16(static_cast<float>(value)));
  return bits;
}
static bool isNarrow(Type type) {
  return type.isBF16() || type.isF16();
}

Bytes toBytes(const Tensor &tensor) {
  Bytes bytes;
  if (isNarrow(tensor.elementType))
    append<uint16_t>(bytes, narrowBits(tensor));
  else if (tensor.elementType.isInteger(16))
    append<int16_t>(bytes, tensor.integers);
  else if (tensor.elementType.isF32())
    append<float>(bytes, tensor.reals);
  else if (tensor.elementType.isInteger(64))
    append<int64_t>(bytes, tensor.integers);
  else if (tensor.elementType.isInteger(32))
    append<int32_t>(bytes, tensor.integers);
  else
    append<int8_t>(bytes, tensor.integers);
  return bytes;
}

Tensor fromBytes(const Bytes &bytes, RankedTensorType type) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const auto *halves = reinterpret_cast<const uint16_t *>(bytes.data());
    if (isNarrow(tensor.elementType))
      tensor.reals[i] = tensor.elementType.isBF16() ? fromBf16(halves[i]) : fromF16(halves[i]);
    else if (tensor.elementType.isInteger(16))
      tensor.integers[i] = static_cast<int16_t>(halves[i]);
    else if (tensor.elementType.isF32())
      tensor.reals[i] = reinterpret_cast<const float *>(bytes.data())[i];
    else if (tensor.elementType.isInteger(64))
      tensor.integers[i] = reinterpret_cast<const int64_t *>(bytes.data())[i];
    else if (tensor.elementType.isInteger(32))
      tensor.integers[i] = reinterpret_cast<const int32_t *>(bytes.data())[i];
    else
      tensor.integers[i] = bytes[i];
  }
  return tensor;
}

Tensor randomOperand(RankedTensorType type, unsigned seed) {
  std::mt19937 generator(seed);
  Tensor tensor(type);
  for (double &x : tensor.reals)
    x = roundTo(std::uniform_real_distribution<double>(-2.0, 2.0)(generator), type.getElementType());
  for (int64_t &x : tensor.integers)
    x = std::uniform_int_distribution<int64_t>(0, type.getElementType().isInteger(1) ? 1 : 3)(generator);
  return tensor;
}

static size_t byteSize(Type type, int64_t length) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t count = 1;
  for (int64_t size : tensor.getShape())
    count *= ShapedType::isDynamic(size) ? length : size;
  return count * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

static void launch(const LoadedImage &image, const KernelDescription &kernel, std::vector<void *> buffers,
                   const RunOptions &options) {
  std::vector<int64_t> scalars = kernel.scalars;
  int64_t extent = kernel.extent;
  if (kernel.flat && scalars.empty())
    scalars = {options.length, options.start};
  if (kernel.flat && extent == 0)
    extent = (options.length + kernel.flatBlock - 1) / kernel.flatBlock;
  KernelFunction function = image.find(kernel.name + (options.add && kernel.hasAdd ? "_add" : ""));
  if (!function)
    return;
  for (int part = options.parts - 1; part >= 0; --part)
    function(buffers.data(), scalars.data(), extent * part / options.parts, extent * (part + 1) / options.parts);
}

std::vector<Bytes> runGroup(graph::FusionOp group, ArrayRef<Bytes> arguments, const RunOptions &options) {
  KernelModule module;
  FailureOr<LoweredGroup> lowered = module.addGroup(group, options.add);
  if (failed(lowered)) {
    ADD_FAILURE() << "lowering failed";
    return {};
  }
  auto images = module.emit({"x86-64-v3"});
  if (failed(images)) {
    ADD_FAILURE() << "no image from\n" << module.text();
    return {};
  }
  LoadedImage image(images->front());
  std::vector<Bytes> operands(arguments.begin(), arguments.end()), results;
  for (Type type : group->getResultTypes()) {
    results.push_back(Bytes(byteSize(type, options.length)));
    if (options.add)
      for (size_t i = 0; i + 4 <= results.back().size(); i += 4)
        *reinterpret_cast<float *>(results.back().data() + i) = 1.0f;
  }
  size_t blocks = (options.length + 4095) / 4096;
  Bytes workspace(std::max<size_t>(lowered->workspaceBytes, blocks * lowered->workspaceBytesPerFlatBlock), char(0x7f));
  for (const KernelDescription &kernel : lowered->kernels) {
    std::vector<void *> buffers;
    for (const KernelBuffer &buffer : kernel.buffers)
      buffers.push_back(buffer.kind == KernelBuffer::Kind::Operand  ? operands[buffer.index].data()
                        : buffer.kind == KernelBuffer::Kind::Result ? results[buffer.index].data()
                                                                    : workspace.data());
    launch(image, kernel, buffers, options);
  }
  return results;
}

void expectLikeReference(const std::string &text, double tolerance) {
  Group group(text);
  ASSERT_TRUE(group.fusion());
  std::vector<Tensor> tensors;
  std::vector<Bytes> arguments;
  for (auto [number, type] : llvm::enumerate(group.original().getArgumentTypes())) {
    tensors.push_back(randomOperand(cast<RankedTensorType>(type), number + 1));
    arguments.push_back(toBytes(tensors.back()));
  }
  InterpreterOptions options;
  if (llvm::any_of(tensors, [](const Tensor &tensor) { return isNarrow(tensor.elementType); }))
    options.precision = Precision::F32;
  auto expected = interpret(group.original(), tensors, options);
  ASSERT_TRUE(succeeded(expected));
  std::vector<Bytes> whole = runGroup(group.fusion(), arguments);
  ASSERT_EQ(whole.size(), expected->size());
  RunOptions pieces;
  pieces.parts = 3;
  EXPECT_EQ(whole, runGroup(group.fusion(), arguments, pieces)) << "results depend on how the range is cut";
  for (auto [number, want] : llvm::enumerate(*expected)) {
    Tensor got = fromBytes(whole[number], want.type());
    for (int64_t i = 0; i < want.count(); ++i) {
      if (!want.isReal()) {
        ASSERT_EQ(got.integers[i], want.integers[i]) << "result " << number << " element " << i;
        continue;
      }
      ASSERT_NEAR(got.reals[i], want.reals[i], tolerance * (1 + std::abs(want.reals[i])))
          << "result " << number << " element " << i;
    }
  }
}

} // namespace ztc::test
