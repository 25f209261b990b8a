#include "compiler/Analysis/OffloadChoice.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ztc {

static constexpr std::pair<llvm::StringLiteral, OffloadChoice::Share OffloadChoice::*> kKinds[] = {
    {"states", &OffloadChoice::states},           {"masters", &OffloadChoice::masters},
    {"parameters", &OffloadChoice::parameters},   {"gradients", &OffloadChoice::gradients},
    {"activations", &OffloadChoice::activations},
};

static constexpr llvm::StringLiteral kUpdateOnHost = "/update=host";

static constexpr llvm::StringLiteral kTensor = "activations.";

std::string keptTensorName(StringRef slotName) {
  const auto [program, inProgram] = slotName.split('.');
  const auto [block, inBlock] = inProgram.split('.');
  StringRef number = block;
  const bool isOfBlock = number.consume_front("layer") && !number.empty() && llvm::all_of(number, llvm::isDigit);
  std::string name = (isOfBlock && !inBlock.empty() ? inBlock : slotName).str();
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '.' && c != '_' && c != '-')
      c = '_';
  return name;
}

std::string OffloadChoice::text() const {
  if (isEmpty())
    return "none";
  std::string text;
  for (const auto &[name, share] : kKinds)
    text += (text.empty() ? "" : "/") + name.str() + "=" + std::to_string((this->*share).host) + "+" +
            std::to_string((this->*share).disk);
  for (const auto &[name, share] : tensors)
    text += "/" + kTensor.str() + name + "=" + std::to_string(share.host) + "+" + std::to_string(share.disk);
  if (updatesOnHost)
    text += kUpdateOnHost;
  return text;
}

FailureOr<OffloadChoice> OffloadChoice::parse(StringRef text) {
  OffloadChoice choice;
  if (text == "none")
    return choice;
  choice.updatesOnHost = text.consume_back(kUpdateOnHost);
  for (StringRef part : llvm::split(text, '/')) {
    const auto [name, counts] = part.split('=');
    const auto [host, disk] = counts.split('+');
    const bool isTensor = name.starts_with(kTensor) && name.size() > kTensor.size();
    const auto *kind = llvm::find_if(kKinds, [name = name](const auto &entry) { return entry.first == name; });
    if (kind == std::end(kKinds) && !isTensor)
      return failure();
    Share &share = isTensor ? choice.tensors[name.drop_front(kTensor.size()).str()] : choice.*kind->second;
    if (host.getAsInteger(10, share.host) || disk.getAsInteger(10, share.disk))
      return failure();
  }
  return choice;
}

} // namespace ztc
