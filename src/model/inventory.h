// What of a checkpoint a model uses, and what it lacks: from the graphs' own list of parameters.
#pragma once

#include "graph/program.h"
#include "model/identify.h"

namespace danqing {

struct ComponentInventory {
  std::string name;  // text, unet, vae
  int64_t parameters = 0;
  int64_t tensors = 0;
  Bytes bytes;  // as stored in the file
  std::map<std::string, int64_t> parameters_by_dtype;
};

struct Inventory {
  std::vector<ComponentInventory> components;
  std::vector<std::string> missing;     // keys that the model wants
  std::vector<std::string> mismatched;  // one sentence each: key, both shapes
  std::vector<std::string> unused;      // keys that no part uses
  std::vector<std::string> ignored;  // known company of no use: position ids, schedule tables, EMA copies, spare layers
};

// `spare`: programs that nobody runs, whose parameters are known company: the layers of a text encoder behind the state
// that the denoiser reads.
// A graph's distinct parameters with their whole shapes; a layer read in two halves counts once.
void add_parameters(const Graph&, std::map<std::string, Shape>& found);

Inventory take_inventory(const Model&, const std::vector<const Program*>& programs,
                         const std::vector<const Program*>& spare = {});

// Throws Error(Fault::file) if something is missing or of another shape.
void require_complete(const Model&, const Inventory&);

}  // namespace danqing
