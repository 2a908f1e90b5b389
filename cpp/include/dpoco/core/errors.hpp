#pragma once

#include <stdexcept>

namespace dpoco {

// Each maps to the Python class of the same name. Texts never contain data values.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct HorizonExceeded : Error {
  using Error::Error;
};
struct RoundOrderError : Error {
  using Error::Error;
};
struct StateError : Error {
  using Error::Error;
};

}  // namespace dpoco
