// `ztc check`: what the importer recognised.
#include "compiler/Report/Report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ztc {

void printCheck(llvm::raw_ostream &out, const ImportReport &report, bool imported, bool differentiated) {
  out << formatv("{0}: opset {1}{2}\n", report.model, report.opset,
                 report.producer.empty() ? "" : ", written by " + report.producer);
  unsigned nodes = 0;
  for (const auto &[name, count] : report.onnxOps)
    nodes += count;
  out << formatv("{0} nodes of {1} operators, {2} evaluated at compile time\n", nodes, report.onnxOps.size(),
                 report.evaluatedNodes);
  for (const std::string &what : report.unsupported)
    out << "  not supported: " << what << "\n";
  if (imported) {
    out << formatv("batch {0}, sequence {1}{2}; {3} layers, vocabulary {4}, position limit {5}\n", report.batch,
                   report.seq, report.isSymbolic ? " (free in the graph)" : "", report.layers, report.vocabulary,
                   report.positionLimit ? std::to_string(report.positionLimit) : "unknown");
    out << "idioms raised:";
    for (const auto &[name, count] : report.idioms)
      out << formatv(" {0} {1},", count, name);
    out << "\nmasks: " << (report.masks.empty() ? "none" : llvm::join(report.masks, ", ")) << "\n";
    out << formatv("{0} parameters:\n", report.weights.size());
    for (const ImportReport::Weight &weight : report.weights) {
      std::string shape;
      for (int64_t d : weight.shape)
        shape += (shape.empty() ? "" : "x") + std::to_string(d);
      out << formatv("  {0,-52} {1,-14} {2}{3}", weight.name, shape,
                     weight.source.empty() ? "no weights known" : weight.source,
                     weight.transposed ? ", stored transposed" : "");
      if (!weight.tied.empty())
        out << ", tied: " << llvm::join(weight.tied, ", ");
      if (weight.onnxName != weight.name)
        out << " (in the graph: " << weight.onnxName << ")";
      out << "\n";
    }
  }
  for (const std::string &note : report.notes)
    out << "note: " << note << "\n";
  out << (imported ? differentiated ? "every op on the way to the loss has a derivative\n"
                                    : "the graph imports but cannot be trained\n"
                   : "the graph does not import\n");
}

} // namespace ztc
