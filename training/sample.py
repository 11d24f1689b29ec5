"""Paint with PyTorch, for looking at what has been learned: a contact sheet of prompts.

Takes the trainers' checkpoints, or an exported file with `--model`. DPM-Solver++ (2M) from pure noise to a clean picture.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from common import WORK, load, load_model_file
from denoiser import Model, alphas
from latents import frozen_vae
from model import SIZE, VAE
from tokenizer import Tokenizer

STEPS, CFG = 20, 3.0
PROMPTS = """a fox|a red apple|cat|a blue umbrella on a yellow background|two cats and a moon|a rocket on a black background
a green star on a pink background|three strawberries|a penguin in the snow|a sailboat at sunset|pizza|flag: Japan
grinning face|a purple dragon|a tree and a house|an owl at night|a hamburger on blue|a yellow car on a green background
一只猫|红苹果|蓝色背景上的狐狸|两个蘑菇|雪地里的狗|向日葵
a small dog in the top left corner|a crown in a red frame|a pink heart on a black background|four lemons|a guitar next to a drum|a whale under water
crying face|a robot|a rainbow|a cup of coffee|santa claus|an orange fish on a white background""".replace("\n", "|").split("|")


def from_checkpoints(work):
    model = Model()
    state = load(work / "denoiser.pt")
    model.load_state_dict(state["average"])
    return model.eval(), frozen_vae(work), state["step"]


def from_file(path):
    model, vae = Model(), VAE()
    model.text.load_state_dict({k: v for k, v in load_model_file(path, "cond_stage_model.transformer.text_model.").items() if "position_ids" not in k})
    model.unet.load_state_dict(load_model_file(path, "model.diffusion_model."))
    vae.load_state_dict(load_model_file(path, "first_stage_model."))
    return model.eval(), vae.eval(), 0


@torch.no_grad()
def sample(model, texts, seeds, tokenizer, steps=STEPS, cfg=CFG):
    bar = alphas().numpy()
    # As diffusers' "trailing" spacing: the first step is the last timestep, the end is the clean picture.
    times = np.round(np.arange(1000, 0, -1000 / steps)).astype(int) - 1
    signal, noise_level = np.sqrt(bar[times]), np.sqrt(1 - bar[times])
    logsnr = np.log(signal / noise_level)
    context = model.text(torch.tensor(tokenizer.rows([""] * len(texts) + list(texts))))
    x = torch.cat([torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(s)) for s in seeds])
    previous = None
    for i, t in enumerate(times):
        v = model.unet(torch.cat([x, x]), torch.full((2 * len(x),), int(t)), context)
        empty, given = v.chunk(2)
        v = empty + cfg * (given - empty)
        clean = float(signal[i]) * x - float(noise_level[i]) * v
        if i == steps - 1:
            return clean
        h = logsnr[i + 1] - logsnr[i]
        direction = clean
        if previous is not None:
            r = (logsnr[i] - logsnr[i - 1]) / h
            direction = clean + (clean - previous) / (2 * float(r))
        x = float(noise_level[i + 1] / noise_level[i]) * x - float(signal[i + 1] * np.expm1(-h)) * direction
        previous = clean


@torch.no_grad()
def pictures(model, vae, texts, seeds, tokenizer, **options):
    out = []
    for at in range(0, len(texts), 16):
        latents = sample(model, texts[at : at + 16], seeds[at : at + 16], tokenizer, **options)
        pixels = (vae.decode(latents).clamp(-1, 1) * 127.5 + 127.5).round().byte()
        out += list(pixels.permute(0, 2, 3, 1).numpy())
    return out


def sheet(images, labels, columns=12):
    rows = -(-len(images) // columns)
    out = Image.new("RGB", (columns * (SIZE + 6), rows * (SIZE + 20)), (255, 255, 255))
    draw = ImageDraw.Draw(out)
    try:
        font = ImageFont.truetype("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", 9)
    except OSError:
        font = ImageFont.load_default(9)
    for i, (image, label) in enumerate(zip(images, labels)):
        x, y = i % columns * (SIZE + 6), i // columns * (SIZE + 20)
        out.paste(Image.fromarray(image), (x + 3, y + 3))
        draw.text((x + 3, y + SIZE + 4), label[:26], fill=(0, 0, 0), font=font)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", nargs="*", default=PROMPTS)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--model", type=Path, help="an exported file instead of the checkpoints")
    parser.add_argument("--out", type=Path, default=Path("sheet.png"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--cfg", type=float, default=CFG)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, vae, step = from_file(args.model) if args.model else from_checkpoints(args.work)
    seeds = [args.seed + i for i in range(len(args.prompts))]
    images = pictures(model, vae, args.prompts, seeds, Tokenizer(), steps=args.steps, cfg=args.cfg)
    sheet(images, args.prompts).save(args.out)
    print(f"{args.out}: {len(images)} pictures" + (f" after {step} steps" if step else ""))


if __name__ == "__main__":
    main()
