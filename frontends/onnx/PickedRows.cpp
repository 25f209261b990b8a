#include "frontends/onnx/PickedRows.h"
#include "frontends/onnx/ChoiceMasks.h"
#include <map>
#include <optional>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// What a `NonZero` picks.
struct Pick {
  std::string node;           ///< for messages
  std::string mask;           ///< (T), or (T, K)
  bool hasChoices = false;    ///< the mask is (T, K), and true for one k of a row at most
  bool isChoiceFirst = false; ///< in the graph it is (K, T)
  bool isOfTwo = false;       ///< in the graph places have two dimensions (B, S), and T is B S
  std::string elementsOf;     ///< of a mask that is repeated over the elements of its rows: that one
};

/// A value that depends on which rows were picked.
struct Picked {
  enum class Kind {
    Grid,    ///< places of the elements, (dimensions, P); or (P, dimensions)
    Columns, ///< some of these dimensions
    Scaled,  ///< the row's place times the number of choices
    Rows,    ///< data: a row for each element, of which a row for each of all is computed now
    Flat,    ///< the elements of such rows, one after the other
    Size     ///< how many there are, or what is computed of it
  } kind = Kind::Rows;
  unsigned pick = 0;
  llvm::SmallVector<int64_t, 2> columns;
  std::string from;       ///< Rows: what they are rows of, where they are just these. Flat: whose elements
  int64_t axis = 0;       ///< Rows, Grid: the dimension of the rows
  bool isZero = false;    ///< Rows: 0 where nothing was picked
  bool hasWidth = false;  ///< Rows: the last dimension is another one than that of the rows
  bool isShape = false;   ///< Size: those of all dimensions of rows
  bool isUnknown = false; ///< Size: of places, which have none any more
  std::string choices;    ///< Scaled: whose number of choices
};

/// Whether a list of words has this one.
bool isOneOf(StringRef op, StringRef list) {
  llvm::SmallVector<StringRef, 32> words;
  list.split(words, ' ');
  return llvm::is_contained(words, op);
}

/// Ops whose elements are computed of those at the same place.
constexpr StringRef kByElement =
    "Abs Acos Add And Atan Cast CastLike Ceil Celu Clip Cos Div Elu Equal Erf Exp Floor Gelu "
    "Greater HardSigmoid HardSwish Identity LeakyRelu Less Log Max Min Mish Mul Neg Not Or "
    "Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Sub Swish Tanh "
    "ThresholdedRelu Where FastGelu QuickGelu GreaterOrEqual LessOrEqual";

class RowSpreader {
public:
  explicit RowSpreader(Model &model) : model(model) {}

  void run() {
    bool found = false;
    for (const Node &node : model.nodes) {
      if (node.signature != "NonZero")
        continue;
      found = true;
      const Node *flat = model.producer(node.inputs[0]);
      if (flat && flat->op == "Reshape" && integers(flat->inputs[1]) == std::vector<int64_t>{-1})
        flatMasks[flat->inputs[0]] = node.inputs[0];
    }
    if (!found)
      return;
    const std::vector<Node> old = std::move(model.nodes);
    model.nodes.clear();
    model.indexProducers();
    for (Node node : old) {
      if (!spread(node)) {
        model.nodes = old;
        break;
      }
      for (const std::string &output : node.outputs)
        if (!output.empty())
          model.producerOf[output] = unsigned(model.nodes.size());
      if (isKept)
        model.nodes.push_back(std::move(node));
    }
    model.indexProducers();
  }

private:
  const Picked *of(StringRef value) const {
    auto found = picked.find(value);
    return found == picked.end() ? nullptr : &found->second;
  }

  bool fail(const Node &node, const Picked &value, const llvm::Twine &what) {
    model.unspread = ("node '" + node.label() + "' (" + node.op + ") " + what + " of the rows that node '" +
                      picks[value.pick].node + "' picks")
                         .str();
    return false;
  }

  const std::string &add(StringRef op, std::vector<std::string> inputs, StringRef name) {
    Node node;
    node.op = node.signature = op.str();
    node.inputs = std::move(inputs);
    node.outputs = {name.str()};
    node.name = name.str();
    node.scopes = scopes;
    model.producerOf[node.outputs[0]] = unsigned(model.nodes.size());
    model.nodes.push_back(std::move(node));
    return model.nodes.back().outputs[0];
  }
  void set(StringRef attribute, int64_t value) {
    Attribute &made = model.nodes.back().attributes[attribute];
    made.kind = Attribute::Kind::Int;
    made.integer = value;
  }
  void replace(Node &node, StringRef op, std::vector<std::string> inputs) {
    node.op = node.signature = op.str();
    node.domain.clear();
    node.attributes.clear();
    node.inputs = std::move(inputs);
    node.outputs.resize(1);
  }

  std::optional<std::vector<int64_t>> integers(StringRef value) const { return integersOf(model, value); }
  /// Whether a value is `torch.zeros`, of whatever shape.
  bool isZeros(StringRef value) const {
    const Node *node = model.producer(value);
    if (!node || node->op != "ConstantOfShape")
      return false;
    auto given = node->attributes.find("value");
    return given == node->attributes.end() ||
           (given->second.tensor && llvm::all_of(given->second.tensor->bytes, [](char byte) { return byte == 0; }));
  }

  bool spread(Node &node);
  bool spreadPick(Node &node);
  bool spreadPlaces(Node &node, const Picked &place);
  bool spreadGather(Node &node, const Picked &places);
  bool spreadScatter(Node &node, const Picked &places);
  bool spreadRows(Node &node);
  bool spreadArranged(Node &node, Picked rows);
  const std::string &spreadMask(const Pick &pick, StringRef like, StringRef name);
  bool gatherChoices(Node &node, const Picked &places, std::string weights);

  Model &model;
  std::vector<Pick> picks;
  llvm::StringMap<std::string> flatMasks;            ///< of a mask (B, S): the one of its elements, which pick rows too
  std::map<std::string, Picked, std::less<>> picked; ///< references to its values stay
  std::string scopes;
  bool isKept = true;
};

bool RowSpreader::spread(Node &node) {
  isKept = true;
  scopes = node.scopes;
  if (node.signature == "NonZero")
    return spreadPick(node);
  const Picked *places = nullptr, *rows = nullptr;
  for (const std::string &input : node.inputs)
    if (const Picked *value = of(input)) {
      if (value->kind == Picked::Kind::Rows || value->kind == Picked::Kind::Flat)
        rows = value;
      else if (!places || places->kind == Picked::Kind::Size)
        places = value;
    }
  if (!places && !rows)
    return true;
  const bool isScatter = node.op == "ScatterND" || node.op == "ScatterElements" || node.op == "Scatter";
  if (isScatter && node.inputs.size() == 3 && of(node.inputs[1]))
    return spreadScatter(node, *of(node.inputs[1]));
  if ((node.op == "Gather" || node.op == "GatherND") && of(node.inputs[1]) && !of(node.inputs[0]))
    return spreadGather(node, *of(node.inputs[1]));
  return rows ? spreadRows(node) : spreadPlaces(node, *places);
}

bool RowSpreader::spreadPick(Node &node) {
  Pick pick;
  pick.node = node.label();
  pick.mask = node.inputs[0];
  if (const Node *repeat = model.producer(pick.mask); repeat && repeat->op == "Expand")
    if (const Node *column = model.producer(repeat->inputs[0]); column && column->op == "Unsqueeze")
      pick.elementsOf = column->inputs[0];
  if (std::optional<int64_t> behind = choicesFromEnd(model, pick.mask)) {
    pick.hasChoices = *behind < 2;
    pick.isChoiceFirst = *behind == 1;
  }
  for (std::string *mask : {&pick.mask, &pick.elementsOf})
    if (auto flat = flatMasks.find(*mask); flat != flatMasks.end()) {
      *mask = flat->second;
      pick.isOfTwo = true;
    }
  picks.push_back(std::move(pick));
  Picked grid;
  grid.kind = Picked::Kind::Grid;
  grid.axis = 1;
  grid.pick = unsigned(picks.size() - 1);
  picked[node.outputs[0]] = grid;
  isKept = false;
  return true;
}

/// Where elements are: what is computed of that vanishes.
bool RowSpreader::spreadPlaces(Node &node, const Picked &place) {
  auto define = [&](unsigned output, Picked::Kind kind, llvm::ArrayRef<int64_t> columns) {
    Picked made = place;
    made.kind = kind;
    made.columns.assign(columns.begin(), columns.end());
    picked[node.outputs[output]] = made;
    isKept = false;
    return true;
  };
  if (place.kind == Picked::Kind::Size) {
    // The width of rows does not depend on how many were picked.
    std::optional<std::vector<int64_t>> which;
    if (place.isShape && node.op == "Gather")
      which = integers(node.inputs[1]);
    if (which && which->size() == 1 &&
        ((*which)[0] >= 0 ? (*which)[0] != place.axis : (*which)[0] == -1 && place.hasWidth))
      return true;
    const bool takesShape = node.op == "ConstantOfShape" || node.op == "Choose" || node.op == "Reshape";
    if (takesShape && !place.isUnknown)
      return true;
    const bool isReal = node.op == "Cast" && isFloat(ElementType(node.integer("to", 1)));
    if (!isOneOf(node.op, "Gather Slice Concat Unsqueeze Squeeze Mul Add Sub Min Max Equal Greater Identity Not Less "
                          "Cast GreaterOrEqual LessOrEqual") ||
        isReal)
      return fail(node, place, "computes with the number");
    isKept = !place.isUnknown;
    picked[node.outputs[0]] = place;
    picked[node.outputs[0]].isShape = false;
    return true;
  }
  if (node.op == "Shape" || node.op == "Size") {
    if (place.kind == Picked::Kind::Grid) {
      define(0, Picked::Kind::Size, {});
      picked[node.outputs[0]].isUnknown = true;
      return true;
    }
    const std::string like = node.outputs[0] + "/rows";
    const Pick &pick = picks[place.pick];
    std::string mask = pick.mask;
    if (pick.hasChoices) {
      const std::string flags = add("Cast", {mask}, like + "/flags");
      set("to", int64_t(ElementType::I32));
      mask = add("ReduceMax", {flags, model.addIntegers(like + "/axes", {pick.isChoiceFirst ? 0 : 1}).name}, like);
      set("keepdims", 0);
    }
    node.inputs[0] = mask;
    Picked size = place;
    size.kind = Picked::Kind::Size;
    picked[node.outputs[0]] = size;
    return true;
  }
  const bool isGrid = place.kind == Picked::Kind::Grid;
  if (isGrid && node.op == "Transpose") {
    define(0, Picked::Kind::Grid, {});
    picked[node.outputs[0]].axis = 1 - place.axis;
    return true;
  }
  auto isOfDimensions = [&](int64_t axis) { return axis == 1 - place.axis || axis == -1 - place.axis; };
  if (isGrid && node.op == "Split" && isOfDimensions(node.integer("axis", 0))) {
    for (unsigned output = 0; output < node.outputs.size(); ++output)
      define(output, Picked::Kind::Columns, {int64_t(output)});
    return true;
  }
  if (isGrid && (node.op == "Slice" || node.op == "Gather")) {
    const bool isSlice = node.op == "Slice";
    const std::optional<std::vector<int64_t>> first = integers(node.inputs[1]);
    const std::optional<std::vector<int64_t>> end = isSlice ? integers(node.inputs[2]) : std::nullopt;
    const int64_t axis =
        isSlice ? axesOf(model, node, 3).value_or(std::vector<int64_t>{0}).front() : node.integer("axis", 0);
    const bool isOne = first && first->size() == 1 && (*first)[0] >= 0 &&
                       (!isSlice || (end && end->size() == 1 && (*end)[0] == (*first)[0] + 1));
    if (isOne && isOfDimensions(axis))
      return define(0, Picked::Kind::Columns, {(*first)[0]});
  }
  if (isGrid && picks[place.pick].hasChoices)
    return fail(node, place, "computes with the places");
  const bool isOne = node.op == "Max" && node.inputs.size() == 1;
  if (isOneOf(node.op, "Squeeze Unsqueeze Expand Reshape Identity Cast") || isOne)
    return define(0, isGrid ? Picked::Kind::Columns : place.kind,
                  isGrid ? llvm::ArrayRef<int64_t>{0} : llvm::ArrayRef<int64_t>(place.columns));
  if (node.op == "Concat") {
    llvm::SmallVector<int64_t, 2> columns;
    for (const std::string &input : node.inputs)
      if (const Picked *one = of(input); one && one->kind == Picked::Kind::Columns && one->pick == place.pick)
        columns.append(one->columns);
      else
        return fail(node, place, "joins other numbers to the places");
    return define(0, Picked::Kind::Columns, columns);
  }
  // tok * K + k, the place in (T K) elements.
  if (node.op == "Mul" && place.kind == Picked::Kind::Columns && place.columns.size() == 1) {
    const std::string &factor = node.inputs[of(node.inputs[0]) ? 1 : 0];
    const Node *size = model.producer(factor);
    const Node *shape = size && size->op == "Gather" ? model.producer(size->inputs[0]) : nullptr;
    if (shape && shape->op == "Shape" && integers(size->inputs[1]) == std::vector<int64_t>{1}) {
      define(0, Picked::Kind::Scaled, place.columns);
      picked[node.outputs[0]].choices = shape->inputs[0];
      return true;
    }
  }
  if (node.op == "Add")
    for (unsigned side : {0u, 1u}) {
      const Picked *scaled = of(node.inputs[side]), *other = of(node.inputs[1 - side]);
      if (!scaled || !other || scaled->kind != Picked::Kind::Scaled || other->kind != Picked::Kind::Columns ||
          other->columns.size() != 1 || scaled->pick != other->pick)
        continue;
      const std::string choices = scaled->choices;
      define(0, Picked::Kind::Columns, {scaled->columns[0], other->columns[0]});
      picked[node.outputs[0]].choices = choices;
      return true;
    }
  return fail(node, place, "computes with the places");
}

/// The mask as numbers of the type of `like`, (T) or (T, K).
const std::string &RowSpreader::spreadMask(const Pick &pick, StringRef like, StringRef name) {
  // The order of dimensions, which a mask of others does not have: the import says so.
  const std::string mask = add("Transpose", {pick.mask}, (name + "/rows").str());
  Attribute &order = model.nodes.back().attributes["perm"];
  order.kind = Attribute::Kind::Ints;
  order.integers =
      !pick.hasChoices ? std::vector<int64_t>{0} : std::vector<int64_t>{pick.isChoiceFirst, !pick.isChoiceFirst};
  const std::string flags = add("Cast", {mask}, (name + "/flags").str());
  set("to", int64_t(ElementType::Bool));
  return add("CastLike", {flags, like.str()}, (name + "/mask").str());
}

/// w[tok, k]: the sum over k of what the mask leaves of w.
bool RowSpreader::gatherChoices(Node &node, const Picked &places, std::string weights) {
  const Pick &pick = picks[places.pick];
  const Node *column = model.producer(weights);
  std::optional<std::vector<int64_t>> axes =
      column && column->op == "Unsqueeze" ? axesOf(model, *column, 1) : std::nullopt;
  const bool isColumn = axes && (*axes == std::vector<int64_t>{2} || *axes == std::vector<int64_t>{-1});
  if (isColumn)
    weights = column->inputs[0];
  const std::string name = node.outputs[0];
  const std::string mask = spreadMask(pick, weights, name);
  const std::string chosen = add("Mul", {weights, mask}, name + "/chosen");
  const Initializer &last = model.addIntegers(name + "/axes", {1});
  replace(node, "ReduceSum", {chosen, last.name});
  Attribute &keeps = node.attributes["keepdims"];
  keeps.kind = Attribute::Kind::Int;
  keeps.integer = isColumn; // (T, 1)
  Picked rows;
  rows.pick = places.pick;
  rows.isZero = true;
  picked[node.outputs[0]] = rows;
  return true;
}

bool RowSpreader::spreadGather(Node &node, const Picked &places) {
  const Pick &pick = picks[places.pick];
  const int64_t axis = node.op == "Gather" ? node.integer("axis", 0) : 0;
  const std::string &from = node.inputs[0];
  const bool isWhole = places.kind == Picked::Kind::Grid;
  const int64_t rowColumn = pick.isChoiceFirst ? 1 : 0;
  if (isWhole && (node.op != "GatherND" || places.axis != 0))
    return fail(node, places, "looks up something by the places");
  if (isWhole ? !pick.hasChoices
              : places.columns.size() == 1 && places.columns[0] == rowColumn && pick.elementsOf.empty()) {
    Picked rows;
    rows.pick = places.pick;
    rows.from = from;
    rows.axis = axis;
    picked[node.outputs[0]] = rows;
    if (!pick.isOfTwo) {
      replace(node, "Identity", {from});
      return true;
    }
    replace(node, "Flatten", {from});
    Attribute &first = node.attributes["axis"];
    first.kind = Attribute::Kind::Int;
    first.integer = 2;
    return axis == 0 ? true : fail(node, places, "looks up elements");
  }
  std::string weights = from;
  if (!places.choices.empty()) { // elements of (T K)
    const Node *flat = model.producer(from);
    if (!flat || flat->inputs[0] != places.choices)
      return fail(node, places, "looks up elements by the places");
    weights = places.choices;
  }
  const bool isByChoice =
      pick.hasChoices && axis == 0 &&
      (isWhole ? !pick.isChoiceFirst
               : places.columns.size() == 2 && places.columns[0] == rowColumn && places.columns[1] == 1 - rowColumn);
  if (!isByChoice)
    return fail(node, places, "looks up, by something else than row or row and choice, elements");
  return gatherChoices(node, places, weights);
}

/// Rows go where they came from: into the sum over all of them, or in place of those.
bool RowSpreader::spreadScatter(Node &node, const Picked &places) {
  const Pick *pick = &picks[places.pick];
  std::string update = node.inputs[2];
  const Picked *rows = of(update);
  if (rows && rows->kind == Picked::Kind::Flat) {
    update = rows->from;
    rows = of(update);
  }
  if (!rows || rows->kind != Picked::Kind::Rows || of(node.inputs[0]))
    return fail(node, places, "writes something else than rows into the places");
  const bool isOfTwo = pick->isOfTwo;
  const bool isByElement = !pick->elementsOf.empty();
  const std::string mask = isByElement ? pick->elementsOf : pick->mask;
  const bool isSameMask = picks[rows->pick].mask == mask;
  const int64_t rowColumn = pick->isChoiceFirst ? 1 : 0;
  const bool isByRow = places.kind == Picked::Kind::Grid ? places.axis == 0 && (isByElement || !pick->hasChoices)
                                                         : places.columns.size() == 1 && places.columns[0] == rowColumn;
  const std::string reduction = node.text("reduction", "none");
  if (!isSameMask || !isByRow || node.integer("axis", 0) != 0 || rows->axis != 0 ||
      (reduction != "none" && reduction != "add"))
    return fail(node, places, "writes, by something else than their rows, into places");
  pick = &picks[rows->pick];
  const std::string base = node.inputs[0], name = node.outputs[0];
  // y[tok] = y[tok] + v adds v.
  bool isSum = reduction == "add";
  bool isZero = rows->isZero;
  const Node *sum = model.producer(update);
  while (!isSum && sum && (sum->op == "Reshape" || sum->op == "Identity" || sum->op == "Cast"))
    sum = model.producer(sum->inputs[0]);
  if (!isSum && sum && sum->op == "Add")
    for (unsigned side : {0u, 1u}) {
      const Picked *old = of(sum->inputs[side]), *added = of(sum->inputs[1 - side]);
      if (isSum || !old || !added || old->from != base || base.empty())
        continue;
      isSum = true;
      isZero = added->isZero;
      update = sum->inputs[1 - side];
    }
  // Into zeros.
  isSum |= isZeros(base);
  std::string added = update;
  if (!isSum || !isZero) {
    std::string any = spreadMask(*pick, update, name);
    if (pick->hasChoices) {
      any = add("ReduceSum", {any, model.addIntegers(name + "/axes", {1}).name}, name + "/any");
      set("keepdims", 0);
    }
    const std::string column = add("Unsqueeze", {any, model.addIntegers(name + "/last", {-1}).name}, name + "/column");
    if (!isSum && isOfTwo)
      return fail(node, places, "writes other rows into the places");
    if (!isSum) {
      const std::string flags = add("Cast", {column}, name + "/where");
      set("to", int64_t(ElementType::Bool));
      replace(node, "Where", {flags, update, base});
      return true;
    }
    added = add("Mul", {update, column}, name + "/picked");
  }
  if (isOfTwo) {
    const std::string shape = add("Shape", {base}, name + "/shape");
    added = add("Reshape", {added, shape}, name + "/reshaped");
  }
  replace(node, "Add", {base, added});
  return true;
}

/// Ops that arrange elements.
bool RowSpreader::spreadArranged(Node &node, Picked rows) {
  rows.from.clear();
  auto isOtherAxis = [&](int64_t axis) { return axis >= 0 ? axis != rows.axis : rows.hasWidth && axis == -1; };
  if (node.op == "Unsqueeze" || node.op == "Squeeze") {
    const bool adds = node.op == "Unsqueeze";
    std::optional<std::vector<int64_t>> axes = axesOf(model, node, 1);
    if (!axes)
      return fail(node, rows, "arranges elements");
    int64_t moved = 0;
    for (int64_t axis : *axes)
      moved += axis >= 0 && axis < rows.axis + (adds ? 1 : 0) ? 1 : 0;
    rows.axis += adds ? moved : -moved;
    rows.hasWidth &= !adds && axes->size() == 1;
  } else if (node.op == "Transpose") {
    llvm::ArrayRef<int64_t> order = node.integers("perm");
    const auto *place = llvm::find(order, rows.axis);
    if (place == order.end())
      return fail(node, rows, "arranges elements");
    rows.axis = place - order.begin();
    rows.hasWidth = false;
  } else if (node.op == "Reshape") {
    const std::optional<std::vector<int64_t>> shape = integers(node.inputs[1]);
    const Node *joined = model.producer(node.inputs[1]);
    const bool isOfSize = joined && joined->op == "Concat" &&
                          (of(joined->inputs[0]) || integers(joined->inputs[0]) == std::vector<int64_t>{-1});
    if (!isOfSize && of(node.inputs[1]) == nullptr && (!shape || shape->empty() || (*shape)[0] != -1))
      return fail(node, rows, "arranges elements");
    if (shape && shape->size() == 1)
      rows.hasWidth = false;
    rows.axis = 0;
  } else if (node.op == "Flatten") {
    if (node.integer("axis", 1) != 1 || rows.axis != 0)
      return fail(node, rows, "arranges elements");
  } else { // a part of each row
    const int64_t axis =
        node.op == "Slice" ? axesOf(model, node, 3).value_or(std::vector<int64_t>{0}).front() : node.integer("axis", 0);
    if (!isOtherAxis(axis))
      return fail(node, rows, "takes some");
    rows.hasWidth = false;
  }
  for (const std::string &output : node.outputs)
    picked[output] = rows;
  return true;
}

/// An op on data: it computes row by row, or is refused.
bool RowSpreader::spreadRows(Node &node) {
  Picked rows;
  unsigned count = 0;
  bool allZero = true, anyZero = false, hasWidth = false;
  for (const std::string &input : node.inputs) {
    const Picked *one = of(input);
    if (!one || one->kind == Picked::Kind::Size)
      continue;
    if (one->kind != Picked::Kind::Rows && one->kind != Picked::Kind::Flat)
      return fail(node, *one, "computes with places and data");
    if (count && (picks[one->pick].mask != picks[rows.pick].mask || one->axis != rows.axis))
      return fail(node, *one, "combines those of another mask with data");
    if (!count)
      rows = *one;
    ++count;
    allZero &= one->isZero;
    anyZero |= one->isZero;
    hasWidth |= one->hasWidth;
  }
  const bool isFirst = of(node.inputs[0]) != nullptr;
  if (node.op == "Shape" || node.op == "Size") {
    rows.kind = Picked::Kind::Size;
    rows.isShape = node.op == "Shape";
    picked[node.outputs[0]] = rows;
    return true;
  }
  if (rows.kind == Picked::Kind::Flat) { // on the way to the places of all elements
    if (node.op != "Slice" && node.op != "Identity" && node.op != "Reshape")
      return fail(node, rows, "computes with elements");
    picked[node.outputs[0]] = rows;
    isKept = false;
    return true;
  }
  if (node.op == "Reshape" && integers(node.inputs[1]) == std::vector<int64_t>{-1} && rows.hasWidth) {
    Picked flat = rows;
    flat.kind = Picked::Kind::Flat;
    flat.from = node.inputs[0];
    picked[node.outputs[0]] = flat;
    isKept = false;
    return true;
  }
  if (node.op == "Expand" && isFirst) { // rows have their size already
    const std::string from = node.inputs[0];
    picked[node.outputs[0]] = rows;
    replace(node, "Identity", {from});
    return true;
  }
  if (isOneOf(node.op, "Unsqueeze Squeeze Transpose Reshape Flatten Slice Split Gather") && isFirst)
    return spreadArranged(node, rows);
  Picked result = rows;
  result.from.clear();
  result.hasWidth = hasWidth;
  const bool isProduct = node.op == "MatMul" || node.op == "Gemm" || node.op == "FusedMatMul";
  if (isProduct && isFirst && count == 1 && rows.axis == 0 && node.integer("transA", 0) == 0) {
    result.hasWidth = true;
    result.isZero = rows.isZero && !node.hasInput(2);
  } else if (isOneOf(node.op, kByElement)) {
    result.isZero = node.op == "Mul"                             ? anyZero
                    : node.op == "Add" || node.op == "Sub"       ? allZero && count == 2
                    : node.op == "Div"                           ? of(node.inputs[0]) && of(node.inputs[0])->isZero
                    : node.op == "Cast" || node.op == "Identity" ? allZero
                                                                 : false;
    if (node.op == "Identity" || node.op == "Cast")
      result.from = rows.from;
  } else if (isOneOf(node.op, "LayerNormalization RMSNormalization SimplifiedLayerNormalization") && isFirst &&
             count == 1) {
    result.isZero = false;
    result.hasWidth = true;
  } else if ((node.op == "Softmax" || node.op == "LogSoftmax") && rows.hasWidth && node.integer("axis", -1) == -1) {
    result.isZero = false;
  } else if (StringRef(node.op).starts_with("Reduce") && rows.hasWidth &&
             axesOf(model, node, 1) == std::vector<int64_t>{-1}) {
    result.isZero = false;
    result.hasWidth = node.integer("keepdims", 1) != 0;
  } else {
    return fail(node, rows, "does not compute each by itself");
  }
  picked[node.outputs[0]] = result;
  return true;
}

} // namespace

void spreadPickedRows(Model &model) {
  RowSpreader(model).run();
}

} // namespace ztc::importer
