// Failures. Three kinds (docs/house.md): the user or the world is wrong -> throw Error; an expected outcome -> a value;
// a bug -> CHECK, which no outside input may reach.
#pragma once

#include <stdexcept>
#include <string>

namespace danqing {

// Each fault has one exit code (app/main.cpp).
enum class Fault {
  request,    // what was asked cannot be (an unknown sampler, a size of zero)
  file,       // a file is missing, broken or not what it should be
  capacity,   // it does not fit into the memory allowed
  numeric,    // the numbers broke down (a NaN)
  cancelled,  // the user stopped it
};

// The text is one sentence that names the thing, both sides of the mismatch and the place.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& text) : std::runtime_error(text), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

// A bug in danqing: exit code 1.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

#define DANQING_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::danqing::check_failed(#condition, __FILE__, __LINE__))

}  // namespace danqing
