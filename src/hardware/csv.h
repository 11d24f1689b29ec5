// Comma-separated tables, read strictly (RFC 4180): the first line names the columns, every row has as many fields,
// a quote opens only at the start of a field and closes before a comma or line end. Lines that begin with '#' and empty
// lines are skipped.
#pragma once

#include <string>
#include <vector>

namespace danqing {

struct CsvTable {
  std::string where;  // for errors: the file's name
  std::vector<std::string> columns;
  struct Row {
    int line;  // 1-based, where the row begins
    std::vector<std::string> fields;
  };
  std::vector<Row> rows;

  // The field of a row by column; a column that is not there throws Error(file).
  const std::string& at(const Row&, const std::string& column) const;
};

// Throw Error(file) that names file and line.
CsvTable parse_csv(const std::string& text, const std::string& where);
CsvTable read_csv(const std::string& path);

}  // namespace danqing
