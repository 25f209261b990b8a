// libztc-nvtx-recorder.so: what a profiler sees of NVTX ranges. NVTX's headers load it where NVTX_INJECTION64_PATH
// names it; it appends a line for each begin and end to the file that ZTC_NVTX_RECORD names:
//
//     process thread nanoseconds push|pop|start|end number domain:name
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <time.h>
#include <unistd.h>

namespace {

const char *domainName = "";
nvtxRangeId_t ranges = 0;

void note(const char *what, nvtxRangeId_t number, const char *name) {
  static const int file = ::open(std::getenv("ZTC_NVTX_RECORD"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  char line[256];
  const int bytes = std::snprintf(line, sizeof line, "%d %d %lld %s %llu %s:%s\n", ::getpid(), ::gettid(),
                                  now.tv_sec * 1000000000LL + now.tv_nsec, what,
                                  static_cast<unsigned long long>(number), domainName, name);
  (void)!::write(file, line, size_t(bytes));
}

nvtxDomainHandle_t createDomain(const char *name) {
  domainName = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&domainName);
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t *range) {
  note("push", 0, range->message.ascii);
  return 0;
}
int pop(nvtxDomainHandle_t) {
  note("pop", 0, "");
  return 0;
}
nvtxRangeId_t start(nvtxDomainHandle_t, const nvtxEventAttributes_t *range) {
  const nvtxRangeId_t number = __atomic_add_fetch(&ranges, 1, __ATOMIC_RELAXED);
  note("start", number, range->message.ascii);
  return number;
}
void end(nvtxDomainHandle_t, nvtxRangeId_t range) {
  note("end", range, "");
}

} // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t exportTable) {
  const auto *callbacks = static_cast<const NvtxExportTableCallbacks *>(exportTable(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!std::getenv("ZTC_NVTX_RECORD") || !callbacks ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) || size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(createDomain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(start);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}
