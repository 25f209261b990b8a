// What cuDNN may keep of the scores of attention's gradient, where a plan is made.
#pragma once
#include "runtime/Format/CudnnAttention.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <vector>

namespace ztc {

/// The workspaces with which cuDNN keeps the scores of all sequences, of some, of some key/value heads of a gradient of
/// attention, without repetitions, the largest first. Empty where the plan has no gradient of which it could.
std::vector<uint64_t> scoresWorkspaces(const plan::Plan &plan);

/// Every gradient gets the largest of its own workspaces for scores that is at most `bytes`, or what it takes without.
/// No bit depends on it.
void setScoresWorkspace(plan::Plan &plan, uint64_t bytes);

/// What of a gradient on a GPU cuDNN computes at a time with its scores in the workspace that the plan has; `sequences`
/// is 0 where not even the smallest part fits.
AttentionPart scoresPart(const plan::Plan &plan, const plan::Step &step);

} // namespace ztc
