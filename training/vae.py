"""Train the VAE: pictures of 128x128 to latents of 16x16x4 and back.

It trains on random 64x64 crops of scenes, which costs a quarter of whole pictures, and at the end on whole pictures (the
group norms and the attention see other statistics there). At the end the latents are moved to zero mean and unit variance by rewriting the two 1x1 convolutions at the bottleneck, so the model
works with the scaling factor that every SD 1.5 file has. After that the encoder must not change any more (the denoiser is trained on
its latents); `--decoder-only` trains on from there.
"""
import argparse
import math
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from common import Average, Stop, Workers, add_common, load, load_model_file, save, setup
from model import SCALE, VAE, Upsample, VaeAttention, VaeDownsample, VaeResBlock
from scenes import Sprites, paint, plain_scene, random_scene

CROP = 64


def whole(sprites, rng, count):
    pictures = [paint(plain_scene(rng.choice(sprites.emoji)) if rng.random() < 0.25 else random_scene(sprites, rng), sprites) for _ in range(count)]
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 127.5 - 1


def crops(sprites, rng, count):
    """Crops of painted scenes; one scene serves several crops, as painting it costs more than cutting."""
    out = []
    while len(out) < count:
        picture = paint(random_scene(sprites, rng), sprites)
        for _ in range(2):
            x, y = (rng.choice([0, rng.randrange(65), 64]) for _ in "xy")
            crop = picture[y : y + CROP, x : x + CROP]
            out.append(crop[:, ::-1] if rng.random() < 0.5 else crop)
    rng.shuffle(out)
    batch = torch.from_numpy(np.stack(out[:count])).permute(0, 3, 1, 2).float()
    return batch / 127.5 - 1


def reconstruction_loss(a, b):
    """Absolute differences at four sizes (the small ones carry the colours), and of neighbouring pixels so that edges stay sharp."""
    loss = 0
    for plain, edge in ((1, 0.5), (1, 0.5), (1, 0), (2, 0)):
        d = a - b
        loss = loss + plain * d.abs().mean()
        if edge:
            loss = loss + edge * ((d[..., 1:] - d[..., :-1]).abs().mean() + (d[..., 1:, :] - d[..., :-1, :]).abs().mean())
        a, b = F.avg_pool2d(a, 2), F.avg_pool2d(b, 2)
    return loss + 2 * F.mse_loss(a, b)


@torch.no_grad()
def start_simple(vae):
    """Begin as plain averaging and enlarging: far faster than finding out about colours from random weights."""
    for m in vae.modules():
        if isinstance(m, VaeResBlock):
            nn.init.zeros_(m.conv2.weight)
        elif isinstance(m, VaeAttention):
            nn.init.zeros_(m.proj_out.weight)
        elif isinstance(m, Upsample):
            nn.init.dirac_(m.conv.weight)
        elif isinstance(m, VaeDownsample):
            m.conv.weight.zero_()
            for i in range(len(m.conv.weight)):
                m.conv.weight[i, i, :2, :2] = 0.25
    # Little noise at first, or it drowns the colours before they are worth anything.
    n = vae.post_quant_conv.weight.shape[0]
    for conv in (vae.quant_conv, vae.post_quant_conv):
        nn.init.dirac_(conv.weight)
        conv.bias.zero_()
    vae.quant_conv.weight[n:] = 0
    vae.quant_conv.bias[n:] = -5
    nn.init.orthogonal_(vae.encoder.conv_out.weight, gain=2)


@torch.no_grad()
def normalise(vae, sprites, rng):
    """Give the latents zero mean and unit variance in every channel (after SCALE) without changing what is decoded."""
    pictures = np.stack([paint(random_scene(sprites, rng), sprites) for _ in range(256)])
    pictures = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1
    z = torch.cat([vae.moments(p)[0] for p in pictures.split(32)])
    mean, std = z.mean((0, 2, 3)), z.std((0, 2, 3))
    n = len(mean)
    gain = 1 / (SCALE * std)
    quant, post = vae.quant_conv, vae.post_quant_conv
    # z' = (z - mean) * gain comes out of quant_conv; post_quant_conv undoes it: z = z' / gain + mean.
    quant.bias[:n] = (quant.bias[:n] - mean) * gain
    quant.weight[:n] *= gain[:, None, None, None]
    quant.bias[n:] += 2 * gain.log()            # the variances follow
    post.bias += (post.weight[:, :, 0, 0] * mean).sum(1)
    post.weight /= gain[None, :, None, None]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common(parser, steps=8000, batch=4, rate=2e-3)
    parser.add_argument("--decoder-only", action="store_true", help="keep the encoder as it is and train the decoder on")
    parser.add_argument("--kl", type=float, default=3e-4, help="weight of the latents' distance from a unit normal")
    args = parser.parse_args()
    setup(args)
    sprites = Sprites(args.work)
    vae = VAE()
    start_simple(vae)
    average = Average(vae, 0.997)
    # A second run for the decoder has a file and a step count of its own.
    name = "vae-decoder" if args.decoder_only else "vae"
    if args.decoder_only:
        for p in (*vae.encoder.parameters(), *vae.quant_conv.parameters()):
            p.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in vae.parameters() if p.requires_grad], lr=args.rate, betas=(0.9, 0.99), weight_decay=1e-4, fused=True)
    step = 0
    if state := load(args.work / f"{name}.pt"):
        if state["finished"]:
            print(f"{name}.pt is finished")
            return
        vae.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    elif args.resume_from:
        vae.load_state_dict(load_model_file(args.resume_from, "first_stage_model."))
        average = Average(vae, 0.997)
    elif args.decoder_only:
        vae.load_state_dict(load(args.work / "vae.pt")["average"])
        average = Average(vae, 0.997)

    def checkpoint():
        save(args.work / f"{name}.pt", model=vae.state_dict(), average=average.state_dict(), optimizer=optimizer.state_dict(), step=step,
             finished=step >= args.steps)

    def gradient(step, rank):
        rng = random.Random(f"{args.seed} {name} {step} {rank}")
        torch.manual_seed(rng.randrange(2**31))
        share = max(1, args.batch // args.workers)
        pictures = crops(sprites, rng, share) if step < 0.92 * args.steps else whole(sprites, rng, max(1, share // 4))
        mean, logvar = vae.moments(pictures)
        logvar = logvar.clamp(-20, 10)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        loss = reconstruction = reconstruction_loss(vae.decoder(vae.post_quant_conv(z)), pictures)
        if not args.decoder_only:
            loss = loss + args.kl * 0.5 * (mean.square() + logvar.exp() - 1 - logvar).mean()
        loss.backward()
        return reconstruction.item()

    workers = Workers(vae, gradient, args.workers)
    started = saved = time.time()
    first, shown = step, 0.0
    stop = Stop()
    while step < args.steps and not stop:
        for g in optimizer.param_groups:
            g["lr"] = args.rate * min(1, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / args.steps)))
        shown += workers.step(step)
        optimizer.step()
        step += 1
        average.update(vae)
        if step % 25 == 0:
            print(f"vae step {step}/{args.steps}  loss {shown / 25:.4f}  {(step - first) / (time.time() - started):.2f} steps/s", flush=True)
            shown = 0.0
        if time.time() - saved > 120 and step < args.steps:
            checkpoint()
            saved = time.time()
    if step >= args.steps and not args.decoder_only:
        vae.load_state_dict(average.state_dict())
        normalise(vae, sprites, random.Random(args.seed))
        average = Average(vae, 0.997)
    checkpoint()


if __name__ == "__main__":
    main()
