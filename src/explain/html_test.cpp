#include <gtest/gtest.h>

#include "explain/charts.h"
#include "explain/report_testing.h"
#include "explain/svg.h"

namespace danqing {
namespace {

TEST(Charts, EscapeWhatHtmlWouldRead) {
  EXPECT_EQ(svg::escaped("<b a=\"1\">&\n"), "&lt;b a=&quot;1&quot;&gt;&amp; ");
  EXPECT_NE(bars({{"<x>", 1, 2, "<y>"}}).find("&lt;x&gt;"), std::string::npos);
}

TEST(Charts, DrawNothingBrokenOfNothing) {
  for (const std::string& chart :
       {bars({}), timeline({}), roofline({}, 0, 0), roofline({{"a", "--a", 1, 1e9, 0}}, 1e9, 1e9),
        roofline({{"a", "--a", 0, 1e9, 1}, {"b", "--a", 1e300, 1e-300, 1}}, 1e9, 1e9),
        timeline({{{Seconds(0), Bytes(0), "x"}}, {}, {}, {}}), bars({{"a", 0, 0, ""}})}) {
    EXPECT_TRUE(chart.starts_with("<svg") && chart.ends_with("</svg>"));
    EXPECT_EQ(chart.find("nan"), std::string::npos) << chart;
    EXPECT_EQ(chart.find("inf"), std::string::npos) << chart;
  }
}

TEST(Charts, TicksAreRoundAndFew) {
  EXPECT_EQ(svg::decimal_ticks(87.2), (std::vector<double>{0, 20, 40, 60, 80}));
  EXPECT_EQ(svg::decimal_ticks(0), (std::vector<double>{0}));
  EXPECT_EQ(svg::binary_ticks(3.8 * kGiB), (std::vector<double>{0, 1.0 * kGiB, 2.0 * kGiB, 3.0 * kGiB}));
  for (double most : {1e-9, 0.3, 1.0, 7.0, 5e5, 1e18}) {
    EXPECT_LE(svg::decimal_ticks(most).size(), 6u) << most;
    EXPECT_GE(svg::decimal_ticks(most).size(), 3u) << most;
    EXPECT_LE(svg::binary_ticks(most).size(), 6u) << most;
  }
}

TEST(Charts, TheLimitIsDrawnNearAndSaidFar) {
  const std::vector<MemoryMoment> moments{{Seconds(0), Bytes(kGiB), "load"}, {Seconds(1), Bytes(), "end"}};
  EXPECT_NE(timeline({moments, {}, {}, Bytes(2 * kGiB)}).find("limit 2.00 GiB<"), std::string::npos);
  EXPECT_NE(timeline({moments, {}, {}, Bytes(9 * kGiB)}).find("limit 9.00 GiB, above the picture"), std::string::npos);
  EXPECT_EQ(timeline({moments, {}, {}, {}}).find("limit"), std::string::npos);
}

// Every opened element is closed in order; texts are escaped; nothing comes from elsewhere.
void expect_sound(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = html.find('<', at)) != std::string::npos; ++at) {
    const size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string inside = html.substr(at + 1, end - at - 1);
    const std::string name =
        inside.substr(inside.starts_with("/"), inside.find_first_of(" /", 1) - inside.starts_with("/"));
    if (inside.starts_with("!") || inside.ends_with("/") || inside.starts_with("meta")) continue;
    if (!inside.starts_with("/")) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ(open.back(), inside.substr(1));
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
  for (const char* bad : {"http", "src=", "<script", "@import", "url(", "nan", "<b>fox"})
    EXPECT_EQ(html.find(bad), std::string::npos) << bad;
}

TEST(Html, IsOneSoundPageWithAndWithoutATrace) {
  const Example example;
  for (const Subject& s : {example.price(), example.painted()}) {
    const std::string html = report_html(s);
    expect_sound(html);
    EXPECT_NE(html.find("Small &amp; plain"), std::string::npos);
    EXPECT_NE(html.find("<svg"), std::string::npos);
    EXPECT_NE(html.find("denoise"), std::string::npos);
  }
}

}  // namespace
}  // namespace danqing
