#include "compiler/Report/RunLog.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace ztc::report {

using llvm::json::Object;

/// A resumed run does again what was done after its checkpoint: that counts.
static void dropFrom(std::vector<Object> &lines, int64_t first) {
  llvm::erase_if(lines, [&](const Object &line) { return line.getInteger("step").value_or(0) >= first; });
}

static Status addLine(RunLog &log, Object line, unsigned number) {
  const std::optional<llvm::StringRef> event = line.getString("event");
  if (line.get("plan_sha256")) {
    const int64_t first = line.getInteger("first_step").value_or(0);
    dropFrom(log.steps, first);
    dropFrom(log.evaluations, first + 1); // an evaluation counts the steps done
    log.summary.reset();
    log.header = std::move(line);
  } else if (log.header.empty()) {
    return dataLoss("does not begin with the object that describes a run: is it a file of --log-json?");
  } else if (event == llvm::StringRef("eval")) {
    log.evaluations.push_back(std::move(line));
  } else if (event == llvm::StringRef("summary")) {
    log.summary = std::move(line);
  } else if (event == llvm::StringRef("profile")) {
    log.profile = std::move(line);
  } else if (!event && line.getInteger("step")) {
    log.steps.push_back(std::move(line));
  } else if (!event) {
    return dataLoss("line " + std::to_string(number) + " is neither a step nor an event");
  }
  return Status::ok(); // events of later versions are passed over
}

StatusOr<RunLog> readRunLog(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return notFound(path + ": " + buffer.getError().message());
  RunLog log;
  log.name = llvm::sys::path::filename(path).str();
  llvm::StringRef rest = (*buffer)->getBuffer();
  for (unsigned number = 1; !rest.empty(); ++number) {
    const bool isLast = !rest.contains('\n');
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    if (line.trim().empty())
      continue;
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(line);
    const bool isObject = value && value->getAsObject();
    if (!isObject && isLast && !log.header.empty()) {
      llvm::consumeError(value.takeError());
      log.isCut = true;
      break;
    }
    if (!isObject) {
      const std::string what = value ? "it is not an object" : llvm::toString(value.takeError());
      return dataLoss(path + ": line " + std::to_string(number) + " is not one of a run's log: " + what);
    }
    if (Status added = addLine(log, std::move(*value->getAsObject()), number); !added.isOk())
      return added.withContext(path);
  }
  if (log.header.empty())
    return dataLoss(path + ": is empty, or not a log of --log-json");
  return StatusOr<RunLog>(std::move(log));
}

} // namespace ztc::report
