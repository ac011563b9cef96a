// Marks the symbols that libcoconet-jit exports; everything else in the library is hidden.
#pragma once

#if defined(_WIN32)
#error "coconet-jit supports POSIX systems only"
#else
/// What libraries of coconet-jit export.
#define COCONET_API __attribute__((visibility("default")))
#endif
