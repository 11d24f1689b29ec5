#include "hardware/csv.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace danqing {
namespace {

class Parser {
 public:
  Parser(const std::string& text, const std::string& where) : text_(text), where_(where) {}

  bool at_end() const { return at_ == text_.size(); }
  int line() const { return line_; }

  // Skips comments and empty lines; false at the end.
  bool next_row() {
    while (!at_end()) {
      if (text_[at_] == '#') {
        while (!at_end() && text_[at_] != '\n') ++at_;
      }
      if (!take_line_end()) break;
    }
    return !at_end();
  }

  std::vector<std::string> row() {
    std::vector<std::string> fields;
    do {
      fields.push_back(!at_end() && text_[at_] == '"' ? quoted() : plain());
    } while (take(','));
    if (!at_end() && !take_line_end()) fail("text after a closing quote");
    return fields;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Fault::file, where_ + " line " + std::to_string(line_) + ": " + what);
  }

 private:
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    return ++at_, true;
  }
  bool take_line_end() {
    if (at_ + 1 < text_.size() && text_[at_] == '\r' && text_[at_ + 1] == '\n') ++at_;
    if (!take('\n')) return false;
    return ++line_, true;
  }
  std::string plain() {
    const size_t start = at_;
    while (!at_end() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
      if (text_[at_++] == '"') fail("a quote inside an unquoted field");
    }
    return text_.substr(start, at_ - start);
  }
  std::string quoted() {
    std::string out;
    const int opened = line_;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '"' && (at_ + 1 == text_.size() || text_[at_ + 1] != '"')) return ++at_, out;
      if (text_[at_] == '"') ++at_;
      if (text_[at_] == '\n') ++line_;
      out += text_[at_];
    }
    line_ = opened;
    fail("a quote that is never closed");
  }

  const std::string& text_;
  const std::string& where_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

const std::string& CsvTable::at(const Row& row, const std::string& column) const {
  const auto it = std::find(columns.begin(), columns.end(), column);
  if (it == columns.end()) throw Error(Fault::file, where + ": the column \"" + column + "\" is missing");
  return row.fields[size_t(it - columns.begin())];
}

CsvTable parse_csv(const std::string& text, const std::string& where) {
  CsvTable table{where, {}, {}};
  Parser parser(text, where);
  if (!parser.next_row()) throw Error(Fault::file, where + ": no header line");
  table.columns = parser.row();
  while (parser.next_row()) {
    const int line = parser.line();
    table.rows.push_back({line, parser.row()});
    const size_t fields = table.rows.back().fields.size();
    if (fields != table.columns.size()) {
      throw Error(Fault::file, where + " line " + std::to_string(line) + ": " + std::to_string(fields) +
                                   " fields, the header has " + std::to_string(table.columns.size()));
    }
  }
  return table;
}

CsvTable read_csv(const std::string& path) {
  const File file = File::open(path);
  constexpr uint64_t kLargest = 16 << 20;
  if (file.size() > kLargest) throw Error(Fault::file, path + ": a table of more than 16 MiB");
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return parse_csv(text, path);
}

}  // namespace danqing
