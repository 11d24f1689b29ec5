// A pickle machine that runs nothing. It builds plain data; every class and function stays a name, every call of one a
// node that holds the name and the arguments. Names that only an attack would hold (os.system, eval) are refused.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weights/byte_reader.h"

namespace danqing {

using PickleRef = uint32_t;  // index into Pickle::nodes

struct PickleNode {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    tuple,
    list,
    dict,        // items: key, value, key, value
    global,      // text: "module name"
    call,        // items: callable, then one tuple of arguments; also objects built in other ways
    persistent,  // items: the id that stands for data outside the pickle
    opaque,      // something that no checkpoint needs (whole numbers past 64 bits, sets)
  };
  Kind kind = Kind::none;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<PickleRef> items;
};

struct Pickle {
  std::vector<PickleNode> nodes;
  PickleRef top = 0;
  const PickleNode& operator[](PickleRef at) const { return nodes[at]; }
};

// One pickle from the reader's position to its STOP. All protocols; at most 64 MiB and two million nodes.
Pickle read_pickle(ByteReader& in);

}  // namespace danqing
