"""Scenes: what stands where in which colour, painted as a picture and told as a prompt in English or Chinese.

A scene is a small dict (it is stored as JSON beside its latents), so one picture can be told in many ways:
  items   list of {"what": sprite number or shape name, "color": colour or None}
  layout  one, small, POSITION, pair, stack, count2 .. count4, group
  bg      a colour or a place
  frame   a colour or None
"""
import itertools
import json
import random
import zlib

import numpy as np
from PIL import Image, ImageDraw

SIDE = 128

# The eleven basic colours: value and Chinese name.
COLORS = {
    "red": ((222, 36, 36), "红色"), "orange": ((250, 140, 20), "橙色"), "yellow": ((252, 218, 40), "黄色"), "green": ((40, 165, 65), "绿色"),
    "blue": ((40, 95, 225), "蓝色"), "purple": ((140, 60, 190), "紫色"), "pink": ((250, 150, 195), "粉色"), "brown": ((130, 80, 45), "棕色"),
    "black": ((20, 20, 22), "黑色"), "white": ((255, 255, 255), "白色"), "gray": ((140, 142, 146), "灰色"),
}
# Places: how they are told, after the thing that stands there (English) and before it (Chinese).
PLACES = {
    "night": ("at night", "夜空下的"), "sunset": ("at sunset", "夕阳下的"), "meadow": ("on a meadow", "草地上的"), "snow": ("in the snow", "雪地里的"),
    "beach": ("on the beach", "沙滩上的"), "water": ("under water", "水下的"), "sky": ("in the sky", "天空中的"), "desert": ("in the desert", "沙漠里的"),
}
SHAPES = {
    "circle": "圆形", "square": "正方形", "triangle": "三角形", "star": "星星", "heart": "心形", "diamond": "菱形", "hexagon": "六边形", "ring": "圆环",
    "crescent": "月牙", "cross": "十字", "arrow": "箭头", "house": "房子", "tree": "树", "flower": "花", "fish": "鱼", "boat": "帆船", "balloon": "气球",
    "mushroom": "蘑菇", "cup": "杯子", "umbrella": "雨伞",
}
POSITIONS = {"left": (34, 64), "right": (94, 64), "top": (64, 34), "bottom": (64, 94), "top left": (34, 34), "top right": (94, 34),
             "bottom left": (34, 94), "bottom right": (94, 94)}
POSITIONS_ZH = {"left": "左边", "right": "右边", "top": "上方", "bottom": "下方", "top left": "左上角", "top right": "右上角", "bottom left": "左下角",
                "bottom right": "右下角"}
NUMBERS = {2: ("two", "两"), 3: ("three", "三"), 4: ("four", "四")}
# Centres and side of the boxes that a layout gives its items.
BOXES = {
    "one": ([(64, 64)], 120), "small": ([(64, 64)], 60), "pair": ([(34, 64), (94, 64)], 58), "stack": ([(64, 34), (64, 94)], 58),
    "count2": ([(34, 64), (94, 64)], 58), "count3": ([(64, 34), (34, 94), (94, 94)], 56), "count4": ([(34, 34), (94, 34), (34, 94), (94, 94)], 56),
    "group": ([(34, 94), (94, 94), (64, 34)], 56), **{p: ([c], 58) for p, c in POSITIONS.items()},
}


class Sprites:
    """The rendered emoji and clip art, with how often each is wanted."""

    def __init__(self, work):
        self.pixels = np.load(work / "sprites.npy", mmap_mode="r")
        self.entries = json.loads((work / "sprites.json").read_text())
        self.emoji = [i for i, e in enumerate(self.entries) if e["kind"] == "emoji"]
        self.clipart = [i for i, e in enumerate(self.entries) if e["kind"] == "clipart"]
        # Flags and the many variants of people would otherwise be half of what the model sees.
        share = {"Flags": 0.35, "Smileys & People": 0.7, "Symbols": 0.7}
        self.cumulative = list(itertools.accumulate(share.get(self.entries[i]["group"], 1.0) for i in self.emoji))
        # Things that can be counted, tinted and set beside others: named in a word or two.
        things = ("Animals & Nature", "Food & Drink", "Objects", "Activities", "Travel & Places", "Other")
        self.things = [i for i in self.emoji if self.entries[i]["group"] in things and simple(self.entries[i]["names"]["en"])]

    def name(self, what, language):
        if isinstance(what, str):
            return what if language == "en" else SHAPES[what]
        names = self.entries[what]["names"]
        return names.get(language) or names["en"]

    def key(self, what):
        return what if isinstance(what, str) else self.entries[what].get("char") or self.entries[what]["file"]


def simple(name):
    words = name.split()
    return len(words) <= 2 and all(w.replace("-", "").isalpha() and w not in COLORS for w in words)


def held_out(key, color, bg):
    """One in eight combinations of thing, colour and background is never trained on; evaluate.py asks for these."""
    return zlib.crc32(f"{key}|{color}|{bg}".encode()) % 8 == 0


# ---- what there is -----------------------------------------------------------------------------------------------------------

def random_item(sprites, rng, tint):
    r = rng.random()
    if r < 0.12:
        return {"what": rng.choice(list(SHAPES)), "color": rng.choice(list(COLORS))}
    if r < 0.55 or tint:
        return {"what": rng.choice(sprites.things), "color": rng.choice(list(COLORS)) if tint else None}
    if r < 0.92:
        return {"what": rng.choices(sprites.emoji, cum_weights=sprites.cumulative)[0], "color": None}
    return {"what": rng.choice(sprites.clipart), "color": None}


def random_scene(sprites, rng):
    """A scene with something in it beyond one plain picture on white."""
    while True:
        tint = rng.random() < 0.35
        item = random_item(sprites, rng, tint)
        items = [item]
        bg = rng.choice(list(COLORS)) if rng.random() < 0.72 else "white"
        frame = None
        layout = rng.choices(["one", "small", "position", "pair", "stack", "count", "group", "place", "frame"], [46, 3, 7, 13, 4, 11, 5, 6, 5])[0]
        if layout in ("pair", "stack", "group"):
            other = random_item(sprites, rng, tint and rng.random() < 0.5)
            if other["what"] == item["what"]:
                continue
            items = [item, item, other] if layout == "group" else [item, other]
        elif layout == "count":
            n = rng.choice([2, 2, 3, 3, 4])
            layout, items = f"count{n}", [item] * n
        elif layout == "place":
            layout, bg = "one" if rng.random() < 0.5 else "bottom", rng.choice(list(PLACES))
        elif layout == "position":
            layout = rng.choice(list(POSITIONS))
        elif layout == "frame":
            layout, frame = "one", rng.choice([c for c in COLORS if c != bg])
        if layout in ("group", "count2", "count3", "count4") and not (isinstance(item["what"], str) or item["what"] in sprites.things):
            continue
        if any(i["color"] == bg or held_out(sprites.key(i["what"]), i["color"], bg) for i in items):
            continue
        return {"items": items, "layout": layout, "bg": bg, "frame": frame}


def plain_scene(what):
    return {"items": [{"what": what, "color": None}], "layout": "one", "bg": "white", "frame": None}


# ---- painting ----------------------------------------------------------------------------------------------------------------

def shade(color, amount):
    """Towards black (negative) or white (positive)."""
    target = 255 if amount > 0 else 0
    return tuple(round(c + (target - c) * abs(amount)) for c in color)


def tint(rgba, color):
    """The same drawing in shades of one colour: its middle brightness becomes that colour."""
    alpha = rgba[..., 3]
    light = rgba[..., :3].astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) / 255
    middle = float(np.clip(np.median(light[alpha > 128]) if (alpha > 128).any() else 0.5, 0.15, 0.85))
    dark = np.clip(light / middle, 0, 1)[..., None] ** 0.7
    bright = np.clip((light - middle) / (1 - middle), 0, 1)[..., None]
    base = np.array(color, np.float32)
    if min(color) > 240:                    # white shows its drawing in light greys
        rgb = base * (0.72 + 0.28 * dark)
    else:
        rgb = base * (0.45 + 0.55 * dark)
        rgb = rgb + (255 - rgb) * 0.45 * bright
    return np.dstack([rgb.clip(0, 255).astype(np.uint8), alpha])


def draw_shape(name, color):
    """A shape drawn by code, RGBA, at the size of a sprite."""
    n = 4                                   # drawn four times larger, then averaged
    image = Image.new("RGBA", (SIDE * n, SIDE * n), (*color, 0))
    d = ImageDraw.Draw(image)
    dark = shade(color, -0.35) if sum(color) > 150 else shade(color, 0.3)

    def points(*xy):
        return [(x * n, y * n) for x, y in xy]

    def ellipse(x0, y0, x1, y1, fill=color):
        d.ellipse([x0 * n, y0 * n, x1 * n, y1 * n], fill=fill)

    def box(x0, y0, x1, y1, fill=color):
        d.rectangle([x0 * n, y0 * n, x1 * n, y1 * n], fill=fill)

    def polygon(*xy, fill=color):
        d.polygon(points(*xy), fill=fill)

    def around(count, radius, turn=-90):
        radii = radius if isinstance(radius, tuple) else (radius,)
        angles = [np.radians(turn + 360 * i / count) for i in range(count)]
        return [(64 + radii[i % len(radii)] * np.cos(a), 64 + radii[i % len(radii)] * np.sin(a)) for i, a in enumerate(angles)]

    clear = (*color, 0)
    if name == "circle":
        ellipse(12, 12, 116, 116)
    elif name == "square":
        box(18, 18, 110, 110)
    elif name == "triangle":
        polygon((64, 12), (118, 112), (10, 112))
    elif name == "star":
        polygon(*[(x, y + 4) for x, y in around(10, (60, 25))])
    elif name == "heart":
        ellipse(12, 20, 68, 76), ellipse(60, 20, 116, 76), polygon((17, 62), (64, 116), (111, 62), (64, 40))
    elif name == "diamond":
        polygon((64, 8), (108, 64), (64, 120), (20, 64))
    elif name == "hexagon":
        polygon(*around(6, 56, 0))
    elif name == "ring":
        ellipse(10, 10, 118, 118), ellipse(38, 38, 90, 90, clear)
    elif name == "crescent":
        ellipse(14, 12, 118, 116), ellipse(42, 2, 132, 98, clear)
    elif name == "cross":
        box(48, 12, 80, 116), box(12, 48, 116, 80)
    elif name == "arrow":
        box(10, 50, 72, 78), polygon((66, 22), (120, 64), (66, 106))
    elif name == "house":
        box(26, 58, 102, 116), polygon((64, 10), (118, 60), (10, 60), fill=dark), box(54, 82, 74, 116, dark)
    elif name == "tree":
        box(56, 84, 72, 120, (120, 75, 40)), ellipse(18, 8, 110, 92)
    elif name == "flower":
        box(61, 70, 67, 122, (50, 140, 60))
        for x, y in around(6, 26, 0):
            ellipse(x - 17, y - 33, x + 17, y + 1)
        ellipse(50, 34, 78, 62, (250, 220, 90))
    elif name == "fish":
        ellipse(14, 36, 96, 94), polygon((84, 65), (120, 36), (120, 94)), ellipse(30, 52, 40, 62, (255, 255, 255)), ellipse(33, 55, 38, 60, (0, 0, 0))
    elif name == "boat":
        polygon((12, 86), (116, 86), (96, 114), (32, 114), fill=dark), polygon((60, 10), (60, 80), (16, 80)), polygon((66, 20), (66, 80), (108, 80))
    elif name == "balloon":
        ellipse(28, 8, 100, 92), polygon((64, 88), (56, 100), (72, 100), fill=dark), box(63, 98, 65, 124, (90, 90, 90))
    elif name == "mushroom":
        box(48, 62, 80, 118, (240, 225, 200)), d.pieslice([14 * n, 12 * n, 114 * n, 116 * n], 180, 360, fill=color)
        for x, y in ((40, 44), (66, 30), (88, 48)):
            ellipse(x - 7, y - 7, x + 7, y + 7, (255, 255, 255))
    elif name == "cup":
        ellipse(76, 44, 116, 86), ellipse(86, 54, 106, 76, clear), polygon((20, 30), (94, 30), (86, 108), (28, 108)), box(16, 108, 98, 114, dark)
    elif name == "umbrella":
        d.pieslice([8 * n, 14 * n, 120 * n, 126 * n], 180, 360, fill=color)
        for x in (8, 45, 83):
            ellipse(x, 62, x + 37, 80, clear)
        box(62, 60, 66, 112, (90, 60, 40)), d.arc([46 * n, 98 * n, 66 * n, 122 * n], 0, 180, fill=(90, 60, 40), width=4 * n)
    return np.asarray(image.convert("RGBa").resize((SIDE, SIDE), Image.Resampling.BOX).convert("RGBA"))


def gradient(top, bottom):
    t = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None, None]
    return np.broadcast_to((1 - t) * np.array(top, np.float32) + t * np.array(bottom, np.float32), (SIDE, SIDE, 3)).astype(np.uint8)


def background(name):
    if name in COLORS:
        return Image.new("RGB", (SIDE, SIDE), COLORS[name][0])
    sky = {"night": ((10, 14, 50), (40, 40, 100)), "sunset": ((90, 50, 130), (255, 150, 70)), "meadow": ((110, 185, 245), (200, 230, 255)),
           "snow": ((150, 190, 230), (215, 230, 245)), "beach": ((90, 180, 245), (190, 230, 250)), "water": ((60, 170, 210), (10, 60, 120)),
           "sky": ((80, 160, 240), (190, 225, 255)), "desert": ((120, 190, 235), (235, 225, 200))}[name]
    image = Image.fromarray(gradient(*sky))
    d = ImageDraw.Draw(image)
    ground = {"meadow": (95, 175, 70), "snow": (245, 248, 252), "beach": (240, 215, 150), "desert": (230, 180, 100), "sunset": (60, 35, 60)}.get(name)
    if ground:
        if name == "beach":
            d.rectangle([0, 76, SIDE, 96], fill=(40, 130, 200))
        d.rectangle([0, 92, SIDE, SIDE], fill=ground)
    spots = random.Random(name)
    for _ in range({"night": 22, "snow": 26, "water": 12}.get(name, 0)):
        x, y, r = spots.randrange(SIDE), spots.randrange(SIDE if name != "snow" else 90), spots.choice([1, 1, 1.6])
        d.ellipse([x - r, y - r, x + r, y + r], fill={"night": (255, 250, 210), "snow": (255, 255, 255), "water": (150, 215, 235)}[name])
    if name == "sky":
        for x, y in ((26, 28), (100, 50), (40, 104)):
            for dx, dy, r in ((-10, 2, 8), (0, -2, 11), (11, 2, 8)):
                d.ellipse([x + dx - r, y + dy - r, x + dx + r, y + dy + r], fill=(250, 252, 255))
    return image


def paint(scene, sprites):
    image = background(scene["bg"])
    centres, size = BOXES[scene["layout"]]
    if scene["frame"]:
        color = COLORS[scene["frame"]][0]
        d = ImageDraw.Draw(image)
        for i in range(11):
            d.rectangle([i, i, SIDE - 1 - i, SIDE - 1 - i], outline=color)
        size = 96
    for item, (x, y) in zip(scene["items"], centres):
        color = COLORS[item["color"]][0] if item["color"] else None
        if isinstance(item["what"], str):
            rgba = draw_shape(item["what"], color)
        else:
            rgba = np.asarray(sprites.pixels[item["what"]])
            rgba = tint(rgba, color) if color else rgba
        sprite = Image.fromarray(rgba)
        if size != 120:                     # sprites fill 120 of their 128 pixels
            side = round(size * SIDE / 120)
            sprite = sprite.convert("RGBa").resize((side, side), Image.Resampling.BICUBIC).convert("RGBA")
        image.paste(sprite, (x - sprite.width // 2, y - sprite.height // 2), sprite)
    return np.asarray(image)


# ---- telling -----------------------------------------------------------------------------------------------------------------

def article(phrase):
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def plural(name):
    if name.endswith(("s", "x", "ch", "sh")):
        return name if name.endswith("s") and not name.endswith("ss") else name + "es"
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    if name.endswith("mouse"):
        return name[:-5] + "mice"
    return name + "s"


def thing(sprites, item, rng, count=1):
    """One item in English, with an article or a number."""
    what = item["what"]
    name = sprites.name(what, "en")
    color = f"{item['color']} " if item["color"] else ""
    if count > 1:
        number = NUMBERS[count][0] if rng.random() < 0.8 else str(count)
        return f"{number} {color}{plural(name)}"
    if ":" in name or rng.random() < 0.15:
        return color + name
    return article(color + name)


def thing_zh(sprites, item, rng, count=1):
    name = sprites.name(item["what"], "zh")
    color = COLORS[item["color"]][1] if item["color"] else ""
    if color and rng.random() < 0.5:
        color = color.removesuffix("色") if rng.random() < 0.5 else color + "的"
    if count > 1:
        return NUMBERS[count][1] + rng.choice(["个", "个", "只"]) + color + name
    return ("一个" if rng.random() < 0.25 else "") + color + name


def keywords(sprites, what, rng, language):
    words = [w for w in sprites.entries[what]["keywords"].get(language, []) if w != sprites.name(what, language)]
    return rng.sample(words, min(len(words), rng.choice([1, 2, 2, 3])))


def tell(scene, sprites, rng):
    """A prompt for the scene."""
    items, layout, bg, frame = scene["items"], scene["layout"], scene["bg"], scene["frame"]
    what = items[0]["what"]
    clipart = not isinstance(what, str) and sprites.entries[what]["kind"] == "clipart"
    chinese = not clipart and rng.random() < 0.25
    say = thing_zh if chinese else thing
    one = say(sprites, items[0], rng)
    if layout in ("pair", "stack", "group"):
        other = say(sprites, items[-1], rng)

    if chinese:
        if layout == "pair":
            text = rng.choice(["{0}和{1}", "{0}和{1}", "{0}在{1}左边", "{0}与{1}"]).format(one, other)
        elif layout == "stack":
            text = rng.choice(["{0}在{1}上面", "{1}在{0}下面"]).format(one, other)
        elif layout == "group":
            text = f"{say(sprites, items[0], rng, 2)}和{other}"
        elif layout.startswith("count"):
            text = say(sprites, items[0], rng, len(items))
        elif layout in POSITIONS_ZH and bg not in PLACES:
            text = f"{POSITIONS_ZH[layout]}的{one}"
        else:
            text = ("小" if layout == "small" else "") + one
        if bg in PLACES:
            text = PLACES[bg][1] + text
        elif bg != "white" or rng.random() < 0.1:
            name = COLORS[bg][1]
            text = rng.choice(["{0}背景上的{1}", "{0}背景上的{1}", "{1}，{0}背景", "{0}背景的{1}"]).format(name, text)
        if frame:
            text = rng.choice(["{0}，{1}边框", "{1}边框里的{0}"]).format(text, COLORS[frame][1])
        if layout == "one" and bg == "white" and not frame and not isinstance(what, str):
            if rng.random() < 0.2 and (words := keywords(sprites, what, rng, "zh")):
                text += "，" + "，".join(words)
            elif rng.random() < 0.1:
                text += "表情"
        return text

    if layout == "pair":
        text = rng.choice(["{0} and {1}", "{0} and {1}", "{0} next to {1}", "{0} beside {1}", "{0} to the left of {1}"]).format(one, other)
    elif layout == "stack":
        text = rng.choice(["{0} above {1}", "{1} below {0}", "{0} over {1}"]).format(one, other)
    elif layout == "group":
        text = f"{say(sprites, items[0], rng, 2)} and {other}"
    elif layout.startswith("count"):
        text = say(sprites, items[0], rng, len(items))
    elif layout == "small":
        color = f"{items[0]['color']} " if items[0]["color"] else ""
        text = f"a {rng.choice(['small', 'tiny', 'little'])} {color}{sprites.name(what, 'en')}"
    elif layout in POSITIONS and bg not in PLACES:
        where = f"in the {layout} corner" if " " in layout else f"at the {layout}" if layout in ("top", "bottom") else f"on the {layout}"
        text = f"{one} {where}"
    else:
        text = one
    if frame:
        text = rng.choice(["{0} in a {1} frame", "{0} with a {1} frame"]).format(text, frame)
    if bg in PLACES:
        text += " " + PLACES[bg][0]
    elif bg != "white" or rng.random() < 0.1:
        text = rng.choice(["{0} on a {1} background", "{0} on a {1} background", "{0} on {1}", "{0}, {1} background", "{1} background with {0}"]).format(text, bg)
        text = text.replace("on a orange", "on an orange")
    elif layout == "one" and not frame and not isinstance(what, str) and not items[0]["color"]:
        name = sprites.name(what, "en")
        r = rng.random()
        if clipart:
            text = rng.choice(["clip art of {0}", "a drawing of {0}", "{0} clip art"]).format(name)
        elif r < 0.35:
            text = name
        elif r < 0.5:
            text = rng.choice(["{0} emoji", "an emoji of {0}", "a picture of {0}", "an icon of {0}"]).format(name)
        if r > 0.8 and (words := keywords(sprites, what, rng, "en")):
            text = ", ".join([text, *words])
    if clipart and "clip art" not in text and "drawing" not in text:
        text += rng.choice([", clip art", ", clip art", " drawing"])
    return text
