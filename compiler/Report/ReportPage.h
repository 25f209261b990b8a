// `ztc report` and `ztc memory --html`: one self-contained page.
#pragma once
#include "compiler/Report/Report.h"
#include "compiler/Report/RunLog.h"
#include "runtime/Format/PlanFile.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace ztc::report {

/// Style and script of a page, from compiler/Report/page.
extern const char *const kReportStyle;
extern const char *const kReportScript;

/// What a page shows of a plan: memory over the steps of its programs, the tensors at the peak, kernels where the plan
/// has them, bytes on the wire. `profile` is a log's event with what the device can do, or null.
llvm::json::Object pagePlan(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory,
                            llvm::StringRef title, const llvm::json::Object *profile = nullptr);
/// The same of a run: curves, of which many points are thinned out.
llvm::json::Object pageRun(const RunLog &log);

/// The page. It loads nothing, and texts from files stay texts.
void printPage(llvm::raw_ostream &out, llvm::StringRef title, llvm::StringRef note, llvm::json::Array runs,
               llvm::json::Array plans);

} // namespace ztc::report
