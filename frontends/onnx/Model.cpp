#include "frontends/onnx/Model.h"
#include "runtime/Core/FloatTypes.h"

using llvm::StringRef;

namespace ztc::importer {

unsigned elementBytes(ElementType type) {
  switch (type) {
  case ElementType::Bool:
  case ElementType::U8:
  case ElementType::I8:
    return 1;
  case ElementType::U16:
  case ElementType::I16:
  case ElementType::F16:
  case ElementType::BF16:
    return 2;
  case ElementType::F32:
  case ElementType::I32:
  case ElementType::U32:
    return 4;
  case ElementType::F64:
  case ElementType::I64:
  case ElementType::U64:
    return 8;
  default:
    return 0;
  }
}

unsigned elementBits(ElementType type) {
  switch (type) {
  case ElementType::U4:
  case ElementType::I4:
    return 4;
  case ElementType::F8E4M3:
  case ElementType::F8E5M2:
    return 8;
  default:
    return 8 * elementBytes(type);
  }
}

bool isFloat(ElementType type) {
  return type == ElementType::F32 || type == ElementType::F16 || type == ElementType::BF16 || type == ElementType::F64;
}

StringRef elementName(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return "F32";
  case ElementType::F16:
    return "F16";
  case ElementType::BF16:
    return "BF16";
  case ElementType::F64:
    return "F64";
  case ElementType::Bool:
    return "BOOL";
  case ElementType::U8:
    return "U8";
  case ElementType::I8:
    return "I8";
  case ElementType::U16:
    return "U16";
  case ElementType::I16:
    return "I16";
  case ElementType::U32:
    return "U32";
  case ElementType::I32:
    return "I32";
  case ElementType::U64:
    return "U64";
  case ElementType::I64:
    return "I64";
  case ElementType::F8E4M3:
    return "F8_E4M3";
  case ElementType::F8E5M2:
    return "F8_E5M2";
  case ElementType::U4:
    return "U4";
  case ElementType::I4:
    return "I4";
  case ElementType::C64:
    return "complex64";
  case ElementType::C128:
    return "complex128";
  default:
    return "unknown";
  }
}

int64_t Initializer::count() const {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

std::string QuantizedValues::format() const {
  const bool isFp8 = codes.type == ElementType::F8E4M3 || codes.type == ElementType::F8E5M2;
  const std::string text = isFp8 ? "fp8" : std::to_string(bits) + " bits";
  const int64_t block = blockRows == 1 && blockColumns < columns ? blockColumns
                        : blockColumns == 1 && blockRows < rows  ? blockRows
                                                                 : 1;
  return block > 1 ? text + " in blocks of " + std::to_string(block) : text;
}

void Model::indexProducers() {
  producerOf.clear();
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i].outputs)
      if (!output.empty())
        producerOf[output] = unsigned(i);
}

std::string Model::graphName(StringRef name) const {
  for (const auto &entry : parameterTargets)
    if (entry.second == name || StringRef(entry.second).ends_with(("." + name).str()))
      return entry.second;
  return name.str();
}

std::string Model::targetOf(StringRef tensor) const {
  std::string named = graphName(tensor);
  const StringRef below = tensor.split('.').second;
  std::string found;
  for (const auto &entry : parameterTargets) {
    if (entry.second == named)
      return named;
    if (!below.contains('.') || !StringRef(entry.second).ends_with(("." + below).str()))
      continue;
    if (!found.empty())
      return named;
    found = entry.second;
  }
  return found.empty() ? named : found;
}

Initializer &Model::addRestored(const std::string &name, ElementType type, llvm::ArrayRef<int64_t> shape) {
  for (Initializer &initializer : initializers)
    if (initializer.name == name) {
      initializer.isRestored = true;
      return initializer;
    }
  Initializer initializer;
  initializer.name = name;
  initializer.type = type;
  initializer.shape.assign(shape.begin(), shape.end());
  initializer.isRestored = true;
  initializer.isInFile = false;
  initializers.push_back(std::move(initializer));
  initializerOf[name] = &initializers.back();
  return initializers.back();
}

const Initializer &Model::addReal(const std::string &name, ElementType type, double value) {
  return addReals(name, type, {}, value);
}

const Initializer &Model::addReals(const std::string &name, ElementType type, llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<double> values) {
  auto bytesOf = [](auto stored) { return std::string(reinterpret_cast<const char *>(&stored), sizeof stored); };
  std::string bytes;
  for (double value : values)
    bytes += type == ElementType::F64    ? bytesOf(value)
             : type == ElementType::F16  ? bytesOf(toF16(float(value)))
             : type == ElementType::BF16 ? bytesOf(toBf16(float(value)))
                                         : bytesOf(float(value));
  addedBytes.push_back(std::move(bytes));
  Initializer initializer;
  initializer.name = name;
  initializer.type = type;
  initializer.shape.assign(shape.begin(), shape.end());
  initializer.bytes = addedBytes.back();
  initializers.push_back(std::move(initializer));
  initializerOf[name] = &initializers.back();
  return initializers.back();
}

const Initializer &Model::addIntegers(const std::string &name, llvm::ArrayRef<int64_t> values) {
  addedBytes.emplace_back(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int64_t));
  Initializer initializer;
  initializer.name = name;
  initializer.type = ElementType::I64;
  initializer.shape = {int64_t(values.size())};
  initializer.bytes = addedBytes.back();
  initializers.push_back(std::move(initializer));
  initializerOf[name] = &initializers.back();
  return initializers.back();
}

int64_t Node::integer(StringRef attribute, int64_t otherwise) const {
  auto found = attributes.find(attribute);
  return found == attributes.end() ? otherwise : found->second.integer;
}

double Node::real(StringRef attribute, double otherwise) const {
  auto found = attributes.find(attribute);
  return found == attributes.end() ? otherwise : found->second.real;
}

std::string Node::text(StringRef attribute, StringRef otherwise) const {
  auto found = attributes.find(attribute);
  return found == attributes.end() ? otherwise.str() : found->second.text;
}

llvm::ArrayRef<int64_t> Node::integers(StringRef attribute) const {
  auto found = attributes.find(attribute);
  return found == attributes.end() ? llvm::ArrayRef<int64_t>() : llvm::ArrayRef<int64_t>(found->second.integers);
}

} // namespace ztc::importer
