"""Measure what the model draws, on fixed seeds, and write the table into README.md.

1. Names: 200 emoji names spread over all groups. The picture's nearest neighbour among all emoji must be the named one, or one of its
   subgroup. The feature space is made of colours, edges and the VAE's latent; it knows nothing of names.
2. Colours: 100 combinations of thing, colour and background that training never saw. Both colours must be right.
3. The names of (1) in Chinese.
4. A contact sheet of 48 prompts drawn by lot.

Pictures are painted by danqing (`--danqing PATH`), or by PyTorch (`--torch`).
"""
import argparse
import random
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from common import WORK
from export import OUT
from sample import from_checkpoints, from_file, pictures, sheet
from scenes import COLORS, SHAPES, SIDE, Sprites, held_out, paint, plain_scene, random_scene, tell
from tokenizer import Tokenizer
from vae import latents

README = Path(__file__).parent / "README.md"


# ---- features ----------------------------------------------------------------------------------------------------------------

def edges(images):
    """Histograms of eight gradient directions in 8 x 8 cells."""
    grey = images.mean(3)
    dy, dx = np.gradient(grey, axis=(1, 2))
    size, angle = np.hypot(dx, dy), np.arctan2(dy, dx)
    bins = ((angle + np.pi) / (2 * np.pi) * 8).astype(int) % 8
    out = np.stack([np.where(bins == b, size, 0) for b in range(8)], axis=3)
    n = len(images)
    return out.reshape(n, 8, 16, 8, 16, 8).mean((2, 4)).reshape(n, -1) ** 0.5


@torch.no_grad()
def blocks(images, vae):
    """Three descriptions of each picture: colours on a 16 x 16 grid, edges, latents."""
    images = np.stack(images).astype(np.float32) / 255
    n = len(images)
    colors = images.reshape(n, 16, 8, 16, 8, 3).mean((2, 4)).reshape(n, -1)
    x = torch.from_numpy(images).permute(0, 3, 1, 2) * 2 - 1
    return [colors, edges(images), latents(vae, x).flatten(1).numpy()]


class Neighbours:
    def __init__(self, sprites, vae):
        self.sprites, self.vae = sprites, vae
        known = blocks([paint(plain_scene(i), sprites) for i in sprites.emoji], vae)
        # Every description counts the same: each is scaled by how far two emoji lie apart in it on average.
        self.scales = [np.sqrt(2 * b.var(0).sum()) for b in known]
        self.known = np.hstack([b / s for b, s in zip(known, self.scales)])

    def nearest(self, images):
        found = np.hstack([b / s for b, s in zip(blocks(images, self.vae), self.scales)])
        distance = (found**2).sum(1)[:, None] - 2 * found @ self.known.T + (self.known**2).sum(1)
        return [self.sprites.emoji[i] for i in distance.argmin(1)]


# ---- colours -----------------------------------------------------------------------------------------------------------------

def lab(rgb):
    rgb = np.asarray(rgb, np.float64) / 255
    rgb = np.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    xyz = rgb @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)


PALETTE = lab([c for c, _ in COLORS.values()])


def color_name(pixels):
    """The basic colour that is nearest to a pixel's for most pixels; brightness counts half, as drawings have shades."""
    d = (lab(pixels).reshape(-1, 1, 3) - PALETTE) * [0.5, 1, 1]
    votes = np.bincount((d**2).sum(-1).argmin(1), minlength=len(PALETTE))
    return list(COLORS)[votes.argmax()]


def judge(image):
    """(colour of the object, colour of the background): the border is background, what differs from it is the object."""
    border = np.concatenate([image[:3].reshape(-1, 3), image[-3:].reshape(-1, 3), image[:, :3].reshape(-1, 3), image[:, -3:].reshape(-1, 3)])
    background = np.median(border, axis=0)
    distance = np.linalg.norm(lab(image) - lab(background), axis=-1)
    other = image[distance > 20]
    return color_name(other) if len(other) > 200 else None, color_name(background[None])


def unseen(sprites, rng, count):
    """Combinations that training leaves out: half of them shapes drawn by code, half tinted emoji."""
    out = []
    while len(out) < count:
        what = rng.choice(list(SHAPES)) if len(out) % 2 else rng.choice(sprites.things)
        color, bg = rng.sample(list(COLORS), 2)
        if held_out(sprites.key(what), color, bg):
            out.append({"items": [{"what": what, "color": color}], "layout": "one", "bg": bg, "frame": None})
    return out


# ---- painters ----------------------------------------------------------------------------------------------------------------

def paint_with_danqing(binary, model):
    def run(texts, seeds):
        out = []
        with tempfile.TemporaryDirectory() as folder:
            for text, seed in zip(texts, seeds):
                path = Path(folder) / "picture.png"
                subprocess.run([binary, "paint", text, "-m", model, "-o", path, "--seed", str(seed), "--size", f"{SIDE}x{SIDE}"], check=True,
                               stdout=subprocess.DEVNULL)
                out.append(np.asarray(Image.open(path).convert("RGB")))
        return out
    return run


def share(hits):
    return f"{100 * np.mean(hits):.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--model", type=Path, default=OUT)
    painter = parser.add_mutually_exclusive_group(required=True)
    painter.add_argument("--danqing", metavar="PATH", help="the danqing binary")
    painter.add_argument("--torch", action="store_true", help="paint with PyTorch from the exported file")
    painter.add_argument("--checkpoints", action="store_true", help="paint with PyTorch from the trainers' checkpoints")
    parser.add_argument("--names", type=int, default=200)
    parser.add_argument("--colors", type=int, default=100)
    parser.add_argument("--sheet", type=Path, default=Path("contact-sheet.png"))
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sprites, tokenizer = Sprites(args.work), Tokenizer()
    model, vae, _ = from_checkpoints(args.work) if args.checkpoints else from_file(args.model)
    run = paint_with_danqing(args.danqing, args.model) if args.danqing else lambda texts, seeds: pictures(model, vae, texts, seeds, tokenizer)
    rows = []

    def row(measure, goal, value):
        rows.append(f"| {measure} | {goal} | {value} |")
        print(rows[-1], flush=True)

    rng = random.Random("names")
    groups = sorted({sprites.entries[i]["group"] for i in sprites.emoji})
    members = {g: rng.sample(m := [i for i in sprites.emoji if sprites.entries[i]["group"] == g], len(m)) for g in groups}
    wanted = [members[groups[n % len(groups)]].pop() for n in range(args.names)]
    neighbours = Neighbours(sprites, vae)
    for language, goal in (("en", "60 %"), ("zh", "half of the English")):
        found = neighbours.nearest(run([sprites.name(i, language) for i in wanted], [1000 + n for n in range(len(wanted))]))
        same = [a == b for a, b in zip(found, wanted)]
        family = [sprites.entries[a]["subgroup"] == sprites.entries[b]["subgroup"] for a, b in zip(found, wanted)]
        row(f"names ({language}): nearest is the named emoji or of its subgroup", goal, share(family))
        row(f"names ({language}): nearest is the named emoji itself", "", share(same))

    scenes = unseen(sprites, random.Random("colors"), args.colors)
    texts = [f"a {s['items'][0]['color']} {sprites.name(s['items'][0]['what'], 'en')} on a {s['bg']} background" for s in scenes]
    asked = [(s["items"][0]["color"], s["bg"]) for s in scenes]
    for label, images in (("", run(texts, [5000 + n for n in range(len(texts))])), (" in pictures that the recipe painted itself", [paint(s, sprites) for s in scenes])):
        seen = [judge(i) for i in images]
        both, thing, ground = ([f(a, b) for a, b in zip(seen, asked)] for f in (lambda a, b: a == b, lambda a, b: a[0] == b[0], lambda a, b: a[1] == b[1]))
        row(f"unseen colours{label}: both right (object, background)", "90 %" if not label else "", f"{share(both)} ({share(thing)}, {share(ground)})")

    rng = random.Random("sheet")
    drawn = [plain_scene(rng.choice(sprites.emoji)) if n % 2 else random_scene(sprites, rng) for n in range(48)]
    texts = [tell(s, sprites, rng) for s in drawn]
    sheet(run(texts, [9000 + n for n in range(48)]), texts).save(args.sheet)
    if args.write:
        table = "\n".join(["| measure | goal | measured |", "| --- | --- | --- |", *rows])
        text = README.read_text()
        README.write_text(re.sub(r"(<!-- table -->\n).*?(<!-- end of table -->)", lambda m: f"{m[1]}{table}\n{m[2]}", text, flags=re.S))


if __name__ == "__main__":
    main()
