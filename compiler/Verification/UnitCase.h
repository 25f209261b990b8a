// What the units of a group's kernel write at the sizes of a plan.
#pragma once
#include "compiler/Codegen/GroupPlan.h"
#include "compiler/Verification/ElementInterpreter.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ztc::verification {

/// Results in f32 may be off by so much of the largest: the order of a sum.
inline constexpr double kUnitWide = 1e-5;
/// The same of any type: also a rounding to it. Of codes that is half a step of e5m2, the coarser format, and what the
/// numbers are off that they are made of.
double toleranceOf(mlir::Type type);

/// What one kernel leaves in one place: a result of the group, or sums in the workspace.
struct Writes {
  unsigned result = 0;
  bool isWorkspace = false;
  mlir::Type type;
  struct Spot {
    int64_t unit, memory; ///< position in elements of `type`
    int64_t value;        ///< position in `of`
  };
  mlir::Value of;     ///< null: `expected` of a spot is a sum over positions of `summed`
  mlir::Value coded;  ///< of states in blocks of codes: the numbers that are encoded, at the same positions
  mlir::Value summed; ///< its elements are added up for a spot, squared for sums of squares
  bool isSquares = false;
  std::vector<Spot> spots;                 ///< unit by unit
  std::vector<std::vector<int64_t>> parts; ///< of a sum: the positions that each spot adds up
  std::vector<double> expected;            ///< by spot
  std::vector<double> tolerances;          ///< by spot, where `coded`

  std::string where() const {
    return isWorkspace ? std::string("its partial sums") : llvm::formatv("result {0}", result).str();
  }
};

/// One kernel of a group with everything that the plan leaves open.
struct UnitCase {
  mlir::Operation *region = nullptr;
  const codegen::PlannedKernel *kernel = nullptr;
  kernel::ScheduleAttr schedule;
  int64_t length = 0, start = 0; ///< of a flat kernel
  int64_t extent = 0;
  uint64_t workspaceBytes = 0;
  std::map<int64_t, unsigned> inPlace; ///< results that take the memory of an operand: which one's
  bool magnitudes = false;             ///< operands are magnitudes of random numbers
  bool condition = true;               ///< what scalars of type i1 are
  std::set<int64_t> units;             ///< that some image runs
  std::vector<Writes> writes;
};

/// Finds out what the chosen units of `test` write, by the plan of its group.
void listWrites(UnitCase &test);

/// Elements of results and sums that a unit has.
int64_t elementsOf(const UnitCase &test);

/// How far each spot of a state in blocks of codes may be from what is expected of it: a number that lies where two
/// codes meet may have the one or the other. `coded`: the numbers of whole blocks.
std::vector<double> toleratedCodes(const UnitCase &test, const Writes &writes, const ChosenElements &coded);

/// Which results of a group lie where an operand does, once phase `assign` has placed them: by result, the operand.
std::map<int64_t, unsigned> resultsInPlace(graph::FusionOp group);

/// Whether values of `type` are one truth, as that an update is to be made.
bool isCondition(mlir::Type type);

} // namespace ztc::verification
