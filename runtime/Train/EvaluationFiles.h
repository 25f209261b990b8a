// --eval-data: which files are evaluated together, and under which name.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Data/DataSet.h"
#include <memory>
#include <string>
#include <vector>

namespace ztc {

struct EvaluationFiles {
  std::string name; ///< empty: that of files without a name
  std::vector<std::string> files;
};

/// One of them, open.
struct HeldOut {
  EvaluationFiles files;
  std::unique_ptr<DataSet> data;
};
using HeldOutData = std::vector<HeldOut>;

/// The sets that the values of --eval-data name, in the order of their first files: NAME=FILE belongs to NAME (letters,
/// digits, '.', '_' and '-'), a FILE without a name to the one that has none. A file whose own path looks like
/// NAME=FILE is written as ./NAME=FILE.
std::vector<EvaluationFiles> evaluationFiles(const std::vector<std::string> &values);

/// The place of the set that decides what is the best evaluation: `name`, or the first where it is empty.
/// InvalidArgument where no set has the name.
StatusOr<size_t> watchedEvaluation(const std::vector<EvaluationFiles> &sets, const std::string &name);

} // namespace ztc
