#include "frontends/onnx/WeightForm.h"
#include "frontends/onnx/HostTensor.h"
#include "runtime/Core/FloatTypes.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstdio>
#include <cstring>

namespace ztc::importer {
namespace {

template <typename Stored> Stored stored(llvm::StringRef bytes, int64_t index) {
  Stored value;
  std::memcpy(&value, bytes.data() + index * int64_t(sizeof(Stored)), sizeof(Stored));
  return value;
}

float fromBf16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

} // namespace

int64_t TensorView::count() const {
  return countOf(shape);
}

double TensorView::at(int64_t index) const {
  if (type == ElementType::F64)
    return stored<double>(bytes, index);
  float value;
  read(index, 1, &value);
  return value;
}

void TensorView::read(int64_t first, int64_t count, float *out) const {
  switch (type) {
  case ElementType::F32:
    std::memcpy(out, bytes.data() + first * 4, count * 4);
    return;
  case ElementType::BF16:
    for (int64_t i = 0; i < count; ++i)
      out[i] = fromBf16(stored<uint16_t>(bytes, first + i));
    return;
  case ElementType::F16:
    for (int64_t i = 0; i < count; ++i)
      out[i] = fromF16(stored<uint16_t>(bytes, first + i));
    return;
  default:
    for (int64_t i = 0; i < count; ++i)
      out[i] = float(stored<double>(bytes, first + i));
  }
}

bool TensorView::isConstant() const {
  unsigned width = elementBytes(type);
  return bytes.size() <= width || std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
}

TensorView TensorView::matrix(int64_t index) const {
  TensorView view{name, {}, type, Shape(shape.begin() + 1, shape.end())};
  int64_t size = view.count() * elementBytes(type);
  view.bytes = bytes.substr(index * size, size);
  return view;
}

TensorView viewOf(const Model &model, const Initializer &initializer) {
  std::string error; // said where the elements are needed
  TensorView view{initializer.name, model.bytesOf(initializer, error), initializer.type, initializer.shape};
  if (view.bytes.size() != uint64_t(initializer.count()) * elementBytes(initializer.type))
    view.bytes = {};
  return view;
}

double roundingOf(ElementType a, ElementType b) {
  auto of = [](ElementType type) {
    return type == ElementType::BF16 ? 0x1p-8 : type == ElementType::F16 ? 0x1p-11 : 0x1p-24;
  };
  return std::max(of(a), of(b));
}

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  return text;
}

WeightForm WeightForm::of(llvm::StringRef tensor, bool isTransposed) {
  WeightForm form;
  form.pieces.push_back({tensor.str()});
  form.isTransposed = isTransposed;
  return form;
}

std::vector<std::string> WeightForm::describe() const {
  std::vector<std::string> words;
  if (pieces.size() > 1) {
    std::string list;
    for (size_t i = 0; i < pieces.size() && i < 4; ++i)
      list += (i ? ", " : "") + pieces[i].tensor;
    if (pieces.size() > 4)
      list += llvm::formatv(" and {0} more", pieces.size() - 4);
    const char *how = !matrices                           ? "joined from "
                      : size_t(matrices) == pieces.size() ? "stacked from "
                                                          : "joined and stacked from ";
    words.push_back(how + list);
  } else {
    const Piece &piece = pieces[0];
    std::string whole =
        piece.matrix < 0 ? piece.tensor : llvm::formatv("matrix {0} of {1}", piece.matrix, piece.tensor);
    if (piece.isPart)
      words.push_back(llvm::formatv("{0} {1} to {2} of {3}", axis == 0 ? "rows" : "columns", piece.begin,
                                    piece.begin + piece.size - 1, whole));
    else if (piece.matrix >= 0)
      words.push_back(whole);
  }
  if (isTransposed)
    words.push_back("the graph holds the transpose");
  if (isReshaped)
    words.push_back("the graph holds it in other dimensions");
  if (shift != 0)
    words.push_back(numberText(shift) + " + w folded into it: trained and exported as w");
  if (scale != 1)
    words.push_back("scaled by " + numberText(scale) + ": trained and exported without the scale");
  return words;
}

nlohmann::json WeightForm::toJson() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Piece &piece : pieces)
    list.push_back({piece.tensor, piece.begin, piece.size, piece.isPart, piece.matrix});
  return {{"pieces", list},         {"axis", axis},   {"matrices", matrices}, {"transposed", isTransposed},
          {"reshaped", isReshaped}, {"scale", scale}, {"shift", shift}};
}

std::optional<WeightForm> WeightForm::fromJson(const nlohmann::json &json) {
  auto number = [&](const char *key) { return json.contains(key) && json[key].is_number(); };
  auto flag = [&](const char *key) { return json.contains(key) && json[key].is_boolean(); };
  if (!json.is_object() || !json.contains("pieces") || !json["pieces"].is_array() || json["pieces"].empty() ||
      !number("axis") || !number("matrices") || !flag("transposed") || !flag("reshaped") || !number("scale") ||
      !number("shift"))
    return std::nullopt;
  WeightForm form;
  for (const nlohmann::json &piece : json["pieces"]) {
    if (!piece.is_array() || piece.size() != 5 || !piece[0].is_string() || !piece[1].is_number_integer() ||
        !piece[2].is_number_integer() || !piece[3].is_boolean() || !piece[4].is_number_integer())
      return std::nullopt;
    form.pieces.push_back({piece[0].get<std::string>(), piece[1].get<int64_t>(), piece[2].get<int64_t>(),
                           piece[3].get<bool>(), piece[4].get<int64_t>()});
  }
  form.axis = json["axis"].get<int64_t>();
  form.matrices = json["matrices"].get<int64_t>();
  form.isTransposed = json["transposed"].get<bool>();
  form.isReshaped = json["reshaped"].get<bool>();
  form.scale = json["scale"].get<double>();
  form.shift = json["shift"].get<double>();
  return form;
}

} // namespace ztc::importer
