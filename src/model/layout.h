// Where a model's parameters stand in a checkpoint. Graphs name parameters "component.name" in the original single-file
// naming; a layout turns that into the key of the file at hand. Adding a layout is a renaming function and a row.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "weights/checkpoint.h"

namespace danqing {

struct Located {
  const TensorInfo* tensor = nullptr;
  int64_t begin = 0, end = -1;  // rows of it; -1: all
};

class Layout {
 public:
  // Keys that a parameter of the component may have, best first. The name comes without its component.
  using Keys = std::function<std::vector<std::string>(const std::string& name)>;

  explicit Layout(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}
  void set(const std::string& component, Keys keys) { components_[component] = std::move(keys); }

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // Empty if the checkpoint has none of the keys.
  std::optional<Located> locate(const std::string& parameter) const;
  // The key that would have been the first choice, for messages.
  std::string expected_key(const std::string& parameter) const;
  std::optional<Shape> shape_of(const std::string& parameter) const;

 private:
  std::vector<std::string> keys_of(const std::string& parameter) const;

  const Checkpoint* checkpoint_;
  std::map<std::string, Keys> components_;
};

// A shape that a parameter may also have in a file: [512,512,1,1] is as good as [512,512].
bool same_parameter_shape(const Shape& wanted, const Shape& found);

}  // namespace danqing
