// The exceptions that coconet-jit throws. Catch `Error` for all of them; the kinds say whose
// mistake it was.
#pragma once

#include <stdexcept>
#include <string>

#include "coconet/export.h"

namespace coconet {

/// Base of every exception thrown by this library. `what()` is one or more whole sentences that say
/// what is wrong, where (an op, a JSON pointer, a variable, a rank), and what would be right.
class COCONET_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The program is wrong: a layout, dtype or shape rule is broken, or a name is unknown or taken.
class COCONET_API ProgramError : public Error {
 public:
  using Error::Error;
};

/// The schedule is wrong: malformed JSON, an unknown op, or a step that is not legal for the
/// program.
class COCONET_API ScheduleError : public Error {
 public:
  using Error::Error;
};

/// A `COCONET_*` variable has a value that cannot be read.
class COCONET_API ConfigError : public Error {
 public:
  using Error::Error;
};

/// A kernel did not compile, or there is no compiler.
class COCONET_API CompileError : public Error {
 public:
  using Error::Error;
};

/// Ranks could not work together: another rank failed, differs, is late or is gone.
class COCONET_API CommError : public Error {
 public:
  using Error::Error;
};

/// A binding or an argument of a launch is wrong, or the device refused it.
class COCONET_API BackendError : public Error {
 public:
  using Error::Error;
};

/// A checkpoint cannot be written or read, is damaged, or has other states than the program.
class COCONET_API CheckpointError : public Error {
 public:
  using Error::Error;
};

/// A bug in coconet-jit. Please report it with the message.
class COCONET_API InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace coconet
