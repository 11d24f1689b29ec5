// From the plain data of a torch.save pickle to tensors: storages, views, parameters, the state dict. Knows no
// container.
#pragma once

#include <map>
#include <string>

#include "weights/container.h"
#include "weights/pickle.h"

namespace danqing {

// Where a storage lies, by the key that the pickle names it with.
using Storages = std::map<std::string, FileRange, std::less<>>;
using StorageSizes = std::map<std::string, uint64_t, std::less<>>;

// Every storage that the pickle names, with the bytes it should have; those of types that are not read are missing.
StorageSizes storages_named(const File& file, const Pickle& pickle);

// The state dict is the entry "state_dict" where there is one, else every tensor, nested names joined by dots.
Contents read_torch_state(const File& file, const Pickle& pickle, const Storages& storages);

}  // namespace danqing
