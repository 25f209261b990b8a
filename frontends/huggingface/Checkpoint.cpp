#include "frontends/huggingface/Checkpoint.h"
#include "runtime/Core/ShapeText.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace ztc::huggingface {

/// The file that a folder without weights names.
static constexpr const char *kAbsentFile = "model.safetensors";
/// The one that weights in fewer bits stand in, as the graph has it.
static constexpr const char *kQuantizedFile = "weights in fewer bits";

StatusOr<Checkpoint> Checkpoint::open(const std::string &folder, const QuantizationConfig &config) {
  Checkpoint checkpoint;
  checkpoint.folder = folder;
  if (!llvm::sys::fs::exists(folder + "/model.safetensors") &&
      !llvm::sys::fs::exists(folder + "/model.safetensors.index.json"))
    return checkpoint;
  ZTC_ASSIGN_OR_RETURN(SafetensorsCollection files, SafetensorsCollection::open(folder));
  checkpoint.files = std::make_shared<const SafetensorsCollection>(std::move(files));
  checkpoint.matrices = QuantizedMatrices(*checkpoint.files, config);
  return checkpoint;
}

bool Checkpoint::isStored(const std::string &own) const {
  return files && (matrices.find(own) || files->find(own));
}

std::string Checkpoint::ownName(const std::string &name) const {
  std::string own = !base.empty() && name.starts_with(base) ? prefix + name.substr(base.size()) : headPrefix + name;
  const auto isThere = [&](const std::string &path) { return isStored(path) || files->hasModule(path); };
  if (!files || renamed.empty() || isThere(own))
    return own;
  std::string other = own + "."; // parts that are exchanged end with a module
  for (const auto &[from, to] : renamed) {
    const size_t at = other.find(from);
    if (at == std::string::npos)
      continue;
    other.replace(at, from.size(), to);
    if (std::string name = other.substr(0, other.size() - 1); isThere(name))
      return name;
  }
  return own;
}

bool Checkpoint::has(const std::string &name) const {
  return isStored(ownName(name));
}

bool Checkpoint::differ(const std::string &name, const std::string &other) const {
  if (!has(name) || !has(other))
    return false;
  if (matrices.find(ownName(name)) || matrices.find(ownName(other))) // one tensor is not stored in two forms
    return true;
  auto one = *files->find(ownName(name)), two = *files->find(ownName(other));
  auto left = one.file->data(*one.tensor), right = two.file->data(*two.tensor);
  return one.tensor->typeName != two.tensor->typeName || one.tensor->shape != two.tensor->shape ||
         !std::equal(left.begin(), left.end(), right.begin(), right.end());
}

bool Checkpoint::hasShape(const std::string &name, const std::vector<int64_t> &shape) const {
  if (!files)
    return false;
  if (const QuantizedMatrix *matrix = matrices.find(ownName(name)))
    return matrix->shape == shape;
  auto found = files->find(ownName(name));
  return found && found->tensor->shape == shape;
}

void Checkpoint::choosePrefix(const std::string &given, const std::string &embedding) {
  base = prefix = given;
  if (!files)
    return;
  struct Form {
    std::string base, head;
  };
  for (const Form &form : {Form{given, ""}, Form{"", ""}, Form{"language_model." + given, "language_model."},
                           Form{"model.language_model.", ""}, Form{"model.text_model.", ""},
                           Form{"model.language_model." + given, "model.language_model."},
                           Form{"text_model." + given, "text_model."}, Form{"thinker." + given, "thinker."}}) {
    if (!files->find(form.base + embedding))
      continue;
    prefix = form.base;
    headPrefix = form.head;
    return;
  }
}

std::string Checkpoint::quantizedFormat(const SafetensorsTensor &tensor) const {
  if (files->find(tensor.name + ".quant_state.bitsandbytes__fp4"))
    return "fp4";
  if (files->find(tensor.name + ".quant_state.bitsandbytes__nf4")) {
    const auto scales = files->find(tensor.name + ".absmax"); // f32 where they are not quantised themselves
    return scales && scales->tensor->typeName == "F32" ? "nf4_single" : "nf4";
  }
  const bool hasScales = tensor.typeName == "I8" && files->find(tensor.name.substr(0, tensor.name.rfind('.')) + ".SCB");
  return hasScales ? "int8" : "";
}

void Checkpoint::takeQuantized(const QuantizedTensor &quantized, StoredTensor &tensor) {
  tensor.file = kQuantizedFile;
  inFewerBits.push_back(quantized);
}

StoredTensor Checkpoint::take(const std::string &name, const std::vector<int64_t> &shape) {
  StoredTensor tensor;
  tensor.name = ownName(name);
  tensor.shape = shape;
  tensor.file = kAbsentFile;
  uint64_t bytes = 4;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, uint64_t(size), &bytes) || bytes > uint64_t(1) << 60) {
      missing.push_back(tensor.name + " " + shapeText(shape) + " is larger than any tensor");
      return tensor;
    }
  tensor.bytes = bytes;
  if (!files) {
    tensor.offset = fresh;
    fresh += bytes;
    return tensor;
  }
  if (const QuantizedMatrix *matrix = matrices.find(tensor.name)) {
    if (!matrix->problem.empty())
      missing.push_back(matrix->problem);
    else if (matrix->shape != shape)
      missing.push_back(tensor.name + " has shape " + shapeText(matrix->shape) + " in " + matrix->format +
                        ", config.json asks for " + shapeText(shape));
    const SafetensorsTensor &codes = *matrix->codes.tensor;
    takeQuantized({tensor.name, matrix->format, matrix->codes.file->path(), shape, codes.offset, codes.bytes, true},
                  tensor);
    return tensor;
  }
  auto found = files->find(tensor.name);
  if (!found) {
    missing.push_back(tensor.name + " " + shapeText(shape) + " is missing");
    return tensor;
  }
  if (const std::string format = quantizedFormat(*found->tensor); !format.empty()) {
    if (format == "fp4" || shape.size() != 2)
      missing.push_back(tensor.name + " is in " + format + ", of which ztc reads matrices in nf4 and int8");
    takeQuantized({tensor.name, format, found->file->path(), shape, found->tensor->offset, found->tensor->bytes, false},
                  tensor);
    return tensor;
  }
  if (found->tensor->shape != shape) {
    missing.push_back(tensor.name + " has shape " + shapeText(found->tensor->shape) + ", config.json asks for " +
                      shapeText(shape));
    return tensor;
  }
  tensor.typeName = found->tensor->typeName;
  if (tensor.typeName != "F32" && tensor.typeName != "F16" && tensor.typeName != "BF16" && tensor.typeName != "F64")
    missing.push_back(tensor.name + " has type " + tensor.typeName + ", which is not a float type that ztc reads");
  tensor.file = llvm::sys::path::filename(found->file->path()).str();
  tensor.offset = found->tensor->offset;
  tensor.bytes = found->tensor->bytes;
  return tensor;
}

} // namespace ztc::huggingface
