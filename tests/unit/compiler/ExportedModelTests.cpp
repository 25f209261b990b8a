// Whole exported models in the f64 interpreter against PyTorch: loss and every
// gradient, before any code generation.
#include "compiler/Dialect/Graph/Roles.h"
#include "frontends/onnx/Import.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Verify/Passes.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

/// One exported model with what PyTorch computed.
struct ExportedModel {
  std::string onnx;           ///< the exported file
  std::string data;           ///< safetensors with input_ids and labels, (B, S) or (steps, B, S)
  std::string golden;         ///< safetensors with gradients
  std::string gradientPrefix; ///< before the parameter's name in `golden`
};

/// The first `count` elements of a tensor of a safetensors file, as doubles.
std::vector<double> readTensor(const SafetensorsFile &file, const SafetensorsTensor &tensor, size_t count) {
  std::vector<double> values(count);
  const std::byte *bytes = file.data(tensor).data();
  for (size_t i = 0; i < count; ++i)
    if (tensor.typeName == "I64") {
      int64_t value;
      memcpy(&value, bytes + 8 * i, 8);
      values[i] = static_cast<double>(value);
    } else {
      float value;
      memcpy(&value, bytes + 4 * i, 4);
      values[i] = value;
    }
  return values;
}

/// A parameter's bytes from where `graph.source` says they are.
Tensor readParameter(func::FuncOp function, unsigned index, const std::filesystem::path &folder) {
  Tensor tensor(cast<RankedTensorType>(function.getArgumentTypes()[index]));
  auto source = function.getArgAttrOfType<DictionaryAttr>(index, graph::kSource);
  EXPECT_TRUE(source) << graph::argString(function, index, graph::kName).str() << " has no weights";
  if (!source)
    return tensor;
  auto path = source.getAs<StringAttr>("path");
  auto offset = source.getAs<IntegerAttr>("offset"), length = source.getAs<IntegerAttr>("length");
  auto transposeFlag = source.getAs<BoolAttr>("transpose");
  bool transpose = transposeFlag ? transposeFlag.getValue() : source.contains("transpose");
  EXPECT_EQ(length.getInt(), 4 * tensor.count());
  std::vector<float> raw(tensor.count());
  std::ifstream file(folder / path.str(), std::ios::binary);
  file.seekg(offset.getInt());
  file.read(reinterpret_cast<char *>(raw.data()), length.getInt());
  EXPECT_TRUE(file.good()) << path.str();
  int64_t rows = tensor.shape[0], columns = tensor.count() / rows;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      tensor.reals[r * columns + c] = transpose ? raw[c * rows + r] : raw[r * columns + c];
  return tensor;
}

/// The gradient that PyTorch found for an argument, under its name or one of
/// its tied names.
const SafetensorsTensor *findGradient(const SafetensorsFile &golden, const std::string &prefix, func::FuncOp function,
                                      unsigned index) {
  std::string name = graph::argString(function, index, graph::kName).str();
  const SafetensorsTensor *found = golden.find(prefix + name);
  if (auto tied = function.getArgAttrOfType<ArrayAttr>(index, graph::kTied))
    for (StringAttr other : tied.getAsRange<StringAttr>())
      if (!found)
        found = golden.find(prefix + other.str());
  return found;
}

void checkModel(const ExportedModel &model) {
  SCOPED_TRACE(model.onnx);
  auto data = SafetensorsFile::open(model.data), golden = SafetensorsFile::open(model.golden);
  ASSERT_TRUE(data.isOk() && golden.isOk());
  const SafetensorsTensor *ids = data->find("input_ids"), *labels = data->find("labels");
  ASSERT_TRUE(ids && labels);
  size_t rank = ids->shape.size();
  int64_t batch = ids->shape[rank - 2], sequence = ids->shape[rank - 1];

  GraphContext context;
  ImportOptions importOptions;
  importOptions.batch = batch;
  importOptions.seq = sequence;
  ImportReport report;
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(context.context, model.onnx, importOptions, report);
  ASSERT_TRUE(succeeded(module));
  PassManager pm(&context.context);
  pm.addPass(createVerifyImport());
  populateAutodiffPipeline(pm);
  pm.addPass(createVerifyBackward());
  ASSERT_TRUE(succeeded(pm.run(**module)));
  auto microstep = (*module)->lookupSymbol<func::FuncOp>("microstep");

  // Position t predicts labels[t + 1]; the last one predicts nothing.
  Tensor tokens(cast<RankedTensorType>(microstep.getArgumentTypes()[0])), targets = tokens;
  std::vector<double> idValues = readTensor(*data, *ids, batch * sequence),
                      labelValues = readTensor(*data, *labels, batch * sequence);
  double counted = 0;
  for (int64_t i = 0; i < batch * sequence; ++i) {
    tokens.integers[i] = static_cast<int64_t>(idValues[i]);
    targets.integers[i] = (i + 1) % sequence == 0 ? -100 : static_cast<int64_t>(labelValues[i + 1]);
    counted += targets.integers[i] >= 0;
  }
  Tensor step({kStepParameterCount}, Float32Type::get(&context.context));
  step.reals[static_cast<size_t>(StepParameter::InverseCount)] = 1 / counted;
  Tensors arguments{tokens, targets, step};
  SmallVector<unsigned> parameters = graph::argumentsWithRole(microstep, graph::Role::Parameter);
  for (unsigned index : parameters)
    arguments.push_back(readParameter(microstep, index, std::filesystem::path(model.onnx).parent_path()));

  auto results = interpret(microstep, arguments);
  ASSERT_TRUE(succeeded(results));
  if (const SafetensorsTensor *loss = golden->find("loss"))
    EXPECT_NEAR((*results)[0].reals[0] / counted, readTensor(*golden, *loss, 1)[0], 1e-5);
  ASSERT_EQ(results->size(), parameters.size() + 1);
  for (auto [number, index] : llvm::enumerate(parameters)) {
    const SafetensorsTensor *expected = findGradient(*golden, model.gradientPrefix, microstep, index);
    StringRef name = graph::argString(microstep, index, graph::kName);
    ASSERT_TRUE(expected) << name.str();
    const Tensor &gradient = (*results)[number + 1];
    ASSERT_EQ(ArrayRef<int64_t>(gradient.shape), ArrayRef<int64_t>(expected->shape)) << name.str();
    Tensor reference = gradient;
    reference.reals = readTensor(*golden, *expected, gradient.count());
    EXPECT_LT(relativeError(gradient, reference), 2e-5) << name.str();
  }
}

TEST(ExportedModel, OwnGoldensAgree) {
  std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path() / "../../golden";
  for (const char *name : {"grouped", "tied", "head-norms"})
    checkModel(
        {folder / name / "model.onnx", folder / name / "data.safetensors", folder / name / "golden.safetensors", ""});
}

TEST(ExportedModel, FixturesAgree) {
  const char *fixtures = std::getenv("ZTC_FIXTURES");
  if (!fixtures)
    GTEST_SKIP() << "ZTC_FIXTURES is not set: llama-tiny, llama-tiny-tied and "
                    "qwen3-tiny are not compared with PyTorch";
  for (const char *name : {"llama-tiny", "llama-tiny-tied", "qwen3-tiny"}) {
    std::filesystem::path folder = std::filesystem::path(fixtures) / name;
    checkModel({folder / "dynamo-op18.onnx", folder / "golden.safetensors", folder / "golden.safetensors", "grad."});
  }
}

} // namespace
