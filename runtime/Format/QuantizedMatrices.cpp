#include "runtime/Format/QuantizedMatrices.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/ShapeText.h"
#include "runtime/Format/QuantizedWeight.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

using Found = SafetensorsCollection::Found;
using Code = QuantizedMatrix::Code;
using Order = QuantizedMatrix::Order;

/// Methods whose tensors have one of the forms above.
constexpr std::string_view kMethods[] = {"fp8",        "mxfp4",    "mxfp8", "gptq", "awq", "compressed-tensors",
                                         "fbgemm_fp8", "modelopt", "quark"};

uint64_t productOf(std::span<const int64_t> sizes) {
  uint64_t product = 1; // of a tensor that lies in a file
  for (const int64_t size : sizes)
    product *= uint64_t(size);
  return product;
}

NumberTable::Kind kindOf(const SafetensorsTensor &tensor) {
  constexpr std::pair<std::string_view, NumberTable::Kind> kKinds[] = {
      {"F32", NumberTable::F32},      {"F16", NumberTable::F16},      {"BF16", NumberTable::BF16},
      {"F8_E4M3", NumberTable::E4m3}, {"F8_E8M0", NumberTable::E8m0}, {"U8", NumberTable::E8m0}};
  for (const auto &[name, kind] : kKinds)
    if (tensor.typeName == name)
      return kind;
  return NumberTable::Absent;
}

/// How many bits each of `count` integers has that fill `words` words of 32; 0: none fits.
uint32_t bitsOf(uint64_t count, uint64_t words) {
  for (uint32_t bits = 1; bits <= 8; ++bits)
    if ((count * bits + 31) / 32 == words)
      return bits;
  return 0;
}

/// Describes one weight, part by part; the first thing that does not fit stays as its problem.
class Description {
public:
  Description(const SafetensorsCollection &files, const QuantizationConfig &config, std::string name,
              std::string format, const Found &codes)
      : files_(files), config_(config) {
    matrix_.name = std::move(name);
    matrix_.format = std::move(format);
    matrix_.codes = codes;
    matrix_.data = codes.file->data(*codes.tensor);
    parts_.push_back(codes.tensor->name);
  }

  /// Null, and a problem, where it is missing.
  const SafetensorsTensor *part(const std::string &name) {
    const SafetensorsTensor *found = optionalPart(name);
    if (!found)
      fail(fmt::format("'{}' is missing", name));
    return found;
  }
  bool isThere(const std::string &name) const { return files_.find(name).has_value(); }
  const SafetensorsTensor *optionalPart(const std::string &name) {
    const std::optional<Found> found = files_.find(name);
    if (!found)
      return nullptr;
    parts_.push_back(name);
    data_ = found->file->data(*found->tensor);
    return found->tensor;
  }
  /// Of the part that was asked for last.
  std::span<const std::byte> data() const { return data_; }

  void fail(std::string why) {
    if (matrix_.problem.empty())
      matrix_.problem = std::move(why);
  }
  void failShape(const SafetensorsTensor &tensor) {
    fail(fmt::format("'{}' has {} {}, which does not fit '{}' {}", tensor.name, tensor.typeName,
                     shapeText(tensor.shape), matrix_.codes.tensor->name, shapeText(matrix_.codes.tensor->shape)));
  }

  /// Of codes that lie in rows, `bits` each: the sizes of the stored matrices.
  void setRows(const std::vector<int64_t> &shape) {
    matrix_.shape = shape;
    if (shape.size() < 2 || shape.size() > 3 || productOf(shape) == 0)
      return fail(fmt::format("'{}' {} is neither a matrix nor a stack of them", matrix_.name, shapeText(shape)));
    matrix_.matrices = shape.size() == 3 ? uint64_t(shape[0]) : 1;
    matrix_.rows = uint64_t(shape[shape.size() - 2]);
    matrix_.columns = uint64_t(shape.back());
    matrix_.rowBytes = matrix_.data.size() / (matrix_.matrices * matrix_.rows);
    if (matrix_.rowBytes * 8 < matrix_.columns * matrix_.bits ||
        matrix_.rowBytes * matrix_.rows * matrix_.matrices != matrix_.data.size())
      fail(fmt::format("'{}' has {} bytes for {} elements of {} bits", matrix_.codes.tensor->name, matrix_.data.size(),
                       productOf(shape), matrix_.bits));
  }

  /// Scales of the codes' own order: one for all, or so many as a grid of blocks has, of `block` (rows, columns) where
  /// that is given.
  void setScales(const std::string &name, std::span<const int64_t> block = {}) {
    const SafetensorsTensor *tensor = part(name);
    if (!tensor || !matrix_.problem.empty())
      return;
    matrix_.scales = {kindOf(*tensor), data()};
    if (matrix_.scales.kind == NumberTable::Absent)
      return failShape(*tensor);
    const std::optional<Grid> grid = gridOf(*tensor);
    if (!grid)
      return failShape(*tensor);
    const bool isGiven = !block.empty() && grid->rows * grid->columns > 1;
    matrix_.blockRows = isGiven ? uint64_t(block[0]) : (matrix_.rows + grid->rows - 1) / grid->rows;
    matrix_.blockColumns = isGiven ? uint64_t(block[1]) : (matrix_.columns + grid->columns - 1) / grid->columns;
    if (matrix_.groups() != grid->columns || (matrix_.rows + matrix_.blockRows - 1) / matrix_.blockRows != grid->rows)
      failShape(*tensor);
  }

  /// i32 for each column: which scale it has. Columns of one block after the other need none.
  void setGroupOfColumn(const std::string &name) {
    const SafetensorsTensor *tensor = optionalPart(name);
    if (!tensor || !matrix_.problem.empty())
      return;
    if (tensor->typeName != "I32" || productOf(tensor->shape) != matrix_.columns)
      return failShape(*tensor);
    bool isInOrder = true;
    for (uint64_t column = 0; column < matrix_.columns; ++column) {
      uint32_t group = 0;
      std::memcpy(&group, data_.data() + column * sizeof group, sizeof group);
      if (group >= matrix_.groups())
        return fail(fmt::format("'{}' names scale {} of {}", name, group, matrix_.groups()));
      isInOrder &= group == column / matrix_.blockColumns;
    }
    if (!isInOrder)
      matrix_.groupOfColumn = data_;
  }

  /// A single number that all scales are multiplied by, or divided.
  void setFactor(const SafetensorsTensor &tensor, bool divides) {
    const NumberTable table{kindOf(tensor), data()};
    if (table.count() != 1)
      return failShape(tensor);
    (divides ? matrix_.scaleDivisor : matrix_.scaleFactor) = table.at(0);
  }

  QuantizedMatrix &matrix() { return matrix_; }
  const QuantizationConfig &config() const { return config_; }
  const std::vector<std::string> &parts() const { return parts_; }

private:
  struct Grid {
    uint64_t rows, columns;
  };
  /// (), (1), (rows), (rows, 1), (row blocks, column blocks), for each matrix of a stack or for all.
  std::optional<Grid> gridOf(const SafetensorsTensor &tensor) const {
    std::vector<int64_t> shape = tensor.shape;
    const uint64_t count = productOf(shape);
    if (matrix_.matrices > 1) {
      if (shape.empty() || uint64_t(shape[0]) != matrix_.matrices || count == 0)
        return std::nullopt;
      shape.erase(shape.begin());
    } else if (matrix_.shape.size() == 3 && shape.size() == 3 && shape[0] == 1) {
      shape.erase(shape.begin());
    }
    if (productOf(shape) == 1)
      return Grid{1, 1};
    if (shape.size() == 1)
      return Grid{uint64_t(shape[0]), 1};
    if (shape.size() != 2 || count == 0)
      return std::nullopt;
    return Grid{uint64_t(shape[0]), uint64_t(shape[1])};
  }

  const SafetensorsCollection &files_;
  const QuantizationConfig &config_;
  QuantizedMatrix matrix_;
  std::vector<std::string> parts_;
  std::span<const std::byte> data_;
};

/// n bits of a word of 32, over and over: what is added to each word where each of its integers gets 1.
uint32_t onesOf(uint32_t bits) {
  uint32_t ones = 0;
  for (uint32_t at = 0; at + bits <= 32; at += bits)
    ones |= 1u << at;
  return ones;
}

std::vector<int64_t> withLast(std::vector<int64_t> shape, int64_t last) {
  shape.back() = last;
  return shape;
}

/// M.qweight of GPTQ, (inputs * bits / 32, outputs), or AWQ, (inputs, outputs / 8).
void describeWords(Description &description, const std::string &module) {
  QuantizedMatrix &matrix = description.matrix();
  const SafetensorsTensor &codes = *matrix.codes.tensor;
  matrix.code = Code::Integer;
  matrix.hasTransposedScales = true;
  const SafetensorsTensor *scales = description.part(module + ".scales");
  if (!scales)
    return;
  matrix.scales = {kindOf(*scales), description.data()};
  const SafetensorsTensor *zeros = description.part(module + ".qzeros");
  if (!zeros)
    return;
  matrix.packedZeros = description.data();
  const auto isMatrix = [](const SafetensorsTensor &tensor) {
    return tensor.shape.size() == 2 && productOf(tensor.shape) > 0;
  };
  if (!isMatrix(codes) || codes.typeName != "I32" || !isMatrix(*scales) || matrix.scales.kind == NumberTable::Absent)
    return description.failShape(*scales);
  const uint64_t groups = uint64_t(scales->shape[0]);
  if (!isMatrix(*zeros) || zeros->typeName != "I32" || uint64_t(zeros->shape[0]) != groups)
    return description.failShape(*zeros);
  matrix.rows = uint64_t(scales->shape[1]);
  matrix.bits = bitsOf(matrix.rows, uint64_t(zeros->shape[1]));
  const bool isAwq = uint64_t(codes.shape[1]) != matrix.rows;
  matrix.order = isAwq ? Order::AwqRows : Order::Columns;
  matrix.format = fmt::format("{} in {} bits", isAwq ? "awq" : "gptq", matrix.bits);
  if (isAwq ? matrix.bits != 4 || uint64_t(codes.shape[1]) * 8 != matrix.rows
            : matrix.bits != 2 && matrix.bits != 3 && matrix.bits != 4 && matrix.bits != 8)
    return description.failShape(*zeros);
  matrix.columns = isAwq ? uint64_t(codes.shape[0]) : uint64_t(codes.shape[0]) * 32 / matrix.bits;
  if (!isAwq && description.config().method.empty())
    return description.fail(
        "quantization_config, which says what GPTQ's zeros are stored as, is missing in config.json");
  if (!isAwq && description.config().hasZerosLessOne)
    matrix.zeroStep = matrix.bits == 3 ? 1 : onesOf(matrix.bits);
  matrix.shape = {int64_t(matrix.rows), int64_t(matrix.columns)};
  matrix.blockColumns = (matrix.columns + groups - 1) / groups;
  if (matrix.groups() != groups)
    return description.failShape(*scales);
  description.setGroupOfColumn(module + ".g_idx");
}

/// X_packed of compressed-tensors in bytes, or the codes of ModelOpt: two of fp4 each.
void describeFp4(Description &description, const std::string &name) {
  QuantizedMatrix &matrix = description.matrix();
  const std::vector<int64_t> &shape = matrix.codes.tensor->shape;
  matrix.code = Code::E2m1;
  matrix.bits = 4;
  description.setRows(withLast(shape, shape.back() * 2));
  description.setScales(description.isThere(name + "_scale") ? name + "_scale" : name + "_scale_inv");
  // What is called mxfp4 may be kept as a plan stores it: in blocks of 32 that no row cuts.
  const bool isMxfp4 = matrix.blockRows == 1 && matrix.blockColumns == kMxfp4Block && matrix.columns % kMxfp4Block == 0;
  matrix.format = matrix.scales.kind != NumberTable::E8m0 ? "nvfp4" : isMxfp4 ? "mxfp4" : "fp4";
  if (const SafetensorsTensor *factor = description.optionalPart(name + "_global_scale"))
    description.setFactor(*factor, /*divides=*/true);
  if (const SafetensorsTensor *factor = description.optionalPart(name + "_scale_2"))
    description.setFactor(*factor, /*divides=*/false);
}

/// X_packed of compressed-tensors in words.
void describeIntegers(Description &description, const std::string &name) {
  QuantizedMatrix &matrix = description.matrix();
  const SafetensorsTensor &codes = *matrix.codes.tensor;
  const SafetensorsTensor *sizes = description.part(name + "_shape");
  if (!sizes)
    return;
  std::vector<int64_t> whole(codes.shape.size());
  if (codes.typeName != "I32" || sizes->typeName != "I64" || productOf(sizes->shape) != whole.size())
    return description.failShape(*sizes);
  std::memcpy(whole.data(), description.data().data(), whole.size() * sizeof(int64_t));
  const bool fits = std::equal(whole.begin(), whole.end() - 1, codes.shape.begin()) && whole.back() > 0 &&
                    whole.back() <= codes.shape.back() * 32;
  matrix.bits = fits ? bitsOf(uint64_t(whole.back()), uint64_t(codes.shape.back())) : 0;
  if (!matrix.bits)
    return description.fail(fmt::format("'{}' says {}, which does not fit '{}' {}", sizes->name, shapeText(whole),
                                        codes.name, shapeText(codes.shape)));
  matrix.code = Code::Integer;
  matrix.format = fmt::format("integers of {} bits", matrix.bits);
  matrix.zero = float(1 << (matrix.bits - 1));
  description.setRows(whole);
  description.setScales(name + "_scale");
  if (const SafetensorsTensor *zeros = description.optionalPart(name + "_zero_point")) {
    matrix.packedZeros = description.data();
    const uint64_t words = (matrix.rows * matrix.bits + 31) / 32;
    if (zeros->typeName != "I32" || matrix.blockRows != 1 ||
        productOf(zeros->shape) != matrix.matrices * words * matrix.groups())
      description.failShape(*zeros);
  }
  description.setGroupOfColumn(name + "_g_idx");
}

/// X with X_scale_inv or X_scale.
void describeBytes(Description &description, const std::string &name) {
  QuantizedMatrix &matrix = description.matrix();
  const SafetensorsTensor &codes = *matrix.codes.tensor;
  matrix.code = codes.typeName == "I8" ? Code::I8 : codes.typeName == "F8_E4M3" ? Code::E4m3 : Code::E5m2;
  matrix.format = codes.typeName == "I8" ? "int8" : "fp8";
  description.setRows(codes.shape);
  const bool isInverse = description.isThere(name + "_scale_inv");
  description.setScales(isInverse ? name + "_scale_inv" : name + "_scale",
                        isInverse ? description.config().block : std::span<const int64_t>());
  if (const SafetensorsTensor *zeros = description.optionalPart(name + "_zero_point")) {
    matrix.zeros = {NumberTable::I8, description.data()};
    if (zeros->typeName != "I8" || matrix.zeros.count() != matrix.scales.count())
      description.failShape(*zeros);
  }
}

/// X_blocks of gpt-oss: (experts, outputs, inputs / 32, 16), of weights (experts, inputs, outputs).
void describeBlocks(Description &description, const std::string &name) {
  QuantizedMatrix &matrix = description.matrix();
  const std::vector<int64_t> &shape = matrix.codes.tensor->shape;
  if (shape.size() != 4 || shape.back() != 16 || productOf(shape) == 0)
    return description.fail(
        fmt::format("'{}' {} has not blocks of 16 bytes", matrix.codes.tensor->name, shapeText(shape)));
  matrix.code = Code::E2m1;
  matrix.bits = 4;
  description.setRows({shape[0], shape[1], shape[2] * 32});
  description.setScales(name + "_scales");
  if (matrix.scales.kind != NumberTable::E8m0 || matrix.blockColumns != kMxfp4Block)
    description.fail(fmt::format("'{}_scales' has not a byte for each block", name));
  matrix.isTransposed = true;
  std::swap(matrix.shape[1], matrix.shape[2]);
}

std::string_view lastPart(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

/// What scales the inputs, outputs or cached keys and values of modules whose weights are in fewer bits.
bool scalesActivations(std::string_view tensor) {
  constexpr std::string_view kNames[] = {
      "input_scale",       "activation_scale", "input_global_scale", "output_scale", "input_zero_point", "k_scale",
      "v_scale",           "q_scale",          "pre_quant_scale",    "k_zero_point", "v_zero_point",     "kv_scale",
      "output_zero_point", "input_scale_ub"};
  return std::ranges::find(kNames, lastPart(tensor)) != std::end(kNames);
}

/// The name of the weight that a tensor holds codes of, and who describes it; empty: it holds none.
struct Form {
  std::string name, format;
  void (*describe)(Description &, const std::string &) = nullptr;
};

Form formOf(const SafetensorsCollection &files, const SafetensorsTensor &tensor) {
  const auto isThere = [&](const char *suffix) { return files.find(tensor.name + suffix).has_value(); };
  const auto without = [&](std::string_view suffix) {
    return std::string(tensor.name, 0, tensor.name.size() - suffix.size());
  };
  const std::string &type = tensor.typeName;
  if (tensor.name.ends_with(".qweight"))
    return {without(".qweight") + ".weight", "integers",
            [](Description &to, const std::string &name) { describeWords(to, name.substr(0, name.rfind('.'))); }};
  if (tensor.name.ends_with("_packed") && !tensor.shape.empty())
    return {without("_packed"), "integers", type == "U8" ? describeFp4 : describeIntegers};
  if (tensor.name.ends_with("_blocks") && type == "U8")
    return {without("_blocks"), "mxfp4", describeBlocks};
  const bool isBytes = type == "U8" || type == "I8" || type == "F8_E4M3" || type == "F8_E5M2";
  if (!isBytes || tensor.shape.empty())
    return {};
  const bool hasScaleInverse = isThere("_scale_inv");
  if (!hasScaleInverse && !isThere("_scale"))
    return {};
  if (type == "U8" || (type == "I8" && hasScaleInverse)) // DeepSeek's fp4 is two codes in an i8
    return {tensor.name, "fp4", describeFp4};
  return {tensor.name, "fp8", describeBytes};
}

} // namespace

QuantizedMatrices::QuantizedMatrices(const SafetensorsCollection &files, const QuantizationConfig &config) {
  for (const auto &file : files.files())
    for (const SafetensorsTensor &tensor : file->tensors()) {
      Form form = formOf(files, tensor);
      if (!form.describe)
        continue;
      Description description(files, config, form.name, form.format, {file.get(), &tensor});
      form.describe(description, form.name);
      if (description.matrix()
              .problem.empty()) // else they are tensors as any other, where no parameter is made of them
        parts_.insert(description.parts().begin(), description.parts().end());
      matrices_.emplace(std::move(form.name), std::move(description.matrix()));
    }
}

const QuantizedMatrix *QuantizedMatrices::find(std::string_view name) const {
  const auto found = matrices_.find(name);
  return found == matrices_.end() ? nullptr : &found->second;
}

const QuantizedMatrix *QuantizedMatrices::find(const plan::Parameter &parameter) const {
  if (const QuantizedMatrix *found = find(parameter.name()))
    return found;
  for (const std::string &tied : parameter.tied())
    if (const QuantizedMatrix *found = find(tied))
      return found;
  return nullptr;
}

bool QuantizedMatrices::isPart(std::string_view tensor) const {
  return parts_.contains(tensor) || (!matrices_.empty() && scalesActivations(tensor));
}

static std::string textOf(const nlohmann::json &object, const char *key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Of AWQ's file layouts there is the one that transformers calls gemm; others order words otherwise.
static std::string whyUnsupported(const nlohmann::json &quantization, const std::string &method) {
  if (std::ranges::find(kMethods, method) == std::end(kMethods))
    return fmt::format("the weights are quantised by '{}', which ztc does not read", method);
  if (const std::string version = textOf(quantization, "version");
      method == "awq" && (version.starts_with("gemv") || version.starts_with("GEMV")))
    return fmt::format("the weights are quantised by awq's version '{}', of which ztc reads gemm", version);
  const auto sparsity = quantization.find("sparsity_config");
  if (sparsity != quantization.end() && sparsity->is_object())
    if (const std::string format = textOf(*sparsity, "format"); !format.empty() && format != "dense")
      return fmt::format("the weights are stored as '{}' (sparsity_config), which ztc does not read", format);
  return {};
}

QuantizationConfig parseQuantizationConfig(std::string_view text) {
  QuantizationConfig config;
  const nlohmann::json json = parseJson(text);
  if (!json.is_object())
    return config;
  const nlohmann::json *quantization = nullptr;
  const auto look = [&](const nlohmann::json &part) {
    if (const auto found = part.find("quantization_config"); found != part.end() && found->is_object())
      quantization = &*found;
    for (const char *key : {"torch_dtype", "dtype"})
      if (const std::string type = textOf(part, key); type == "float16" || type == "float32")
        config.type = type == "float16" ? plan::F16 : plan::F32;
  };
  if (const auto part = json.find("text_config"); part != json.end() && part->is_object())
    look(*part);
  look(json);
  if (!quantization)
    return config;
  config.method = textOf(*quantization, "quant_method");
  if (config.method.empty()) // ModelOpt's own file says quant_algo
    config.method = textOf(*quantization, "quant_algo").empty() ? "an unnamed method" : "modelopt";
  const std::string packing = textOf(*quantization, "packing_format");
  if (config.method == "auto-round" || config.method == "intel/auto-round")
    config.method = packing.find("awq") != std::string::npos    ? "awq"
                    : packing.find("gptq") != std::string::npos ? "gptq"
                                                                : config.method;
  const std::string format = textOf(*quantization, "checkpoint_format");
  config.hasZerosLessOne = config.method == "gptq" && format != "gptq_v2";
  if (const auto block = quantization->find("weight_block_size"); block != quantization->end() && block->is_array())
    for (const nlohmann::json &size : *block)
      if (size.is_number_integer() && size.get<int64_t>() > 0)
        config.block.push_back(size.get<int64_t>());
  if (config.block.size() != 2)
    config.block.clear();
  if (config.method != "bitsandbytes")
    config.unsupported = whyUnsupported(*quantization, config.method);
  return config;
}

QuantizationConfig quantizationConfigOf(const std::string &weights) {
  const StatusOr<std::string> text =
      readWholeFile((isFolder(weights) ? weights : parentFolder(weights)) + "/config.json");
  return text.isOk() ? parseQuantizationConfig(*text) : QuantizationConfig();
}

} // namespace ztc
