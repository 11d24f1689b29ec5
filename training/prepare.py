"""Prepare the pictures: render every emoji and the chosen clip art once, and write down what they are called.

Reads Debian packages only: fonts-noto-color-emoji, unicode-cldr-core and openclipart-svg (with rsvg-convert from librsvg2-bin).
Writes to the working folder:
  sprites.npy    uint8, N x 128 x 128 x 4: red, green, blue, alpha
  sprites.json   for each of them: kind, names and keywords by language, group, subgroup
"""
import argparse
import hashlib
import io
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from scenes import SIDE

FONT = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
CLDR = Path("/usr/share/unicode/cldr/common")
CLIPART = Path("/usr/share/openclipart/svg")
STRIKE = 109        # the one size that the font's bitmaps come in
SKIN = set(map(chr, range(0x1F3FB, 0x1F400)))
LANGUAGES = ("en", "zh")
# Folders of things with a look of their own; icons, arrows, stars, patterns and the like are left out.
CLIPART_FOLDERS = ("animals", "buildings", "containers", "education", "electronics", "food", "office", "plants", "recreation/music",
                   "recreation/sports", "recreation/toys", "recreation/holiday", "science", "tools", "transportation/vehicles",
                   "transportation/boating", "transportation/air", "people/clothing", "people/bodypart", "signs_and_symbols/weather",
                   "computer/hardware")


def plain(text):
    return text.replace("\ufe0f", "")


def fit(picture, box=SIDE - 8):
    """Crop to what is drawn and centre it on a square, never enlarging by more than half."""
    bounds = picture.getchannel("A").point(lambda a: 255 * (a > 8)).getbbox()
    if bounds is None:
        return None
    picture = picture.crop(bounds)
    scale = min(box / max(picture.size), 1.5)
    size = [max(1, round(s * scale)) for s in picture.size]
    picture = picture.convert("RGBa").resize(size, Image.Resampling.LANCZOS).convert("RGBA")
    out = Image.new("RGBA", (SIDE, SIDE))
    out.paste(picture, ((SIDE - size[0]) // 2, (SIDE - size[1]) // 2))
    return np.asarray(out)


def annotations(language):
    names, keywords = {}, {}
    for folder in ("annotationsDerived", "annotations"):
        for e in ET.parse(CLDR / folder / f"{language}.xml").iter("annotation"):
            if e.text in (None, "↑↑↑"):
                continue
            key = plain(e.get("cp"))
            if e.get("type") == "tts":
                names[key] = e.text.strip()
            else:
                keywords[key] = [k.strip() for k in e.text.split("|")]
    return names, keywords


def groups():
    """Character -> (group, subgroup) from CLDR's labels: lists of characters, ranges and {sequences}."""
    out = {}
    for line in (CLDR / "properties/labels.txt").read_text().splitlines():
        if line.startswith("#") or ";" not in line:
            continue
        members, group, subgroup = (part.strip() for part in line.split(";"))
        for sequence, first, last in re.findall(r"\{([^}]*)\}|(.)(?:-(.))?", members[1:-1]):
            for c in [sequence] if sequence else map(chr, range(ord(first), ord(last or first) + 1)):
                out[plain(c)] = (group, subgroup)
    return out


def emoji():
    font = ImageFont.truetype(FONT, STRIKE, layout_engine=ImageFont.Layout.RAQM)
    names = {lang: annotations(lang) for lang in LANGUAGES}
    where = groups()
    missing = draw(font, "\U000fffff")
    seen = set()
    for char, name in names["en"][0].items():
        if any(s in char for s in SKIN) and len(char) > 1:
            continue            # one picture a person, in the colour the font gives by default
        bitmap = draw(font, char)
        if bitmap is None or (missing is not None and np.array_equal(bitmap, missing)):
            continue
        sprite = fit(Image.fromarray(bitmap))
        if sprite is None or (digest := hashlib.sha1(sprite.tobytes()).digest()) in seen:
            continue
        seen.add(digest)
        group, subgroup = where.get(char) or where.get(char[0]) or ("Other", "other")
        yield sprite, {"kind": "emoji", "char": char, "group": group, "subgroup": subgroup,
                       "names": {lang: n[char] for lang, (n, _) in names.items() if char in n},
                       "keywords": {lang: k[char] for lang, (_, k) in names.items() if char in k}}


def draw(font, text):
    """One glyph as RGBA, or None where the font has no single colour picture for the text."""
    if font.getlength(text) > 1.5 * 136 or font.getlength(text) < 100:
        return None
    canvas = Image.new("RGBA", (160, 160))
    ImageDraw.Draw(canvas).text((8, 8), text, font=font, embedded_color=True)
    pixels = np.array(canvas)
    return pixels if pixels[..., 3].any() else None


def clipart():
    seen = set()
    for path in sorted(CLIPART.rglob("*.svg")):
        folder = path.relative_to(CLIPART).parent.as_posix()
        if not folder.startswith(CLIPART_FOLDERS) or path.stat().st_size > 200_000:
            continue
        data = path.read_bytes()
        digest = hashlib.sha1(data).digest()
        if digest in seen:
            continue
        seen.add(digest)
        text = data.decode("utf-8", "replace")
        if "PublicDomain" not in text and "publicdomain" not in text:
            continue
        title = re.search(r"<dc:title>([^<]*)</dc:title>", text)
        title = re.sub(r"[\d_.\-]+", " ", title.group(1)).strip().lower() if title else ""
        tags = [t.strip().lower() for t in re.findall(r"<rdf:li>([^<]*)</rdf:li>", text)]
        tags = [t for t in tags if re.fullmatch(r"[a-z][a-z ]{1,20}", t) and "clip" not in t and "svg" not in t]
        if not re.fullmatch(r"[a-z][a-z ']{2,30}", title) or not tags:
            continue
        try:
            png = subprocess.run(["rsvg-convert", "-w", "160", "-h", "160", "-a", path], capture_output=True, timeout=5, check=True).stdout
            sprite = fit(Image.open(io.BytesIO(png)).convert("RGBA"))
        except (subprocess.SubprocessError, OSError):
            continue
        if sprite is None or (sprite[..., 3] > 128).mean() < 0.05 or (sprite[..., 3] > 250).mean() > 0.85:
            continue            # thin outlines, and drawings that bring their own background
        yield sprite, {"kind": "clipart", "file": f"{folder}/{path.name}", "group": folder.split("/")[0], "subgroup": folder,
                       "names": {"en": " ".join(title.split())}, "keywords": {"en": tags}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("~/.cache/danqing/training").expanduser(), help="working folder")
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    sprites, entries = [], []
    for source in (emoji, clipart):
        for sprite, entry in source():
            sprites.append(sprite)
            entries.append(entry)
        np.save(work / "sprites.npy", np.stack(sprites))
        (work / "sprites.json").write_text(json.dumps(entries, ensure_ascii=False, indent=0))
        print(f"{source.__name__}: {sum(e['kind'] == source.__name__ for e in entries)} pictures", flush=True)


if __name__ == "__main__":
    main()
