// `ztc check`: what the importer recognised.
#include "compiler/Report/Report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ztc::report {

using Ports = std::vector<ImportReport::Port>;
using Idioms = std::map<std::string, unsigned>;

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t d : shape)
    text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

/// Layers that became the same ops, in the order of the first of each.
static std::vector<std::pair<std::set<int64_t>, const Idioms *>> alikeLayers(const ImportReport &report) {
  std::vector<std::pair<std::set<int64_t>, const Idioms *>> groups;
  for (const auto &[layer, idioms] : report.layerIdioms) {
    auto same = llvm::find_if(groups, [&, &layer = layer, &idioms = idioms](const auto &group) {
      return layer >= 0 && *group.first.begin() >= 0 && *group.second == idioms;
    });
    if (same == groups.end())
      groups.push_back({{layer}, &idioms});
    else
      same->first.insert(layer);
  }
  return groups;
}

static std::string idiomsText(const Idioms &idioms) {
  std::vector<std::string> parts;
  for (const auto &[name, count] : idioms)
    parts.push_back(count == 1 ? name : std::to_string(count) + " x " + name);
  return llvm::join(parts, "; ");
}

static void printPorts(llvm::raw_ostream &out, const char *title, const Ports &ports) {
  for (const ImportReport::Port &port : ports)
    out << formatv("  {0} {1}: {2}{3}{4}\n", title, port.name, port.role,
                   port.binding.empty() ? "" : " = " + port.binding, port.proof.empty() ? "" : " (" + port.proof + ")");
}

static void printWeight(llvm::raw_ostream &out, const ImportReport::Weight &weight) {
  out << formatv("  {0,-52} {1,-14} {2}{3}", weight.name, shapeText(weight.shape),
                 weight.source.empty() ? "no weights known" : weight.source,
                 weight.transposed ? ", stored transposed" : "");
  if (!weight.tied.empty())
    out << ", tied: " << llvm::join(weight.tied, ", ");
  if (weight.onnxName != weight.name)
    out << " (in the graph: " << weight.onnxName << ")";
  out << "\n";
  for (const std::string &transformation : weight.transformations)
    out << "    " << transformation << "\n";
}

static void printImported(llvm::raw_ostream &out, const ImportReport &report) {
  out << formatv("batch {0}, sequence {1}{2}; {3} layers, vocabulary {4}, position limit {5}\n", report.batch,
                 report.seq, report.isSymbolic ? " (free in the graph)" : "", report.layers, report.vocabulary,
                 report.positionLimit ? std::to_string(report.positionLimit) : "unknown");
  printPorts(out, "input", report.inputs);
  printPorts(out, "output", report.outputs);
  out << "idioms raised: " << (report.idioms.empty() ? "none" : idiomsText(report.idioms)) << "\n";
  for (const auto &[layers, idioms] : alikeLayers(report)) {
    std::string title =
        *layers.begin() < 0 ? "in no layer" : (layers.size() == 1 ? "layer " : "layers ") + layersText(layers);
    out << formatv("  {0}: {1}\n", title, idiomsText(*idioms));
  }
  out << "masks: " << (report.masks.empty() ? "none" : llvm::join(report.masks, ", ")) << "\n";
  if (!report.comparison.empty())
    out << "weights: " << report.comparison << "\n";
  for (const ImportReport::PaddingRow &row : report.paddingRows)
    out << formatv("padding row: lookups of token {0} give {1} no gradient ({2}); --padding-token=ID|none decides\n",
                   row.token, row.table, row.reason);
  uint64_t elements = 0;
  for (const ImportReport::Weight &weight : report.weights) {
    uint64_t count = 1;
    for (int64_t d : weight.shape)
      count *= uint64_t(d);
    elements += count;
  }
  out << formatv("{0} parameters, {1} elements:\n", report.weights.size(), elements);
  for (const ImportReport::Weight &weight : report.weights)
    printWeight(out, weight);
}

/// What a user can do where a phase failed.
static std::string helpText(const CheckOutcome &outcome) {
  if (outcome.failedPhase == "backward")
    return "; an op that only frozen parameters lead to needs none: --freeze=REGEX";
  return {};
}

static std::string verdict(const CheckOutcome &outcome) {
  if (!outcome.imports)
    return "the graph does not import";
  if (!outcome.trains)
    return "the graph imports but cannot be trained" + helpText(outcome);
  if (!outcome.compiles)
    return "the graph imports, and every op on the way to the loss has a derivative, but phase " + outcome.failedPhase +
           " of the compilation fails";
  return "every op on the way to the loss has a derivative, and the plan compiles";
}

void printCheck(llvm::raw_ostream &out, const ImportReport &report, const CheckOutcome &outcome) {
  out << report.model;
  if (report.opset)
    out << formatv(": opset {0}{1}", report.opset, report.producer.empty() ? "" : ", written by " + report.producer);
  out << "\n";
  unsigned nodes = 0;
  for (const auto &[name, count] : report.onnxOps)
    nodes += count;
  if (nodes)
    out << formatv("{0} nodes of {1} operators, {2} evaluated at compile time\n", nodes, report.onnxOps.size(),
                   report.evaluatedNodes);
  if (outcome.imports)
    printImported(out, report);
  else
    printPorts(out, "input", report.inputs);
  for (const std::string &what : report.unsupported)
    out << "not supported: " << what << "\n";
  for (const std::string &note : report.notes)
    out << "note: " << note << "\n";
  for (const std::string &remark : outcome.remarks)
    out << "note: " << remark << "\n";
  out << verdict(outcome) << "\n";
}

static void texts(llvm::json::OStream &json, const char *name, const std::vector<std::string> &values) {
  json.attributeArray(name, [&] {
    for (const std::string &value : values)
      json.value(llvm::json::fixUTF8(value));
  });
}

static void counts(llvm::json::OStream &json, const char *name, const Idioms &values) {
  json.attributeObject(name, [&] {
    for (const auto &[key, count] : values)
      json.attribute(llvm::json::fixUTF8(key), count);
  });
}

static void ports(llvm::json::OStream &json, const char *name, const Ports &values) {
  json.attributeArray(name, [&] {
    for (const ImportReport::Port &port : values)
      json.object([&] {
        json.attribute("name", llvm::json::fixUTF8(port.name));
        json.attribute("role", port.role);
        json.attribute("binding", port.binding);
        json.attribute("proof", llvm::json::fixUTF8(port.proof));
      });
  });
}

static void weights(llvm::json::OStream &json, const ImportReport &report) {
  json.attributeArray("parameters", [&] {
    for (const ImportReport::Weight &weight : report.weights)
      json.object([&] {
        json.attribute("name", llvm::json::fixUTF8(weight.name));
        json.attributeArray("shape", [&] {
          for (int64_t d : weight.shape)
            json.value(d);
        });
        json.attribute("source", llvm::json::fixUTF8(weight.source));
        json.attribute("transposed", weight.transposed);
        json.attribute("graph_name", llvm::json::fixUTF8(weight.onnxName));
        texts(json, "tied", weight.tied);
        texts(json, "transformations", weight.transformations);
      });
  });
  json.attribute("comparison", llvm::json::fixUTF8(report.comparison));
  json.attributeArray("padding_rows", [&] {
    for (const ImportReport::PaddingRow &row : report.paddingRows)
      json.object([&] {
        json.attribute("table", llvm::json::fixUTF8(row.table));
        json.attribute("token", row.token);
        json.attribute("reason", llvm::json::fixUTF8(row.reason));
      });
  });
}

void printCheckJson(llvm::raw_ostream &out, const ImportReport &report, const CheckOutcome &outcome) {
  llvm::json::OStream json(out, 2);
  json.object([&] {
    json.attribute("model", llvm::json::fixUTF8(report.model));
    json.attribute("opset", report.opset);
    json.attribute("producer", llvm::json::fixUTF8(report.producer));
    counts(json, "operators", report.onnxOps);
    json.attribute("evaluated_nodes", report.evaluatedNodes);
    json.attribute("batch", report.batch);
    json.attribute("seq", report.seq);
    json.attribute("symbolic", report.isSymbolic);
    json.attribute("layers", report.layers);
    json.attribute("vocabulary", report.vocabulary);
    json.attribute("position_limit", report.positionLimit);
    ports(json, "inputs", report.inputs);
    ports(json, "outputs", report.outputs);
    counts(json, "idioms", report.idioms);
    json.attributeArray("layer_idioms", [&] {
      for (const auto &[layers, idioms] : alikeLayers(report))
        json.object([&, &layers = layers, &idioms = idioms] {
          json.attribute("layers", layersText(layers));
          counts(json, "ops", *idioms);
        });
    });
    texts(json, "masks", report.masks);
    weights(json, report);
    texts(json, "unsupported", report.unsupported);
    texts(json, "notes", report.notes);
    texts(json, "remarks", outcome.remarks);
    texts(json, "errors", outcome.errors);
    json.attribute("imports", outcome.imports);
    json.attribute("trains", outcome.trains);
    json.attribute("compiles", outcome.compiles);
    json.attribute("failed_phase", outcome.failedPhase);
    json.attribute("verdict", verdict(outcome));
  });
  out << "\n";
}

} // namespace ztc::report
