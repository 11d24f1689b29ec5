// What CLIP's tokenizers do to a text before it is split into words. Programs differ, and so do the pictures.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

namespace danqing {

enum class ClipCleaning {
  plain,  // transformers 5 (and its fast tokenizers): NFC, white space to one space, lower case
  ftfy,   // transformers 4's Python tokenizer, hence A1111 and ComfyUI: repairs below, then as plain with a final sigma
  openai,  // OpenAI's and OpenCLIP's code: the same and then HTML's references resolved, twice
};

// Named character references of HTML: `amp;` -> "&".
class HtmlEntities {
 public:
  explicit HtmlEntities(const std::filesystem::path& file);  // data/tokenizer/html_entities.txt.gz; throws Error(file)

  // Every reference as HTML5 reads it: without semicolon where the standard allows, longest name first.
  std::u32string unescape(std::u32string_view text) const;

  // The strict form that ftfy uses: closed by a semicolon; names written in capitals give the capital letter.
  std::u32string unescape_closed(std::u32string_view text) const;

 private:
  const std::u32string* find(std::string_view name) const;
  std::unordered_map<std::string, std::u32string> values_;
};

// The cleaned text. Invalid UTF-8 becomes U+FFFD byte by byte.
//
// The repairs of `ftfy`, each line until nothing changes, at most eight times: HTML references (not in a line that
// holds `<`); UTF-8 that was read as Windows-1252 ("cafÃ©", text/mojibake.h); C1 controls as Windows-1252; ligatures
// and digraphs apart; full-width and half-width forms normal; curly quotes straight; line breaks to \n; terminal
// escapes and control characters out; NFC. Not done: mojibake through other code pages than Windows-1252.
std::string clean_clip_text(std::string_view text, ClipCleaning cleaning, const HtmlEntities& entities);

}  // namespace danqing
