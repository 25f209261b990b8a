#include "tests/standin/SimtFibers.h"
#include <cstdint>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define ZTC_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZTC_ASAN 1
#endif
#endif
// These files are compiled without ThreadSanitizer's instrumentation (the engine's own variables do not concern the
// kernel's races), so the build says that it is there.
#ifdef ZTC_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef ZTC_SIMT_TSAN
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read_range_pc(void *address, unsigned long bytes, void *from);
void __tsan_write_range_pc(void *address, unsigned long bytes, void *from);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
}
#endif

// System V x86-64: six registers survive a call. Kernels do not touch the floating-point control words.
asm(R"(
.text
.globl ztcSimtSwitch
.type ztcSimtSwitch,@function
ztcSimtSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ztcSimtSwitch,.-ztcSimtSwitch
)");

namespace ztc::simt {

static constexpr size_t kGuardBytes = 4096;

std::byte *makeStack() {
  void *memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return nullptr;
  mprotect(memory, kGuardBytes, PROT_NONE);
  return static_cast<std::byte *>(memory) + kGuardBytes;
}

void *beginOn(std::byte *stack, void (*start)()) {
  auto *top = reinterpret_cast<uintptr_t *>(stack + kStackBytes);
  // As if `start` had been called: its return address would lie at top[-1], and there is none.
  top[-1] = 0;
  top[-2] = reinterpret_cast<uintptr_t>(start);
  for (int i = 3; i <= 8; ++i)
    top[-i] = 0; // the six registers
  return top - 8;
}

void *makeSanitizerFiber() {
#ifdef ZTC_SIMT_TSAN
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

void endSanitizerFiber(void *fiber) {
#ifdef ZTC_SIMT_TSAN
  __tsan_destroy_fiber(fiber);
#endif
}

void *currentSanitizerFiber() {
#ifdef ZTC_SIMT_TSAN
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

void leaveFor(void **fakeStack, bool last, const void *bottom, size_t bytes, void *fiber) {
#ifdef ZTC_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : fakeStack, bottom, bytes);
#endif
#ifdef ZTC_SIMT_TSAN
  __tsan_switch_to_fiber(fiber, 1); // 1: the switch itself orders nothing
#endif
}

void arrive(void *fakeStack, const void **fromBottom, size_t *fromBytes) {
#ifdef ZTC_ASAN
  __sanitizer_finish_switch_fiber(fakeStack, fromBottom, fromBytes);
#endif
}

void cleanStack(std::byte *stack) {
#ifdef ZTC_ASAN
  __asan_unpoison_memory_region(stack, kStackBytes);
#endif
}

void noteRead(const void *address, size_t bytes, const void *from) {
#ifdef ZTC_SIMT_TSAN
  __tsan_read_range_pc(const_cast<void *>(address), bytes, const_cast<void *>(from));
#endif
}

void noteWrite(const void *address, size_t bytes, const void *from) {
#ifdef ZTC_SIMT_TSAN
  __tsan_write_range_pc(const_cast<void *>(address), bytes, const_cast<void *>(from));
#endif
}

bool isGuarded(const void *address, size_t bytes) {
#ifdef ZTC_ASAN
  return __asan_region_is_poisoned(const_cast<void *>(address), bytes) != nullptr;
#else
  return false;
#endif
}

#ifdef ZTC_SIMT_TSAN
Unseen::Unseen() {
  __tsan_ignore_thread_begin();
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

Unseen::~Unseen() {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_ignore_thread_end();
}
#endif

void release(void *token) {
#ifdef ZTC_SIMT_TSAN
  __tsan_release(token);
#endif
}

void acquire(void *token) {
#ifdef ZTC_SIMT_TSAN
  __tsan_acquire(token);
#endif
}

} // namespace ztc::simt
