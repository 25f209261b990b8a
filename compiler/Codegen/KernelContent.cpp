#include "compiler/Codegen/KernelContent.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;

namespace ztc::codegen {
namespace {

/// Numbers for everything that a function has: what is met again is its number.
class Content {
public:
  /// All of `root`, which the next one follows.
  void add(Operation *root) {
    if (refersTo.insert(root))
      write(root);
    for (unsigned i = 1; i < refersTo.size(); ++i) // it grows meanwhile
      write(refersTo[i]);
  }

  std::string hash() {
    if (hasResources)
      return {};
    llvm::SHA256 sha;
    sha.update(ArrayRef(reinterpret_cast<const uint8_t *>(words.data()), words.size() * sizeof(uint32_t)));
    for (const std::string &text : texts) {
      sha.update(std::to_string(text.size()) + ":");
      sha.update(text);
    }
    return llvm::toHex(sha.final(), /*LowerCase=*/true);
  }

private:
  void write(Operation *root) {
    // Operations and values first: uses of a value may come before it.
    root->walk<WalkOrder::PreOrder>([&](Operation *op) {
      operations[op] = uint32_t(operations.size());
      for (Region &region : op->getRegions())
        for (Block &block : region) {
          blocks[&block] = uint32_t(blocks.size());
          for (BlockArgument argument : block.getArguments())
            addValue(argument);
        }
      for (OpResult result : op->getResults())
        addValue(result);
    });
    root->walk<WalkOrder::PreOrder>([&](Operation *op) { describe(op); });
    for (Value value : ordered)
      if (!value.use_empty() && !value.hasOneUse())
        for (OpOperand &use : value.getUses()) {
          words.push_back(operations[use.getOwner()]);
          words.push_back(use.getOperandNumber());
        }
    ordered.clear();
  }

  void addValue(Value value) {
    values[value] = uint32_t(values.size());
    ordered.push_back(value);
  }

  void describe(Operation *op) {
    words.push_back(textOf(op->getName().getStringRef()));
    words.push_back(op->getNumOperands());
    for (Value operand : op->getOperands())
      words.push_back(values[operand]);
    words.push_back(op->getNumResults());
    for (Type type : op->getResultTypes())
      words.push_back(numberOf(type));
    words.push_back(numberOf(op->getAttrDictionary(), op));
    words.push_back(op->getNumSuccessors());
    for (Block *successor : op->getSuccessors())
      words.push_back(blocks[successor]);
    words.push_back(op->getNumRegions());
    for (Region &region : op->getRegions()) {
      words.push_back(uint32_t(region.getBlocks().size()));
      for (Block &block : region) {
        words.push_back(blocks[&block]);
        words.push_back(uint32_t(block.getOperations().size()));
        words.push_back(block.getNumArguments());
        for (Type type : block.getArgumentTypes())
          words.push_back(numberOf(type));
      }
    }
  }

  uint32_t textOf(StringRef text) {
    auto [found, isNew] = numbers.try_emplace(text, uint32_t(texts.size()));
    if (isNew)
      texts.push_back(text.str());
    return found->second;
  }
  uint32_t numberOf(Type type) {
    auto [found, isNew] = types.try_emplace(type);
    if (isNew) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      type.print(stream);
      found->second = textOf(text);
    }
    return found->second;
  }
  uint32_t numberOf(DictionaryAttr attributes, Operation *op) {
    auto [found, isNew] = dictionaries.try_emplace(attributes);
    if (isNew) {
      attributes.walk([&](Attribute attribute) {
        hasResources |= isa<DenseResourceElementsAttr>(attribute);
        if (auto symbol = dyn_cast<FlatSymbolRefAttr>(attribute))
          if (Operation *meant = SymbolTable::lookupNearestSymbolFrom(op, symbol))
            refersTo.insert(meant);
      });
      std::string text;
      llvm::raw_string_ostream stream(text);
      attributes.print(stream);
      found->second = textOf(text);
    }
    return found->second;
  }

  std::vector<uint32_t> words;
  std::vector<std::string> texts;
  llvm::StringMap<uint32_t> numbers; ///< of texts
  DenseMap<Type, uint32_t> types;
  DenseMap<DictionaryAttr, uint32_t> dictionaries;
  DenseMap<Operation *, uint32_t> operations;
  DenseMap<Block *, uint32_t> blocks;
  DenseMap<Value, uint32_t> values;
  SmallVector<Value> ordered; ///< those of the operation that is written
  llvm::SetVector<Operation *> refersTo;
  bool hasResources = false;
};

} // namespace

std::string contentOf(func::FuncOp kernel) {
  Content content;
  content.add(kernel);
  return content.hash();
}

} // namespace ztc::codegen
