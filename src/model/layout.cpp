#include "model/layout.h"

#include <algorithm>
#include <utility>

namespace danqing {

std::vector<KeyPlace> Layout::places_of(const std::string& parameter) const {
  const size_t dot = parameter.find('.');
  DANQING_CHECK(dot != std::string::npos);
  const auto component = components_.find(parameter.substr(0, dot));
  DANQING_CHECK(component != components_.end());
  return component->second(parameter.substr(dot + 1));
}

std::optional<Located> Layout::locate(const std::string& parameter) const {
  for (const KeyPlace& place : places_of(parameter))
    if (const TensorInfo* tensor = checkpoint_->find(place.key)) {
      Located found{tensor, 0, -1, place.transposed && tensor->shape.rank() == 2};
      if (place.parts > 1 && tensor->shape.rank() > 0) {  // a height that does not divide shows as a wrong shape
        const int64_t rows = tensor->shape[0] / place.parts;
        found.begin = rows * place.part, found.end = found.begin + rows;
      }
      return found;
    }
  return std::nullopt;
}

Shape Located::shape() const {
  Shape s = tensor->shape;
  if (transposed)
    std::swap(s[0], s[1]);
  else if (end >= 0)
    s[0] = end - begin;
  return s;
}

Bytes located_bytes(const Located& l) {
  const auto bytes = static_cast<int64_t>(l.tensor->bytes);
  return Bytes(l.end < 0 ? bytes : bytes / std::max<int64_t>(1, l.tensor->shape[0]) * (l.end - l.begin));
}

std::string Layout::expected_key(const std::string& parameter) const { return places_of(parameter).front().key; }

std::optional<Shape> Layout::shape_of(const std::string& parameter) const {
  const auto located = locate(parameter);
  return located ? std::optional(located->shape()) : std::nullopt;
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
