#include "model/layout.h"

namespace danqing {

std::vector<std::string> Layout::keys_of(const std::string& parameter) const {
  const size_t dot = parameter.find('.');
  DANQING_CHECK(dot != std::string::npos);
  const auto component = components_.find(parameter.substr(0, dot));
  DANQING_CHECK(component != components_.end());
  return component->second(parameter.substr(dot + 1));
}

std::optional<Located> Layout::locate(const std::string& parameter) const {
  for (const std::string& key : keys_of(parameter))
    if (const TensorInfo* tensor = checkpoint_->find(key)) return Located{tensor};
  return std::nullopt;
}

std::string Layout::expected_key(const std::string& parameter) const { return keys_of(parameter).front(); }

std::optional<Shape> Layout::shape_of(const std::string& parameter) const {
  const auto located = locate(parameter);
  return located ? std::optional(located->tensor->shape) : std::nullopt;
}

bool same_parameter_shape(const Shape& wanted, const Shape& found) {
  const auto trimmed = [](Shape s) {
    int rank = s.rank();
    while (rank > 1 && s[rank - 1] == 1) --rank;
    return Shape(std::span(s.begin(), static_cast<size_t>(rank)));
  };
  return trimmed(wanted) == trimmed(found);
}

}  // namespace danqing
