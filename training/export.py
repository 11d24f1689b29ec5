"""Write the model as one SD 1.5 file (float16 safetensors), say what the rounding costs, and check that danqing paints what PyTorch paints.

The averaged weights are dumped under their original names; sizes, defaults, origin and licence stand in the metadata.
"""
import argparse
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file

from common import WORK, load
from denoiser import alphas, prompts
from latents import Latents
from model import CONFIG, SIZE
from sample import CFG, STEPS, from_checkpoints, from_file
from scenes import Sprites
from tokenizer import Tokenizer

RECIPE = "2"        # change it when the data or the networks change
OUT = Path(__file__).parent.parent / "models/danqing-small.safetensors"
DESCRIPTION = ("Draws small pictures in the style of emoji: animals, food, faces, objects, flags and plain shapes, in a colour, on a coloured background, "
               "in twos and threes or side by side, from short prompts in English or Chinese.")
EARLY = "An early state, after {pictures} pictures of training: patches of colour, no things yet. Meant to become a model that does this: "
ENOUGH = 200_000     # pictures; look at a contact sheet before you change it
DATA = ("Noto Color Emoji (Debian fonts-noto-color-emoji 2.042, SIL Open Font License 1.1, Google); names and keywords from Unicode CLDR 41 "
        "(Debian unicode-cldr-core, Unicode License); Open Clip Art Library (Debian openclipart-svg 0.18, public domain); scenes and shapes drawn by the recipe.")


def metadata(state):
    return {
        "format": "pt",
        "danqing.config": json.dumps(CONFIG),
        "danqing.name": "danqing-small",
        "danqing.description": (EARLY.format(**state) if state["pictures"] < ENOUGH else "") + DESCRIPTION,
        "danqing.license": "SIL Open Font License 1.1, as a work derived from Noto Color Emoji",
        "danqing.data": DATA,
        "danqing.defaults": json.dumps({"width": SIZE, "height": SIZE, "steps": STEPS, "cfg": CFG, "sampler": "dpmpp_2m", "schedule": "normal"}),
        "danqing.training": json.dumps({k: state[k] for k in ("step", "pictures", "seed")} | {"recipe": RECIPE}),
        "modelspec.architecture": "stable-diffusion-v1",
        "modelspec.title": "danqing-small",
        "modelspec.prediction_type": "v",
    }


def tensors(model, vae):
    out = {f"cond_stage_model.transformer.text_model.{k}": v for k, v in model.text.state_dict().items()}
    out |= {f"model.diffusion_model.{k}": v for k, v in model.unet.state_dict().items()}
    out |= {f"first_stage_model.{k}": v for k, v in vae.state_dict().items()}
    return {k: v.half().contiguous() for k, v in out.items()}


@torch.no_grad()
def loss(model, data, sprites, tokenizer):
    """The training loss on a fixed set of latents, prompts, times and noise."""
    rng = random.Random("loss")
    torch.manual_seed(0)
    bar = alphas()
    signal, noise_level = bar.sqrt().float(), (1 - bar).sqrt().float()
    total, rounds = 0.0, 3
    for _ in range(rounds):
        latents, scenes = data.batch(rng, 32, 0.4)
        ids = torch.tensor(tokenizer.rows(prompts(scenes, sprites, rng, tokenizer, 77)))
        t = (torch.arange(32) * 1000 / 32 + 15).long()
        a, s = signal[t][:, None, None, None], noise_level[t][:, None, None, None]
        noise = torch.randn_like(latents)
        total += F.mse_loss(model(a * latents + s * noise, t, ids), a * noise - s * latents).item()
    return total / rounds


@torch.no_grad()
def paint_ddim(model, vae, tokenizer, text, seed, steps, cfg):
    """DDIM as diffusers runs SD 1.5: times 901, 801, ... 1 for ten steps; the last ends at the noise of time 0."""
    bar = alphas()
    context = model.text(torch.tensor(tokenizer.rows(["", text])))
    x = torch.randn(1, 4, SIZE // 8, SIZE // 8, generator=torch.Generator().manual_seed(seed))
    for t in range((steps - 1) * (1000 // steps) + 1, 0, -(1000 // steps)):
        empty, given = model.unet(torch.cat([x, x]), torch.full((2,), t), context).chunk(2)
        v = empty + cfg * (given - empty)
        a, s = bar[t].sqrt().float(), (1 - bar[t]).sqrt().float()
        after = bar[max(t - 1000 // steps, 0)]
        x = after.sqrt().float() * (a * x - s * v) + (1 - after).sqrt().float() * (s * x + a * v)
    return (vae.decode(x)[0].clamp(-1, 1) * 127.5 + 127.5).round().permute(1, 2, 0).numpy()


def compare(binary, path, model, vae, tokenizer):
    """The largest and the mean difference between danqing's picture and PyTorch's from the same noise, of 255."""
    options = {"text": "a red apple on a blue background", "seed": 7, "steps": 10, "cfg": 3}
    expected = paint_ddim(model, vae, tokenizer, **options)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "picture.png"
        subprocess.run([binary, "paint", options["text"], "-m", path, "-o", out, "-q", "--like", "diffusers", "--rng", "cpu", "--sampler", "ddim",
                        "--precision", "f32", *(f"--{k}={options[k]}" for k in ("seed", "steps", "cfg"))], check=True, stdout=subprocess.DEVNULL)
        painted = np.asarray(Image.open(out).convert("RGB"), dtype=np.float32)
    difference = np.abs(painted - expected)
    return difference.max(), difference.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--danqing", metavar="PATH", help="the danqing binary, to compare its picture with PyTorch's")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, vae, step = from_checkpoints(args.work)
    state = load(args.work / "denoiser.pt")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = args.out.with_suffix(".tmp")
    save_file(tensors(model, vae), temporary, metadata(state))
    temporary.chmod(0o644)
    os.replace(temporary, args.out)

    sprites, tokenizer = Sprites(args.work), Tokenizer()
    data = Latents(args.work, sprites, state["seed"])
    data.add_shard()
    rounded, rounded_vae, _ = from_file(args.out)
    full, half = (loss(m, data, sprites, tokenizer) for m in (model, rounded))
    with torch.no_grad():
        z = data.plain[0][:32].float()
        change = (vae.decode(z) - rounded_vae.decode(z)).abs().mean().item() * 127.5
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB after {step} steps, {state['pictures']} pictures seen")
    print(f"loss {full:.5f} in float32, {half:.5f} in float16; the decoder's pictures change by {change:.3f} of 255 on average")
    if args.danqing:
        largest, mean = compare(args.danqing, args.out, rounded, rounded_vae, tokenizer)
        print(f"danqing's picture differs from PyTorch's by {mean:.3f} of 255 on average, {largest:.0f} at most")
        if largest > 4:
            raise SystemExit("danqing and PyTorch do not paint the same picture")


if __name__ == "__main__":
    main()
