#include "frontends/onnx/WriteBack.h"

namespace ztc::importer {

void WriteBack::add(const Parameter &parameter, const WeightForm &form) {
  for (const ParameterPlace &place : parameter.places) {
    const Initializer &initializer = *place.initializer;
    Tensor tensor{initializer.nameInFile(), parameter.name, initializer.shape, form, std::nullopt, place.readers};
    if (place.transposed != parameter.transposed) // a copy of a tied tensor in the other orientation
      tensor.form.isTransposed = !form.isTransposed;
    bool isInFile = initializer.isInFile;
    for (const FilePlace &other : initializer.filePlaces) {
      isInFile &= other.kind != FilePlace::Kind::Columns;
      tensors.push_back(tensor);
      tensors.back().name = other.tensor;
      tensors.back().place = other;
      if (!other.readers.empty())
        tensors.back().readers = other.readers;
    }
    if (isInFile)
      tensors.push_back(tensor);
  }
}

} // namespace ztc::importer
