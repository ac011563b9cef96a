// What a refused call says.
#pragma once

#include <string>

#include "coconet/error.h"

/// The message of the coconet error of kind `E` that `body` throws; "(accepted)" when it throws
/// none.
template <class E = coconet::Error, class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "(accepted)";
}
