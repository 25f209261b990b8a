#include "compiler/Driver/Plugin.h"
#include "compiler/Driver/PluginStamp.h"
#include "compiler/Support/LibraryFolder.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "runtime/Core/Sha256.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <dlfcn.h>

using namespace mlir;

llvm::ArrayRef<ztc::PhaseInfo> ztc::allPhases() {
  static const PhaseInfo phases[] = {
#define PHASE(enumerator, name, sentence, postCondition) {Phase::enumerator, name, sentence, postCondition},
#include "compiler/Driver/Phases.def"
  };
  return phases;
}

std::string ztc::describePass(const Pass &pass, StringRef plugin) {
  StringRef name = pass.getArgument().empty() ? pass.getName() : pass.getArgument();
  return ("pass '" + name + "'" + (plugin.empty() ? "" : " of plugin ") + plugin).str();
}

std::vector<std::string> ztc::PhaseHooks::kernelPasses() const {
  std::vector<std::string> names;
  for (const auto &[level, hooks] : afterKernels_)
    for (const Hook &hook : hooks) {
      std::unique_ptr<Pass> pass = hook.factory();
      names.push_back(describePass(*pass, hook.plugin));
    }
  return names;
}

std::vector<std::string> ztc::PhaseHooks::passesAfter(Phase phase) const {
  std::vector<std::string> names;
  for (const Table<Phase> *table : {&before_, &after_})
    for (const auto &[where, hooks] : *table)
      for (const Hook &hook : hooks)
        if (where > phase)
          names.push_back(describePass(*hook.factory(), hook.plugin) + " in phase " + allPhases()[size_t(where)].name);
  return names;
}

/// The text of the note that ztc_add_plugin writes; empty where there is none.
static llvm::Expected<std::string> stampOf(llvm::MemoryBufferRef file) {
  auto object = llvm::object::ObjectFile::createObjectFile(file);
  if (!object)
    return object.takeError();
  for (const llvm::object::SectionRef &section : (*object)->sections()) {
    llvm::Expected<StringRef> name = section.getName();
    if (!name)
      return name.takeError();
    if (*name != ".note.ztc")
      continue;
    llvm::Expected<StringRef> content = section.getContents();
    if (!content)
      return content.takeError();
    return content->substr(offsetof(ztc::PluginNote, text)).take_until([](char c) { return c == 0; }).str();
  }
  return std::string();
}

/// What stands beside libZtc.so where it was installed without headers (cmake/package-wheel.sh): why no plugin is
/// loaded.
static std::string whyNoPlugins() {
  llvm::SmallString<256> file(ztc::libraryFolder());
  if (file.empty())
    return {};
  llvm::sys::path::append(file, "NO-PLUGINS");
  auto text = llvm::MemoryBuffer::getFile(file);
  return text ? (*text)->getBuffer().trim().str() : std::string();
}

llvm::Error ztc::checkPlugin(StringRef file, std::string *hash) {
  if (std::string why = whyNoPlugins(); !why.empty())
    return llvm::createStringError(why);
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer)
    return llvm::createStringError(buffer.getError().message());
  llvm::Expected<std::string> stamp = stampOf((*buffer)->getMemBufferRef());
  if (!stamp)
    return llvm::createStringError("it is not a shared library: " + llvm::toString(stamp.takeError()));
  if (stamp->empty())
    return llvm::createStringError(
        "it carries no stamp of the ztc it was built for; build it with ztc_add_plugin of CMake's package Ztc");
  if (*stamp != ZTC_PLUGIN_STAMP)
    return llvm::createStringError("it was built for " + *stamp +
                                   "; this is " ZTC_PLUGIN_STAMP ". Build it again with this ztc's package");
  if (hash)
    *hash = Sha256::hex(Sha256::of((*buffer)->getBufferStart(), (*buffer)->getBufferSize())).substr(0, 16);
  return llvm::Error::success();
}

LogicalResult ztc::loadPlugin(StringRef file, PhaseHooks &hooks, DialectRegistry &dialects, std::string *identity) {
  auto refuse = [&](const Twine &why) {
    llvm::errs() << "ztc: cannot load the pass plugin '" << file << "': " << why << "\n";
    return failure();
  };
  std::string hash, path = file.str();
  if (llvm::Error error = checkPlugin(file, &hash))
    return refuse(llvm::toString(std::move(error)));
  // A word without a slash would be looked for where libraries are installed. All symbols now: one that is missing is
  // said by name here, and does not end the program in the middle of a pass.
  if (!StringRef(path).contains('/'))
    path = "./" + path;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return refuse(dlerror());
  llvm::Expected<PassPlugin> plugin = PassPlugin::load(path);
  if (!plugin)
    return refuse(llvm::toString(plugin.takeError()));
  hooks.setPlugin(plugin->getPluginName().str());
  // Once for the program, however many sessions it has.
  static llvm::SmallPtrSet<void *, 4> registered;
  if (registered.insert(library).second)
    plugin->registerPassRegistryCallbacks();
  if (dlsym(library, "mlirGetDialectPluginInfo")) {
    llvm::Expected<DialectPlugin> ops = DialectPlugin::load(path);
    if (!ops)
      return refuse(llvm::toString(ops.takeError()));
    ops->registerDialectRegistryCallbacks(dialects);
  }
  if (void *address = dlsym(library, "ztcRegisterPhaseHooks"))
    reinterpret_cast<void (*)(PhaseHooks &)>(address)(hooks);
  if (identity)
    *identity = llvm::formatv("{0} {1} ({2})", plugin->getPluginName(), plugin->getPluginVersion(), hash);
  return success();
}
