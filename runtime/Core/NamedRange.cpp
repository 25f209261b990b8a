#include "runtime/Core/NamedRange.h"
#ifdef ZTC_NVTX
#include <cstdio>
#include <nvtx3/nvToolsExt.h>
#endif

namespace ztc {

#ifdef ZTC_NVTX

/// Null where no profiler listens.
static nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t one = nvtxDomainCreateA("ztc");
  return one;
}

namespace {

/// What NVTX wants to know of a range.
struct Attributes {
  explicit Attributes(const char *text) {
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = text;
  }
  const nvtxEventAttributes_t *get() const { return &attributes; }
  nvtxEventAttributes_t attributes = {};
};

/// "name number".
struct NumberedName {
  NumberedName(const char *name, uint64_t number) {
    std::snprintf(text, sizeof text, "%s %llu", name, static_cast<unsigned long long>(number));
  }
  char text[64];
};

} // namespace

static bool areRangesRecorded() {
  return domain() != nullptr;
}

NamedRange::NamedRange(const char *name) : isOpen_(areRangesRecorded()) {
  if (isOpen_)
    nvtxDomainRangePushEx(domain(), Attributes(name).get());
}

NamedRange::NamedRange(const char *name, uint64_t number) : isOpen_(areRangesRecorded()) {
  if (isOpen_)
    nvtxDomainRangePushEx(domain(), Attributes(NumberedName(name, number).text).get());
}

NamedRange::~NamedRange() {
  if (isOpen_)
    nvtxDomainRangePop(domain());
}

uint64_t beginRange(const char *name, uint64_t number) {
  return areRangesRecorded() ? nvtxDomainRangeStartEx(domain(), Attributes(NumberedName(name, number).text).get()) : 0;
}

void endRange(uint64_t range) {
  if (range != 0)
    nvtxDomainRangeEnd(domain(), range);
}

#else

NamedRange::NamedRange(const char *) : isOpen_(false) {}
NamedRange::NamedRange(const char *, uint64_t) : isOpen_(false) {}
NamedRange::~NamedRange() = default;
uint64_t beginRange(const char *, uint64_t) {
  return 0;
}
void endRange(uint64_t) {}

#endif

} // namespace ztc
