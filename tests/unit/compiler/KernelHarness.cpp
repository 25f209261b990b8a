#include "KernelHarness.h"
#include "compiler/Driver/RegisterAll.h"
#include "compiler/Interfaces/Interfaces.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/Format/BlockState.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace ztc::test {

MLIRContext &kernelContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    driver::registerAllDialects(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *context;
}

OwningOpRef<ModuleOp> inKernelContext(ModuleOp step) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  step.print(stream);
  OwningOpRef<ModuleOp> read = parseSourceString<ModuleOp>(text, &kernelContext());
  EXPECT_TRUE(read) << "a step cannot be read back";
  return read;
}

LoadedKernels::LoadedKernels(const KernelImage &image) {
  StatusOr<LoadedImage> loaded = LoadedImage::load(image.bytes);
  EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
  if (loaded.isOk())
    image_ = std::move(*loaded);
}

KernelFunction LoadedKernels::find(const std::string &name) const {
  void *symbol = image_ ? image_->find(name) : nullptr;
  EXPECT_NE(symbol, nullptr) << name;
  return reinterpret_cast<KernelFunction>(symbol);
}

Group::Group(const std::string &text) {
  module_ = parseSourceString<ModuleOp>(text, &kernelContext());
  if (!module_) {
    ADD_FAILURE() << "cannot parse " << text;
    return;
  }
  original_ = *module_->getOps<func::FuncOp>().begin();
  OpBuilder builder(&kernelContext());
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

static size_t byteSize(Type type, int64_t length) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t count = 1;
  for (int64_t size : tensor.getShape())
    count *= ShapedType::isDynamic(size) ? length : size;
  if (isa<graph::Block8Type>(tensor.getElementType()))
    return llvm::divideCeil(count, kStateBlock) * kStateBlockBytes;
  return count * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

/// Scalars and extent of a launch whose length, if it is not the kernel's, is that of the options.
static std::pair<std::vector<int64_t>, int64_t> rangeOf(const KernelDescription &kernel, const RunOptions &options) {
  std::vector<int64_t> scalars = kernel.scalars;
  int64_t extent = kernel.extent;
  if (kernel.flat && scalars.empty())
    scalars = {options.length, options.start};
  if (kernel.flat && extent == 0)
    extent = (options.length + kernel.flatBlock - 1) / kernel.flatBlock;
  return {scalars, extent};
}

static std::string symbolOf(const KernelDescription &kernel, const RunOptions &options) {
  return kernel.name + (options.add && kernel.hasAdd ? kernel::kAddSuffix.str() : "");
}

static void launch(const LoadedKernels &image, const KernelDescription &kernel, std::vector<void *> buffers,
                   const RunOptions &options) {
  auto [scalars, extent] = rangeOf(kernel, options);
  KernelFunction function = image.find(symbolOf(kernel, options));
  if (!function)
    return;
  for (int part = options.parts - 1; part >= 0; --part)
    function(buffers.data(), scalars.data(), extent * part / options.parts, extent * (part + 1) / options.parts);
}

namespace {
/// Operands, results and workspace of a group's run.
struct GroupMemory {
  std::vector<Bytes> operands, results;
  Bytes workspace;

  GroupMemory(graph::FusionOp group, const LoweredGroup &lowered, ArrayRef<Bytes> arguments, const RunOptions &options)
      : operands(arguments.begin(), arguments.end()) {
    for (Type type : group->getResultTypes()) {
      results.push_back(Bytes(byteSize(type, options.length)));
      if (options.add)
        for (size_t i = 0; i + 4 <= results.back().size(); i += 4)
          *reinterpret_cast<float *>(results.back().data() + i) = 1.0f;
    }
    size_t blocks = (options.length + 4095) / 4096;
    workspace.assign(std::max<size_t>(lowered.workspaceBytes, blocks * lowered.workspaceBytesPerFlatBlock), char(0x7f));
  }

  std::vector<void *> pointers(const KernelDescription &kernel) {
    std::vector<void *> buffers;
    for (const KernelBuffer &buffer : kernel.buffers)
      buffers.push_back(buffer.kind == KernelBuffer::Kind::Operand  ? operands[buffer.index].data()
                        : buffer.kind == KernelBuffer::Kind::Result ? results[buffer.index].data()
                                                                    : workspace.data());
    return buffers;
  }
};

/// What kernels on the SIMT engine may touch, and the bytes of it that they did, repetitions included.
struct Piece {
  ArrayRef<char> memory;
  uint64_t moved = 0;
  Piece(const Bytes &bytes) : memory(bytes) {}
};
std::vector<Piece> allowed;

bool isAllowed(const void *address, uint64_t bytes) {
  const char *at = static_cast<const char *>(address);
  if (reinterpret_cast<uintptr_t>(at) % std::min<uint64_t>(bytes, 16) != 0)
    return false;
  for (Piece &piece : allowed)
    if (at >= piece.memory.begin() && at + bytes <= piece.memory.end()) {
      piece.moved += bytes;
      return true;
    }
  return false;
}
} // namespace

std::vector<Bytes> runGroup(graph::FusionOp group, ArrayRef<Bytes> arguments, const RunOptions &options) {
  KernelModule module(kernelContext());
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
  LoadedKernels image(images->front());
  GroupMemory memory(group, *lowered, arguments, options);
  for (const KernelDescription &kernel : lowered->kernels)
    launch(image, kernel, memory.pointers(kernel), options);
  return memory.results;
}

static bool launchOnGpu(const simt::Image &image, const std::string &symbol, const DeviceLaunch &device,
                        std::vector<void *> buffers, std::vector<int64_t> scalars, int64_t extent, simt::Order order) {
  scalars.push_back(extent);
  std::vector<void *> parameters;
  for (void *&buffer : buffers)
    parameters.push_back(&buffer);
  for (int64_t &scalar : scalars)
    parameters.push_back(&scalar);
  simt::LaunchShape shape;
  shape.grid.x = llvm::divideCeil(extent, device.unitsPerBlock);
  shape.block.x = device.blockThreads;
  shape.order = order;
  simt::Entry entry = image.find(symbol);
  simt::setMemoryCheck(isAllowed);
  Status status = entry ? simt::launch(entry, shape, parameters.data()) : failedPrecondition("no such kernel");
  simt::setMemoryCheck(nullptr);
  EXPECT_TRUE(status.isOk()) << symbol << ": " << status.message();
  return status.isOk();
}

bool launchOnGpu(const simt::Image &image, const KernelDescription &kernel, ArrayRef<Bytes *> buffers,
                 std::vector<int64_t> scalars, int64_t extent, simt::Order order, std::vector<uint64_t> *moved) {
  allowed.clear();
  std::vector<void *> addresses;
  for (Bytes *buffer : buffers) {
    allowed.push_back(*buffer);
    addresses.push_back(buffer->data());
  }
  const bool done = launchOnGpu(image, kernel.name, kernel.device, addresses, std::move(scalars), extent, order);
  if (moved) {
    moved->clear();
    for (const Piece &piece : allowed)
      moved->push_back(piece.moved);
  }
  return done;
}

std::vector<Bytes> runGroupOnGpu(graph::FusionOp group, ArrayRef<Bytes> arguments, const RunOptions &options) {
  KernelModule module(kernelContext(), {/*host=*/false, /*device=*/true});
  FailureOr<LoweredGroup> lowered = module.addGroup(group, options.add);
  if (failed(lowered)) {
    ADD_FAILURE() << "lowering failed";
    return {};
  }
  auto images = module.emit({"simt"});
  if (failed(images)) {
    ADD_FAILURE() << "no image from\n" << module.text();
    return {};
  }
  auto image = simt::Image::load(images->front().bytes);
  if (!image.isOk()) {
    ADD_FAILURE() << image.status().message();
    return {};
  }
  GroupMemory memory(group, *lowered, arguments, options), descending = memory;
  for (auto [run, order] : {std::pair{&memory, simt::Order::Ascending}, {&descending, simt::Order::Descending}}) {
    allowed.assign(run->operands.begin(), run->operands.end());
    allowed.insert(allowed.end(), run->results.begin(), run->results.end());
    allowed.push_back(run->workspace);
    for (const KernelDescription &kernel : lowered->kernels) {
      auto [scalars, extent] = rangeOf(kernel, options);
      const std::string symbol = symbolOf(kernel, options);
      if (!launchOnGpu(**image, symbol, images->front().launches.at(symbol), run->pointers(kernel), scalars, extent,
                       order))
        return {};
    }
  }
  EXPECT_EQ(memory.results, descending.results) << "results depend on the order of threads";
  return memory.results;
}

static void expectNear(const std::vector<Bytes> &results, ArrayRef<Tensor> expected, double tolerance) {
  ASSERT_EQ(results.size(), expected.size());
  for (auto [number, want] : llvm::enumerate(expected)) {
    Tensor got = fromBytes(results[number], want.type());
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

/// Whether `group` adds anything up: the order of additions is the target's.
static bool isPointwise(graph::FusionOp group) {
  return llvm::none_of(group->getRegion(0).front(), [](Operation &op) {
    return isa<graph::ReduceSumOp, graph::ReduceMaxOp, graph::SumSquaresOp>(op);
  });
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
  if (llvm::any_of(tensors, [](const Tensor &tensor) {
        return !tensor.elementType.isIntOrFloat() || tensor.elementType.getIntOrFloatBitWidth() == 16;
      }))
    options.precision = Precision::F32;
  auto expected = interpret(group.original(), tensors, options);
  ASSERT_TRUE(succeeded(expected));
  std::vector<Bytes> whole = runGroup(group.fusion(), arguments);
  RunOptions pieces;
  pieces.parts = 3;
  EXPECT_EQ(whole, runGroup(group.fusion(), arguments, pieces)) << "results depend on how the range is cut";
  expectNear(whole, *expected, tolerance);
  SCOPED_TRACE("on a GPU");
  std::vector<Bytes> device = runGroupOnGpu(group.fusion(), arguments);
  expectNear(device, *expected, tolerance);
  if (isPointwise(group.fusion()))
    EXPECT_EQ(device, whole) << "a GPU's bits differ from the host's";
}

} // namespace ztc::test
