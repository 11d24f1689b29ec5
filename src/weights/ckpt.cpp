// Reader of torch.save files: the zip form and the older stream of pickles. Finds the pickle and the storages; what
// they mean stands in torch_state.h.
#include <algorithm>

#include "base/error.h"
#include "weights/torch_state.h"
#include "weights/zip_directory.h"

namespace danqing {
namespace {

std::string small_member(const File& file, const ZipDirectory& zip, const std::string& name) {
  if (!zip.members().contains(name)) return "";
  const FileRange range = zip.locate(name);
  std::string text(std::min<uint64_t>(range.size, 16), '\0');
  file.read_at(range.begin, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

Contents read_zip_checkpoint(const File& file) {
  const ZipDirectory zip(file);
  std::string root;
  bool found = false;
  for (const auto& [name, member] : zip.members())
    if (name == "data.pkl" || name.ends_with("/data.pkl")) {
      if (found) fail_in(file, "holds two data.pkl in its archive");
      root = name.substr(0, name.size() - 8);
      found = true;
    }
  if (!found) fail_in(file, "is a zip archive without data.pkl, not a torch checkpoint: unpack it first");
  if (small_member(file, zip, root + "byteorder") == "big")
    fail_in(file, "was written big-endian, which danqing does not read");
  const FileRange at = zip.locate(root + "data.pkl");
  ByteReader in(file, at.begin, at.begin + at.size, "data.pkl");
  const Pickle pickle = read_pickle(in);
  Storages storages;
  for (const auto& [key, bytes] : storages_named(file, pickle)) {
    const FileRange range = zip.locate(root + "data/" + key);
    if (range.size < bytes)
      fail_in(file, "storage " + in_quotes(key) + " should have " + std::to_string(bytes) + " bytes, the archive has " +
                        std::to_string(range.size));
    storages.emplace(key, range);
  }
  return read_torch_state(file, pickle, storages);
}

// Magic number, version and system, the tree, the storage keys in order; then each storage: a count of elements, its
// data.
Contents read_legacy_checkpoint(const File& file) {
  ByteReader in(file, 0, file.size(), "pickle");
  read_pickle(in);
  const Pickle version = read_pickle(in);
  if (version[version.top].integer != 1001)
    in.fail("torch stream version " + std::to_string(version[version.top].integer) + ", 1001 is read");
  read_pickle(in);
  const Pickle tree = read_pickle(in);
  const Pickle keys = read_pickle(in);
  const auto named = storages_named(file, tree);
  Storages storages;
  for (PickleRef at : keys[keys.top].items) {
    const auto storage = named.find(keys[at].text);
    if (storage == named.end())
      in.fail("the storage " + in_quotes(keys[at].text) +
              " is of a type that is not read, so what follows cannot be placed");
    const uint64_t count = in.take<uint64_t>();
    if (storage->second != 0 && (count == 0 || storage->second % count != 0 || storage->second / count > 8))
      in.fail("storage " + in_quotes(storage->first) + " has " + std::to_string(count) + " elements here and " +
              std::to_string(storage->second) + " bytes in the pickle");
    storages[storage->first] = {in.position(), storage->second};
    in.skip(storage->second);
  }
  return read_torch_state(file, tree, storages);
}

}  // namespace danqing
