// LoRA files matched to a model's parameters and merged into its weights while they load. The checkpoint stays as it
// is, so nothing is left behind after a job.
#pragma once

#include <memory>

#include "graph/program.h"
#include "model/identify.h"
#include "weights/lora.h"

namespace danqing {

struct Adapter {
  std::string file;  // as asked for
  float strength = 1;
  std::shared_ptr<const Lora> lora;
  std::map<std::string, size_t> parts;  // parameter without its ending ("unet.out.2") -> index into lora->parts()
};

class Adapters {
 public:
  // `asked`: "FILE" or "FILE:WEIGHT" each. Throws Error(request) for a weight that is no number, Error(file) for a LoRA
  // that fits nothing here (made for another family) or of another size. `notes`: how many parts of each were used.
  Adapters(const std::vector<std::string>& asked, const Model&, const Program&, std::vector<std::string>& notes);
  Adapters() = default;

  bool changes(const std::string& parameter) const;
  // Adds all adapters to the whole parameter, in checkpoint order.
  void apply(const std::string& parameter, std::span<float> values, int64_t rows) const;
  // f32 bytes of the largest parameter of a component that is changed: needed while it loads.
  Bytes largest(const Program&, const std::string& component) const;

 private:
  std::vector<Adapter> all_;
};

}  // namespace danqing
