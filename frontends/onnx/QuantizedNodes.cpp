#include "frontends/onnx/QuantizedNodes.h"
#include "runtime/Core/ShapeText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

using llvm::formatv;
using llvm::StringRef;

namespace ztc::importer {
namespace {

constexpr StringRef kProduct = "com.microsoft::MatMulNBits", kLookup = "com.microsoft::GatherBlockQuantized",
                    kLinear = "DequantizeLinear";

/// No size, and no product of two with the bits of a code, overflows.
constexpr int64_t kLargestSize = int64_t(1) << 28;

bool isFp8(ElementType type) {
  return type == ElementType::F8E4M3 || type == ElementType::F8E5M2;
}

/// A name without what onnxruntime's quantisers and optimum add: "_Q4", "_DQ_Q8", "_quantized". Theirs of GPTQ and AWQ
/// is "q_proj.MatMul.qweight".
std::string withoutSuffix(StringRef name) {
  StringRef digits = name.rtrim("0123456789");
  if (digits.size() < name.size() && digits.consume_back("_Q")) {
    (void)digits.consume_back("_matmul");
    (void)digits.consume_back("_DQ");
    return digits.str();
  }
  if (name.consume_back(".qweight"))
    return name.str() + ".weight";
  for (StringRef suffix : {"_quantized", "_quant", "_4bit"})
    if (name.consume_back(suffix))
      break;
  return name.str();
}

/// Rewrites the nodes of one model.
class QuantizedReader {
public:
  QuantizedReader(Model &model, std::string &error) : model(model), error(error) {
    for (const Node &node : model.nodes)
      for (const std::string &input : node.inputs)
        readersOf[input].push_back(&node);
  }

  bool run() {
    std::vector<Node> nodes;
    nodes.reserve(model.nodes.size());
    for (const Node &node : model.nodes) {
      current = &node;
      const std::optional<DynamicProduct> product = dynamicProductOf(node);
      const Node *lookup = lookupOfCodes(node);
      const bool isOwn = node.signature == kProduct || node.signature == kLookup || product || lookup;
      if (node.signature == kProduct  ? !addProduct(nodes)
          : node.signature == kLookup ? !addLookup(nodes)
          : product                   ? !addDynamicProduct(*product, nodes)
          : lookup                    ? !addLookupOfCodes(*lookup, nodes)
                                      : node.signature == kLinear && codesOf(node.inputs[0]) && !readLinear())
        return false;
      const bool isWeight = !node.outputs.empty() && weightOfValue.contains(node.outputs[0]);
      if (!isOwn && !isWeight)
        nodes.push_back(node);
    }
    for (Node &node : nodes)
      for (std::string &input : node.inputs)
        if (auto found = weightOfValue.find(input); found != weightOfValue.end())
          input = found->second;
    model.nodes = std::move(nodes);
    model.indexProducers();
    if (dynamicProducts)
      model.notes.push_back("the graph rounds the inputs of " + std::to_string(dynamicProducts) +
                            " products to 8 bits: training reads them as they are");
    return true;
  }

private:
  bool fail(const llvm::Twine &what) {
    error = ("node '" + current->label() + "' (" + current->signature + ") " + what).str();
    return false;
  }

  /// A stored matrix of codes; null for anything else.
  const Initializer *codesOf(StringRef value) const {
    const Initializer *found = model.initializer(value);
    return found && !isFloat(found->type) && found->shape.size() == 2 && elementBits(found->type) <= 8 ? found
                                                                                                       : nullptr;
  }

  /// An input that has to be stored; null, and an error, where it is computed.
  const Initializer *stored(unsigned index, StringRef what) {
    const Initializer *found = model.initializer(current->inputs[index]);
    if (!found)
      fail(what + " '" + current->inputs[index] + "' is computed by the graph; ztc reads stored ones");
    return found;
  }

  bool addProduct(std::vector<Node> &nodes) {
    const Node &node = *current;
    const int64_t inputs = node.integer("K", 0), outputs = node.integer("N", 0), block = node.integer("block_size", 0);
    QuantizedValues values;
    const Initializer *codes = stored(1, "its weight"), *scales = codes ? stored(2, "its table of scales") : nullptr;
    if (!scales)
      return false;
    if (!setBits(values, node.integer("bits", 4)))
      return false;
    if (inputs < 1 || inputs > kLargestSize || outputs < 1 || outputs > kLargestSize || block < 8 ||
        block > kLargestSize)
      return fail("has impossible sizes: K " + llvm::Twine(inputs) + ", N " + llvm::Twine(outputs) + ", block_size " +
                  llvm::Twine(block));
    if (node.hasInput(4))
      return fail("has columns in an order of their own (g_idx), which ztc does not read from a graph; compile the "
                  "folder that it was made from");
    if (node.integer("weight_prepacked", 0))
      return fail("has a weight packed for one device (weight_prepacked); quantise without that");
    const int64_t groups = int64_t(llvm::divideCeil(inputs, block));
    values.rows = outputs;
    values.columns = inputs;
    values.isTransposed = true;
    values.rowBytes = groups * block * values.bits / 8;
    values.blockColumns = block;
    values.zero = int64_t(1) << (values.bits - 1);
    values.zeroRowBits = int64_t(llvm::alignTo(groups * values.bits, 8));
    if (codes->type != ElementType::U8 || codes->count() != outputs * values.rowBytes)
      return failShape(*codes);
    if (!setScales(values, *scales, outputs * groups))
      return false;
    if (node.hasInput(3)) {
      const Initializer *zeros = stored(3, "its table of zero points");
      if (!zeros)
        return false;
      const bool areNumbers = zeros->type == scales->type && zeros->count() == outputs * groups;
      if (!areNumbers && (zeros->type != ElementType::U8 || zeros->count() * 8 != outputs * values.zeroRowBits))
        return failShape(*zeros);
      values.zeros = *zeros;
    }
    const std::string weight = addWeight(std::move(values), *codes);
    Node product = rewritten("MatMul", {node.inputs[0], weight});
    const bool hasBias = node.hasInput(5);
    if (hasBias)
      product.outputs = {node.outputs[0] + "/product"};
    nodes.push_back(product);
    if (hasBias) {
      Node sum = rewritten("Add", {product.outputs[0], node.inputs[5]});
      if (StringRef name = sum.name; name.consume_back("MatMul"))
        sum.name = name.str() + "Add";
      nodes.push_back(sum);
    }
    return true;
  }

  bool addLookup(std::vector<Node> &nodes) {
    const Node &node = *current;
    QuantizedValues values;
    const Initializer *codes = stored(0, "its table"), *scales = codes ? stored(2, "its table of scales") : nullptr;
    if (!scales)
      return false;
    if (!setBits(values, codes->type == ElementType::U8 ? node.integer("bits", 4) : elementBits(codes->type)))
      return false;
    if (codes->shape.size() != 2 || node.integer("gather_axis", 0) != 0 ||
        axisOf(node.integer("quantize_axis", 1)) != 1)
      return fail("is not a lookup of rows of a matrix in blocks along them; ztc reads no other");
    if (codes->type != ElementType::U8 && codes->type != ElementType::U4 && codes->type != ElementType::I4)
      return failShape(*codes);
    const int64_t perElement = codes->type == ElementType::U8 ? 8 / int64_t(values.bits) : 1;
    values.rows = codes->shape[0];
    values.columns = codes->shape[1] * perElement;
    values.isSigned = codes->type == ElementType::I4;
    values.zero = codes->type == ElementType::U8 ? int64_t(1) << (values.bits - 1) : 0;
    values.blockColumns = node.integer("block_size", 128);
    if (values.blockColumns < 1 || values.columns > kLargestSize || values.columns < 1)
      return failShape(*codes);
    values.rowBytes = values.columns * values.bits / 8;
    const int64_t groups = int64_t(llvm::divideCeil(values.columns, values.blockColumns));
    values.zeroRowBits =
        codes->type == ElementType::U8 ? int64_t(llvm::alignTo(groups * values.bits, 8)) : groups * values.bits;
    if (values.columns * values.bits % 8 != 0 || !setScales(values, *scales, values.rows * groups))
      return error.empty() ? failShape(*codes) : false;
    if (node.hasInput(3) && !setZeros(values, 3, *codes, (values.rows * values.zeroRowBits + 7) / 8))
      return false;
    nodes.push_back(rewritten("Gather", {addWeight(std::move(values), *codes), node.inputs[1]}));
    nodes.back().attributes["axis"].kind = Attribute::Kind::Int;
    return true;
  }

  /// MatMulInteger of a stored matrix and of what a DynamicQuantizeLinear made of data, times the scales of both.
  struct DynamicProduct {
    const Node *product, *quantizer;
    const Initializer *codes, *scales;
  };

  /// What a Mul is the last node of; nothing for any other node.
  std::optional<DynamicProduct> dynamicProductOf(const Node &node) const {
    if (node.signature != "Mul")
      return std::nullopt;
    for (unsigned side : {0u, 1u}) {
      const Node *cast = producer(node.inputs[side], "Cast"), *factors = producer(node.inputs[1 - side], "Mul");
      const Node *product = cast ? producer(cast->inputs[0], "MatMulInteger") : nullptr;
      const Node *quantizer = product ? producer(product->inputs[0], "DynamicQuantizeLinear") : nullptr;
      if (!factors || !quantizer || quantizer->outputs.size() != 3 || product->inputs[0] != quantizer->outputs[0] ||
          !product->hasInput(2) || product->inputs[2] != quantizer->outputs[2])
        continue;
      const unsigned own = factors->inputs[0] == quantizer->outputs[1] ? 1 : 0;
      const Initializer *codes = codesOf(product->inputs[1]), *scales = model.initializer(factors->inputs[own]);
      if (codes && scales && factors->inputs[1 - own] == quantizer->outputs[1])
        return DynamicProduct{product, quantizer, codes, scales};
    }
    return std::nullopt;
  }

  /// The product with the numbers of the weight, of inputs as they were before they were quantised.
  bool addDynamicProduct(const DynamicProduct &dynamic, std::vector<Node> &nodes) {
    const std::vector<std::string> outputs = current->outputs;
    current = dynamic.product;
    QuantizedValues values;
    if (!describe(values, *dynamic.codes, *dynamic.scales, /*zeros=*/3, /*axis=*/1, /*block=*/0))
      return false;
    nodes.push_back(rewritten("MatMul", {dynamic.quantizer->inputs[0], addWeight(std::move(values), *dynamic.codes)}));
    nodes.back().outputs = outputs;
    ++dynamicProducts;
    return true;
  }

  /// The Gather of rows of codes that a DequantizeLinear with one scale reads; null for any other node.
  const Node *lookupOfCodes(const Node &node) const {
    const Node *gather = node.signature == kLinear ? producer(node.inputs[0], "Gather") : nullptr;
    const Initializer *scale = gather ? model.initializer(node.inputs[1]) : nullptr;
    return scale && scale->count() == 1 && gather->integer("axis", 0) == 0 && codesOf(gather->inputs[0]) ? gather
                                                                                                         : nullptr;
  }

  bool addLookupOfCodes(const Node &gather, std::vector<Node> &nodes) {
    const Initializer *codes = codesOf(gather.inputs[0]);
    QuantizedValues values;
    if (!describe(values, *codes, *model.initializer(current->inputs[1]), /*zeros=*/2, /*axis=*/0, /*block=*/0))
      return false;
    const std::string weight = addWeight(std::move(values), *codes);
    Node lookup = gather;
    lookup.inputs[0] = weight;
    lookup.outputs = current->outputs;
    nodes.push_back(std::move(lookup));
    return true;
  }

  const Node *producer(StringRef value, StringRef signature) const {
    const Node *node = model.producer(value);
    return node && node->signature == signature ? node : nullptr;
  }

  /// A matrix with scales, and perhaps zero points as input `zeros` of the current node, as DequantizeLinear has them:
  /// one of all, one for each index of `axis`, or one for each `block` of elements along it.
  bool describe(QuantizedValues &values, const Initializer &codes, const Initializer &scales, unsigned zeros,
                int64_t axis, int64_t block) {
    values.bits = elementBits(codes.type);
    values.isSigned = codes.type == ElementType::I8 || codes.type == ElementType::I4;
    values.rows = codes.shape[0];
    values.columns = codes.shape[1];
    if (!values.bits || values.rows < 1 || values.columns < 1 || values.rows > kLargestSize ||
        values.columns > kLargestSize || values.columns * values.bits % 8 != 0)
      return failShape(codes);
    values.rowBytes = values.columns * values.bits / 8;
    if (scales.shape.empty() || (scales.count() == 1 && block == 0)) {
      values.blockRows = values.rows;
      values.blockColumns = values.columns;
    } else if (scales.shape.size() == 1 && block == 0) {
      values.blockRows = axis == 0 ? 1 : values.rows;
      values.blockColumns = axis == 0 ? values.columns : 1;
    } else if (scales.shape.size() == 2 && block > 0) {
      values.blockRows = axis == 0 ? std::min(block, values.rows) : 1;
      values.blockColumns = axis == 0 ? 1 : std::min(block, values.columns);
    } else {
      return failShape(scales);
    }
    const int64_t lines = int64_t(llvm::divideCeil(values.rows, values.blockRows));
    const int64_t groups = int64_t(llvm::divideCeil(values.columns, values.blockColumns));
    values.zeroRowBits = groups * values.bits;
    return setScales(values, scales, lines * groups) &&
           (!current->hasInput(zeros) || isFp8(codes.type) ||
            setZeros(values, zeros, codes, (lines * values.zeroRowBits + 7) / 8));
  }

  /// Every use of the node's output becomes one of the weight.
  bool readLinear() {
    const Initializer *codes = codesOf(current->inputs[0]), *scales = stored(1, "its table of scales");
    const int64_t axis = axisOf(current->integer("axis", 1));
    if (!scales)
      return false;
    if (axis < 0)
      return fail("has an axis that its matrix does not have");
    QuantizedValues values;
    if (!describe(values, *codes, *scales, /*zeros=*/2, axis, current->integer("block_size", 0)))
      return false;
    const std::vector<std::string> turned = transposesOf(current->outputs[0]);
    values.isTransposed = !turned.empty();
    const std::string weight = addWeight(std::move(values), *codes);
    weightOfValue[current->outputs[0]] = weight;
    for (const std::string &value : turned)
      weightOfValue[value] = weight;
    return true;
  }

  /// Where a matrix is read by nothing but Transpose, what these give: a quantiser stores outputs first.
  std::vector<std::string> transposesOf(StringRef matrix) const {
    std::vector<std::string> results;
    for (const Node *node : readersOf.lookup(matrix)) {
      if (node->signature != "Transpose" ||
          (node->has("perm") && node->integers("perm") != llvm::ArrayRef<int64_t>{1, 0}))
        return {};
      results.push_back(node->outputs[0]);
    }
    return results;
  }

  bool setBits(QuantizedValues &values, int64_t bits) {
    values.bits = unsigned(bits);
    return bits == 2 || bits == 4 || bits == 8 ||
           fail("has codes of " + llvm::Twine(bits) + " bits; ztc reads 2, 4 and 8");
  }

  bool setScales(QuantizedValues &values, const Initializer &scales, int64_t blocks) {
    const bool isRead =
        scales.type == ElementType::F32 || scales.type == ElementType::F16 || scales.type == ElementType::BF16;
    if (!isRead || scales.count() != blocks)
      return failShape(scales);
    values.scales = scales;
    return true;
  }

  /// Integers of the codes' type.
  bool setZeros(QuantizedValues &values, unsigned index, const Initializer &codes, int64_t bytes) {
    const Initializer *zeros = stored(index, "its table of zero points");
    if (!zeros)
      return false;
    if (zeros->type != codes.type || (zeros->count() * elementBits(zeros->type) + 7) / 8 != bytes)
      return failShape(*zeros);
    values.zeros = *zeros;
    return true;
  }

  bool failShape(const Initializer &part) {
    return fail(formatv("has '{0}' of {1} {2}, which does not fit its other inputs", part.name, elementName(part.type),
                        shapeText(part.shape))
                    .str());
  }

  static int64_t axisOf(int64_t axis) {
    const int64_t positive = axis < 0 ? axis + 2 : axis;
    return positive == 0 || positive == 1 ? positive : -1;
  }

  /// The current node as another operator, under the name that it had before it was quantised.
  Node rewritten(StringRef op, std::vector<std::string> inputs) const {
    Node node = *current;
    node.op = node.signature = op.str();
    node.domain.clear();
    node.attributes.clear();
    node.name = withoutSuffix(node.name);
    node.inputs = std::move(inputs);
    return node;
  }

  /// The name of the initializer that stands for the weight; nodes that read the same tensors have the same.
  std::string addWeight(QuantizedValues values, const Initializer &codes) {
    std::string &known = weightOf[{codes.name, values.scales.name, values.zeros.name, values.isTransposed}];
    if (!known.empty())
      return known;
    Initializer weight;
    weight.name = withoutSuffix(codes.name);
    // A DequantizeLinear may have the weight's name itself, which nothing computes from now on.
    const bool isOwn = current->signature == kLinear && current->outputs[0] == weight.name;
    if (model.initializerOf.count(weight.name) || (model.producerOf.count(weight.name) && !isOwn))
      weight.name = codes.name + "/" + values.scales.name + (values.isTransposed ? "/transposed" : "");
    weight.fileName = codes.name;
    weight.type = values.scales.type;
    weight.shape = {values.rows, values.columns};
    if (values.isTransposed)
      std::swap(weight.shape[0], weight.shape[1]);
    values.codes = codes;
    weight.quantized = std::make_shared<const QuantizedValues>(std::move(values));
    known = weight.name;
    model.initializers.push_back(std::move(weight));
    model.initializerOf[known] = &model.initializers.back();
    return known;
  }

  Model &model;
  std::string &error;
  const Node *current = nullptr;
  size_t dynamicProducts = 0;
  llvm::StringMap<llvm::SmallVector<const Node *, 1>> readersOf;
  llvm::StringMap<std::string> weightOfValue; ///< outputs of DequantizeLinear
  /// By the names of codes, scales and zeros, and by the orientation.
  std::map<std::tuple<std::string, std::string, std::string, bool>, std::string> weightOf;
};

} // namespace

bool readQuantizedNodes(Model &model, std::string &error) {
  const bool hasAny = llvm::any_of(model.nodes, [](const Node &node) {
    return node.signature == kProduct || node.signature == kLookup || node.signature == kLinear ||
           node.signature == "MatMulInteger";
  });
  return !hasAny || QuantizedReader(model, error).run();
}

} // namespace ztc::importer
