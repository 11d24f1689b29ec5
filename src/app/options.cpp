// Flags by CLI11; the help is printed from the same lists, one line a flag.
#include "app/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "base/error.h"

namespace danqing {

namespace {

std::string flag_of(const Field& field) {
  std::string flag = "--" + std::string(field.name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

// Short forms of the flags that people type most.
const char* short_form(const std::string& name) {
  if (name == "model") return "-m,";
  if (name == "negative") return "-n,";
  return "";
}

// -1 is how other programs write "by chance".
std::optional<uint64_t> seed_from(const std::string& text) {
  if (text == "-1") return std::nullopt;
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size())
    throw Error(Fault::request, "--seed: \"" + text + "\" is not a whole number from 0 to 18446744073709551615");
  return value;
}

void print_line(const std::string& flag, const std::string& help) {
  std::printf("  %-31s %s\n", flag.c_str(), help.c_str());
}

void print_help(const Usage& usage) {
  std::printf("%s\n\n", usage.line.c_str());
  for (const Flag& flag : usage.flags) print_line(flag.name + (flag.value.empty() ? "" : " " + flag.value), flag.help);
  if (!usage.request) return;
  print_line("--size WxH", "pixels, width x height");
  visit(*usage.request, [](const Field& field, const auto&) {
    const std::string name = field.name;
    if (name == "prompt" || name == "width" || name == "height") return;
    print_line(short_form(name) + std::string(*short_form(name) ? " " : "") + flag_of(field) + " " + field.value,
               field.help);
  });
}

}  // namespace

bool parse(const Usage& usage, const Arguments& arguments) {
  CLI::App app;
  app.set_help_flag();
  bool help = false;
  app.add_flag("-h,--help", help);
  std::vector<std::string> alone;
  app.add_option("words", alone);
  std::string size;
  for (const Flag& flag : usage.flags) {
    std::string names = flag.name;
    names.erase(std::remove(names.begin(), names.end(), ' '), names.end());
    if (flag.value.empty())
      app.add_flag_callback(names, [&flag] { flag.set(""); });
    else
      app.add_option_function<std::string>(names, [&flag](const std::string& v) { flag.set(v); });
  }
  if (usage.request) {
    app.add_option("--size", size);
    visit(*usage.request, [&](const Field& field, auto& member) {
      if (std::string(field.name) == "prompt") return;
      const std::string names = short_form(field.name) + flag_of(field);
      if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::optional<uint64_t>>)
        app.add_option_function<std::string>(names, [&member](const std::string& v) { member = seed_from(v); });
      else
        app.add_option(names, member)->allow_extra_args(false);
    });
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    throw Error(Fault::request, std::string(e.what()) + "; see `danqing " + usage.verb + " --help`");
  }
  if (help) return print_help(usage), false;
  if (!size.empty()) parse_size(size, *usage.request);
  for (const std::string& word : alone) {
    if (!usage.positional)
      throw Error(Fault::request, "\"" + word + "\" is not expected; see `danqing " + usage.verb + " --help`");
    usage.positional(word);
  }
  return true;
}

}  // namespace danqing
