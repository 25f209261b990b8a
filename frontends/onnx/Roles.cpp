#include "frontends/onnx/Roles.h"
#include "frontends/onnx/WeightUses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include <optional>

using llvm::StringRef;

namespace ztc::importer {
namespace {

constexpr std::pair<InputRole, StringRef> kRoleNames[] = {
    {InputRole::Unknown, "unknown"},
    {InputRole::Tokens, "tokens"},
    {InputRole::AttentionMask, "attention_mask"},
    {InputRole::Mask, "mask"},
    {InputRole::Positions, "position_ids"},
    {InputRole::Past, "past"},
    {InputRole::SequenceLength, "sequence_lengths"},
    {InputRole::TotalLength, "total_length"},
    {InputRole::Zeros, "zeros"},
    {InputRole::Labels, "labels"},
    {InputRole::LossWeights, "loss_weights"},
    {InputRole::Unused, "unused"},
};

bool isInteger(ElementType type) {
  return type == ElementType::I64 || type == ElementType::I32;
}

bool isMicrosoft(const Node &node, StringRef op) {
  return node.domain == "com.microsoft" && node.op == op;
}

std::string shapeText(const GraphValue &value) {
  std::string text = "(";
  for (size_t i = 0; i < value.shape.size(); ++i)
    text += (i ? ", " : "") + (value.shape[i] >= 0        ? std::to_string(value.shape[i])
                               : value.symbols[i].empty() ? std::string("?")
                                                          : value.symbols[i]);
  return text + ")";
}

std::string described(const GraphValue &value) {
  return "'" + value.name + "' (" + llvm::StringRef(elementName(value.type)).lower() + " " + shapeText(value) + ")";
}

std::string listed(llvm::ArrayRef<const GraphValue *> values) {
  std::string text;
  for (const GraphValue *value : values)
    text += (text.empty() ? "" : ", ") + described(*value);
  return text;
}

/// What the nodes do with an input, as far as it is followed: until it meets what depends on tokens.
struct Use {
  bool isRead = false;
  bool isShape = true;           ///< nothing but its shape is asked for
  int64_t rows = 0;              ///< of the table that it indexes without arithmetic on the way
  bool isCounted = false;        ///< a sum runs over it
  bool isPosition = false;       ///< angles, rotary positions, rows of a table after arithmetic
  bool isMask = false;           ///< truth values, counts, what is added to scores
  bool isCompared = false;       ///< with other positions
  bool isSequenceLength = false; ///< GroupQueryAttention's seqlens_k
  bool isTotalLength = false;    ///< and total_sequence_length
  bool isState = false;          ///< of a recurrence, before the first position
  bool isPast = false;
  int64_t pastAxis = -1;
};

class UseFinder {
public:
  explicit UseFinder(const Model &model) : model(model) {
    for (auto [i, node] : llvm::enumerate(model.nodes))
      for (auto [k, input] : llvm::enumerate(node.inputs))
        if (!input.empty())
          readers[input].push_back({unsigned(i), unsigned(k)});
  }

  /// Everything that depends on the value by more than its shape.
  void markLive(StringRef value) {
    live.insert(value);
    for (const Node &node : model.nodes)
      if (node.op != "Shape" && node.op != "Size" &&
          llvm::any_of(node.inputs, [&](const std::string &input) { return live.contains(input); }))
        for (const std::string &output : node.outputs)
          live.insert(output);
  }

  Use usesOf(const GraphValue &input) const {
    Use use;
    struct Step {
      std::string value;
      bool isPlain; ///< no arithmetic so far
    };
    std::vector<Step> stack{{input.name, true}};
    llvm::StringSet<> seen;
    while (!stack.empty()) {
      Step step = std::move(stack.back());
      stack.pop_back();
      if (!seen.insert(step.value).second)
        continue;
      auto found = readers.find(step.value);
      for (auto [index, operand] : found == readers.end() ? llvm::ArrayRef<Reader>() : found->second) {
        use.isRead = true;
        const Node &node = model.nodes[index];
        use.isShape &= node.op == "Shape" || node.op == "Size";
        if (!goesOn(node, operand, step.isPlain, input, use))
          continue;
        for (const std::string &output : node.outputs)
          if (!output.empty() && !live.contains(output))
            stack.push_back({output, step.isPlain && isPlain(node.op)});
      }
    }
    return use;
  }

private:
  struct Reader {
    unsigned node, operand;
  };

  static bool isPlain(StringRef op) {
    return llvm::is_contained({"Reshape", "Cast", "CastLike", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Expand",
                               "Clip", "Max", "Min", "Slice", "Transpose"},
                              op);
  }

  /// Notes what a node does with operand `k`; true where its result still is the input in another form.
  bool goesOn(const Node &node, unsigned k, bool isPlainSoFar, const GraphValue &input, Use &use) const {
    StringRef op = node.op;
    if (op == "Shape" || op == "Size")
      return false;
    if (isMicrosoft(node, "GroupQueryAttention")) {
      use.isPast |= k == 3 || k == 4;
      use.isSequenceLength |= k == 5;
      use.isTotalLength |= k == 6;
      use.isPosition |= k == 9;
      use.isMask |= k == 10;
      return false;
    }
    if (isMicrosoft(node, "MultiHeadAttention") || isMicrosoft(node, "Attention") || op == "Attention") {
      bool isMulti = op == "MultiHeadAttention", isOnnx = node.domain.empty();
      use.isPast |= isMulti ? k == 6 || k == 7 : isOnnx ? k == 4 || k == 5 : k == 4;
      use.isMask |= isMulti ? k == 4 || k == 5 : isOnnx ? k == 3 : k == 3 || k == 5;
      return false;
    }
    if ((op == "LinearAttention" || op == "CausalConvWithState") && k == 3) {
      use.isState = true;
      return false;
    }
    if (op == "RotaryEmbedding") {
      use.isPosition |= k == (node.domain.empty() ? 3u : 1u);
      return false;
    }
    if (op == "Sin" || op == "Cos") {
      use.isPosition = true;
      return false;
    }
    if ((op == "Gather" || op == "GatherElements") && k == 1) {
      int64_t rows = tableRows(model, node);
      if (rows && isPlainSoFar)
        use.rows = rows;
      else
        use.isPosition = true; // rows of a learned table, or of cosines and sines
      return false;
    }
    if (isFloat(input.type) && input.shape.size() >= 3 && op == "Concat") {
      use.isPast = true;
      int64_t axis = node.integer("axis", 0);
      use.pastAxis = axis < 0 ? axis + int64_t(input.shape.size()) : axis;
      return false;
    }
    use.isCounted |= op == "CumSum";
    if (op == "CumSum" || StringRef(op).starts_with("Reduce") || op == "Not" || op == "And" || op == "Or" ||
        (op == "Cast" && node.integer("to", 0) == int64_t(ElementType::Bool)) || (op == "Where" && k == 0) ||
        op == "GatherND") {
      use.isMask = true;
      return false;
    }
    if (llvm::is_contained({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}, op)) {
      Shape shape;
      const Initializer *other = weightOf(model, node.inputs[1 - k], shape);
      (other && other->count() == 1 ? use.isMask : use.isCompared) = true; // with 0 or 1, or with positions
      return false;
    }
    if (llvm::any_of(node.outputs, [&](const std::string &output) { return live.contains(output); })) {
      use.isMask |= op == "Add" || op == "Mul" || op == "Where";
      return false;
    }
    return true;
  }

  const Model &model;
  llvm::StringMap<llvm::SmallVector<Reader, 4>> readers;
  llvm::StringSet<> live;
};

} // namespace

bool isLossWeights(const GraphValue &input, bool byName) {
  return (!byName || input.name == "loss_weights") && input.type == ElementType::F32 && input.hasShape &&
         input.shape.size() == 2;
}

namespace {
/// Decides role by role; see findRoles.
class RoleFinder {
public:
  RoleFinder(const Model &model, const RequestedRoles &requested, llvm::StringMap<InputBinding> &roles,
             std::string &error)
      : model(model), requested(requested), roles(roles), error(error), finder(model) {}

  bool run() {
    if (!takeRequests())
      return false;
    if (!tokens && !findTokens())
      return false;
    roles[tokens->name].role = InputRole::Tokens;
    finder.markLive(tokens->name);
    for (const GraphValue &input : model.inputs)
      if (!roles.count(input.name) && !decide(input))
        return false;
    for (const GraphValue &input : model.inputs)
      if (roles[input.name].role == InputRole::Past && !checkPast(input))
        return false;
    return true;
  }

private:
  bool fail(std::string text) {
    error = std::move(text);
    return false;
  }

  bool takeRequests() {
    for (const auto &[role, name] : requested) {
      if (role == "logits")
        continue;
      auto input = llvm::find_if(model.inputs, [&](const GraphValue &value) { return value.name == name; });
      if (input == model.inputs.end()) {
        std::vector<const GraphValue *> all;
        for (const GraphValue &value : model.inputs)
          all.push_back(&value);
        return fail("--input=" + role + "=" + name + ": the graph has no input of this name; it has " + listed(all));
      }
      for (auto [known, text] : kRoleNames)
        if (text == role)
          roles[name] = {known, -1, "--input"};
      if (roles[name].role == InputRole::Tokens) {
        if (!isInteger(input->type) || input->shape.size() != 2)
          return fail("--input=tokens=" + name + ": tokens are integers (batch, sequence), this is " +
                      described(*input));
        tokens = &*input;
      }
      if (roles[name].role == InputRole::LossWeights && !isLossWeights(*input, /*byName=*/false))
        return fail("--input=loss_weights=" + name + ": loss weights are f32 (batch, sequence), this is " +
                    described(*input));
    }
    return true;
  }

  /// Integers (B, S) that index the table which has as many rows as the logits have columns; or the only ones there
  /// are.
  bool findTokens() {
    std::vector<const GraphValue *> candidates, lookups, vocabulary, unread;
    int64_t columns = model.outputs.empty() ? 0 : columnsOfLastProduct(model, model.outputs[0].name);
    for (const GraphValue &input : model.inputs) {
      if (roles.count(input.name) || !isInteger(input.type) || input.shape.size() != 2)
        continue;
      Use use = finder.usesOf(input);
      if (!use.isRead) {
        unread.push_back(&input);
        continue;
      }
      candidates.push_back(&input);
      if (use.rows)
        lookups.push_back(&input);
      if (use.rows && use.rows == columns)
        vocabulary.push_back(&input);
    }
    auto byName = [](std::vector<const GraphValue *> &list) {
      llvm::erase_if(list, [](const GraphValue *value) {
        StringRef name = value->name;
        return name.contains("position") || name.contains("type") || name.contains("mask") || name.contains("segment");
      });
    };
    for (std::vector<const GraphValue *> *list : {&vocabulary, &lookups}) {
      if (list->size() > 1)
        byName(*list);
      if (list->size() == 1) {
        tokens = list->front();
        return true;
      }
      if (list->size() > 1)
        return fail("several inputs may be the tokens: " + listed(*list) + "; say which with --input=tokens=NAME");
    }
    for (const GraphValue &input : model.inputs)
      if (isFloat(input.type) && input.shape.size() == 3 && finder.usesOf(input).isRead && !finder.usesOf(input).isPast)
        return fail("takes embeddings " + described(input) +
                    " and looks up no tokens: export the model with token numbers (input_ids), so that its embedding "
                    "is part of the graph");
    if (candidates.empty())
      candidates = unread; // only their shape is asked for
    if (candidates.size() > 1)
      byName(candidates);
    if (candidates.size() == 1) {
      tokens = candidates.front();
      return true;
    }
    return fail(candidates.empty() ? std::string("has no input of token numbers (batch, sequence)")
                                   : "several inputs may be the tokens: " + listed(candidates) +
                                         "; say which with --input=tokens=NAME");
  }

  bool decide(const GraphValue &input) {
    Use use = finder.usesOf(input);
    InputBinding &binding = roles[input.name];
    if (!isReadAtAll(input)) {
      binding.role = isLossWeights(input, /*byName=*/true) ? InputRole::LossWeights : InputRole::Unused;
      return true;
    }
    std::optional<InputRole> role = isFloat(input.type) ? floatRole(input, use) : integerRole(input, use);
    if (role == InputRole::AttentionMask && !hasShapeOfTokens(input))
      role = std::nullopt;
    if (!role)
      return fail("input " + described(input) +
                  " has no role in training a language model that its type, shape and "
                  "use prove; give it one with --input=ROLE=" +
                  input.name + " (attention_mask, mask, position_ids, past, sequence_lengths, total_length, zeros)");
    binding.role = *role;
    binding.pastAxis = use.pastAxis;
    return true;
  }

  /// (batch, sequence), or (batch, past + sequence): no fixed size where that of the tokens is free, or another one.
  bool hasShapeOfTokens(const GraphValue &input) const {
    for (size_t d = 0; d < input.shape.size() && d < tokens->shape.size(); ++d) {
      const int64_t size = input.shape[d], wanted = tokens->shape[d];
      if (size > 1 && (wanted < 0 || (d == 0 ? size != wanted : size < wanted)))
        return false;
    }
    return true;
  }

  bool isReadAtAll(const GraphValue &input) const {
    for (const Node &node : model.nodes)
      if (llvm::is_contained(node.inputs, input.name))
        return true;
    return false;
  }

  std::optional<InputRole> floatRole(const GraphValue &input, const Use &use) const {
    size_t rank = input.shape.size();
    if (use.isState) // a row begins with zeros
      return InputRole::Zeros;
    if (use.isPast && rank >= 3)
      return InputRole::Past;
    if (use.isMask && rank == 2)
      return InputRole::AttentionMask;
    if (use.isMask && isSquare(input))
      return InputRole::Mask;
    // Only its length is asked for, or it goes through views first: keys and values have a free length.
    if (rank >= 3 && llvm::is_contained(input.shape, -1) && StringRef(input.name).contains_insensitive("past"))
      return InputRole::Past;
    return std::nullopt;
  }

  std::optional<InputRole> integerRole(const GraphValue &input, const Use &use) const {
    size_t rank = input.shape.size();
    StringRef name = input.name;
    bool isScalar = input.hasShape && (rank == 0 || (rank == 1 && input.shape[0] == 1));
    if (use.isShape && rank == 2 &&
        hasShapeOfTokens(input)) // an example that was given twice: PyTorch reads one of the two
      return InputRole::Zeros;
    if (use.isSequenceLength)
      return InputRole::SequenceLength;
    if (use.isTotalLength)
      return InputRole::TotalLength;
    if (input.type == ElementType::Bool) {
      if (isScalar)
        return InputRole::Zeros; // use_cache_branch
      if (rank == 2)
        return InputRole::AttentionMask;
      return isSquare(input) ? std::optional(InputRole::Mask) : std::nullopt;
    }
    if (isScalar)
      return name.contains("total") ? InputRole::TotalLength : InputRole::Zeros;
    if (rank == 2 && (use.rows == 2 || (use.rows && (name.contains("type") || name.contains("segment")))))
      return InputRole::Zeros; // token types
    if (use.rows && use.rows == vocabulary())
      return std::nullopt;          // a second input of tokens
    if (rank == 2 && use.isCounted) // positions are made of it, and may be looked up
      return InputRole::AttentionMask;
    if (use.rows || use.isPosition)
      return rank == 1 || rank == 2 ? std::optional(InputRole::Positions) : std::nullopt;
    if (rank == 1)
      return use.isCompared || use.isMask ? std::optional(InputRole::Positions) : std::nullopt;
    if (rank == 2) // positions that are only held against each other look like a mask
      return use.isMask && !name.contains("position") ? std::optional(InputRole::AttentionMask)
             : use.isCompared || use.isMask           ? std::optional(InputRole::Positions)
             : name.contains("mask")                  ? std::optional(InputRole::AttentionMask)
             : name.contains("position")              ? std::optional(InputRole::Positions)
                                                      : std::nullopt;
    return use.isMask && isSquare(input) ? std::optional(InputRole::Mask) : std::nullopt;
  }

  int64_t vocabulary() const { return finder.usesOf(*tokens).rows; }

  /// (..., S, S) or (..., S, past + S).
  static bool isSquare(const GraphValue &input) { return input.shape.size() == 3 || input.shape.size() == 4; }

  /// The dimension that holds the past positions: where the present is appended, else the only free one.
  bool checkPast(const GraphValue &input) {
    InputBinding &binding = roles[input.name];
    auto isFree = [&](size_t d) {
      bool isBatch = !tokens->symbols.empty() && input.symbols[d] == tokens->symbols[0] && !input.symbols[d].empty();
      return input.shape[d] < 0 && !isBatch;
    };
    if (binding.pastAxis < 0)
      for (size_t d = input.shape.size(); d > 0 && binding.pastAxis < 0; --d)
        if (isFree(d - 1) && (d > 1 || input.shape.size() < 3) &&
            (StringRef(input.symbols[d - 1]).contains("past") || d - 1 == 2))
          binding.pastAxis = int64_t(d - 1);
    if (binding.pastAxis < 0 || binding.pastAxis >= int64_t(input.shape.size()))
      binding.pastAxis = input.shape.size() == 4 ? 2 : 1;
    int64_t length = input.shape[binding.pastAxis];
    if (length > 0)
      return fail("input " + described(input) + " holds past keys or values of the fixed length " +
                  std::to_string(length) +
                  ": training starts without a past; export with use_cache=False, or with a "
                  "free past length");
    return true;
  }

  const Model &model;
  const RequestedRoles &requested;
  llvm::StringMap<InputBinding> &roles;
  std::string &error;
  UseFinder finder;
  const GraphValue *tokens = nullptr;
};

} // namespace

StringRef roleName(InputRole role) {
  for (auto [known, text] : kRoleNames)
    if (known == role)
      return text;
  return "unknown";
}

bool parseRequestedRole(StringRef text, RequestedRoles &roles, std::string &error) {
  auto [role, name] = text.split('=');
  bool isRole = role == "logits";
  std::string known = "logits";
  for (auto [value, word] : kRoleNames)
    if (value != InputRole::Unknown) {
      isRole |= word == role;
      known += ", " + word.str();
    }
  if (!isRole || name.empty()) {
    error = "--input=" + text.str() + " is not ROLE=NAME; roles are " + known;
    return false;
  }
  roles.push_back({role.str(), name.str()});
  return true;
}

const GraphValue *findLogits(const Model &model, const RequestedRoles &requested, std::string &error) {
  for (const auto &[role, name] : requested)
    if (role == "logits") {
      for (const GraphValue &output : model.outputs)
        if (output.name == name)
          return &output;
      error = "--input=logits=" + name + ": the graph has no output of this name";
      return nullptr;
    }
  if (model.outputs.empty()) {
    error = "has no output";
    return nullptr;
  }
  if (model.outputs.size() == 1)
    return &model.outputs[0];
  llvm::SmallDenseSet<int64_t> tables;
  for (const Node &node : model.nodes)
    if (int64_t rows = tableRows(model, node))
      tables.insert(rows);
  std::vector<const GraphValue *> candidates, products, vocabulary;
  for (const GraphValue &output : model.outputs) {
    bool fits = !output.hasShape || output.shape.size() == 3 || (output.shape.empty() && !model.producer(output.name));
    if (!isFloat(output.type) || !fits)
      continue;
    candidates.push_back(&output);
    int64_t columns = columnsOfLastProduct(model, output.name);
    if (columns)
      products.push_back(&output);
    if (columns && tables.contains(columns))
      vocabulary.push_back(&output);
  }
  for (std::vector<const GraphValue *> *list : {&vocabulary, &products, &candidates}) {
    if (list->size() == 1)
      return list->front();
    if (list->size() > 1) {
      for (const GraphValue *output : *list)
        if (output->name == "logits")
          return output;
      error = "several outputs may be the logits: " + listed(*list) + "; say which with --input=logits=NAME";
      return nullptr;
    }
  }
  std::vector<const GraphValue *> all;
  for (const GraphValue &output : model.outputs)
    all.push_back(&output);
  error = "has no output of logits (batch, sequence, vocabulary): " + listed(all);
  return nullptr;
}

llvm::StringSet<> inputsOfLoss(const Model &model) {
  llvm::StringSet<> reached, inputs;
  for (const GraphValue &output : model.outputs)
    if (output.hasShape && output.shape.empty())
      reached.insert(output.name);
  for (size_t i = model.nodes.size(); i > 0; --i)
    if (llvm::any_of(model.nodes[i - 1].outputs, [&](const std::string &output) { return reached.contains(output); }))
      for (const std::string &input : model.nodes[i - 1].inputs)
        reached.insert(input);
  for (const GraphValue &input : model.inputs)
    if (reached.contains(input.name))
      inputs.insert(input.name);
  return inputs;
}

bool findRoles(const Model &model, const RequestedRoles &requested, llvm::StringMap<InputBinding> &roles,
               std::string &error) {
  return RoleFinder(model, requested, roles, error).run();
}

void keepOnly(Model &model, StringRef logits) {
  llvm::StringSet<> needed;
  needed.insert(logits);
  std::vector<Node> kept;
  for (size_t i = model.nodes.size(); i > 0; --i) {
    Node &node = model.nodes[i - 1];
    if (llvm::none_of(node.outputs, [&](const std::string &output) { return needed.contains(output); }))
      continue;
    for (const std::string &input : node.inputs)
      if (!input.empty())
        needed.insert(input);
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  model.nodes = std::move(kept);
  model.indexProducers();
  llvm::erase_if(model.outputs, [&](const GraphValue &output) { return output.name != logits; });
}

} // namespace ztc::importer
