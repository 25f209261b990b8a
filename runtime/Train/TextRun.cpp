#include "runtime/Train/TextRun.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Train/Session.h"
#include <fmt/format.h>
#include <utility>

namespace ztc {

StatusOr<std::shared_ptr<const TokenizerFolder>> openTokenizer(const RunOptions &options) {
  if (!options.hasTokenizerFolder())
    return std::shared_ptr<const TokenizerFolder>();
  auto opened = TokenizerFolder::open(options.tokenizer);
  return opened.isOk() ? std::move(opened)
                       : StatusOr<std::shared_ptr<const TokenizerFolder>>(opened.status().withContext("--tokenizer"));
}

TextOptions textOptions(const RunOptions &options, std::shared_ptr<const TokenizerFolder> tokenizer,
                        ControlChannel &control, Progress &progress) {
  TextOptions out{.tokenizer = std::move(tokenizer),
                  .cacheFolder = options.cacheFolder,
                  .temporaryFolder = options.temporaryFolder,
                  .threads = availableCores()};
  out.progress = [&](const std::string &path, uint64_t done, uint64_t all) {
    control.progress().addWork();
    const double now = steadySeconds();
    if (done < all && progress.isDue(now, false))
      progress.show(fmt::format("tokenizing {}: {:.0f} %", path, 100 * double(done) / double(all)), now);
  };
  return out;
}

} // namespace ztc
