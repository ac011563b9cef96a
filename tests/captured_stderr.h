// What the process prints on standard error while the object lives, for tests of warnings.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "texts.h"

namespace coconet::jit {

class CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()) {
    std::fflush(stderr);
    saved_ = dup(STDERR_FILENO);
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~CapturedStderr() {
    std::fflush(stderr);
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    std::fclose(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  [[nodiscard]] std::string text() const {
    std::fflush(stderr);
    std::string result;
    char buffer[4096];
    for (off_t at = 0;;) {
      const ssize_t got = pread(fileno(file_), buffer, sizeof buffer, at);
      if (got <= 0) return result;
      result.append(buffer, static_cast<std::size_t>(got));
      at += got;
    }
  }

  [[nodiscard]] int count(std::string_view part) const { return test::count_of(text(), part); }

 private:
  std::FILE* file_;
  int saved_ = -1;
};

}  // namespace coconet::jit
