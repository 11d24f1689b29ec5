// Where a model's parameters stand in a checkpoint. Graphs name parameters "component.name" in the original single-file
// naming; a layout turns that into the key of the file at hand. Adding a layout is a renaming function and a row.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "base/units.h"
#include "weights/checkpoint.h"

namespace danqing {

// A key under which a parameter may stand: as a tensor of its own, as one of equal parts of a taller one (fused
// layers), or with rows and columns exchanged.
struct KeyPlace {
  std::string key;
  int part = 0, parts = 1;
  bool transposed = false;
};

struct Located {
  const TensorInfo* tensor = nullptr;
  int64_t begin = 0, end = -1;  // rows of it; -1: all
  bool transposed = false;      // never together with rows
  Shape shape() const;          // as the parameter has it
};
Bytes located_bytes(const Located&);  // of those rows, as stored

class Layout {
 public:
  // Places where a parameter of the component may stand, best first. The name comes without its component.
  using Places = std::function<std::vector<KeyPlace>(const std::string& name)>;

  explicit Layout(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}
  void set(const std::string& component, Places places) { components_[component] = std::move(places); }

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // Empty if the checkpoint has it in none of the places.
  std::optional<Located> locate(const std::string& parameter) const;
  // The key that would have been the first choice, for messages.
  std::string expected_key(const std::string& parameter) const;
  std::optional<Shape> shape_of(const std::string& parameter) const;

 private:
  std::vector<KeyPlace> places_of(const std::string& parameter) const;

  const Checkpoint* checkpoint_;
  std::map<std::string, Places> components_;
};

// A shape that a parameter may also have in a file: [512,512,1,1] is as good as [512,512].
bool same_parameter_shape(const Shape& wanted, const Shape& found);

}  // namespace danqing
