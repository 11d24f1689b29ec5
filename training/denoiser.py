"""Train the text encoder and the U-Net together on cached latents, predicting v.

Stop it whenever you like: it goes on from its last checkpoint. Every batch depends on the seed and the step alone.
"""
import argparse
import math
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

from common import Average, Stop, Workers, add_common, load, load_model_file, save, setup
from latents import Latents
from model import CONFIG, TextEncoder, UNet, count
from scenes import Sprites, tell
from tokenizer import LENGTH, Tokenizer

SHORT = 24          # nearly all prompts fit: batches of this length cost the text encoder a third


def alphas():
    c = CONFIG["scheduler"]
    betas = torch.linspace(c["beta_start"] ** 0.5, c["beta_end"] ** 0.5, c["num_train_timesteps"], dtype=torch.float64) ** 2
    return torch.cumprod(1 - betas, dim=0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.text, self.unet = TextEncoder(), UNet()

    def forward(self, latents, t, ids):
        return self.unet(latents, t, self.text(ids))


def prompts(scenes, sprites, rng, tokenizer, length):
    out = []
    for scene in scenes:
        if rng.random() < 0.1:
            out.append("")              # without a prompt, so that guidance has something to lead away from
            continue
        for _ in range(5):
            text = tell(scene, sprites, rng)
            if len(tokenizer.encode(text)) <= length:
                break
        out.append(text)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common(parser, steps=60000, batch=24, rate=1e-3)
    parser.add_argument("--shards", type=int, default=48, help="shards of 1024 scenes to train on, made as training goes on (default: %(default)s)")
    parser.add_argument("--shard-every", type=int, default=400, help="steps from one new shard to the next (default: %(default)s)")
    parser.add_argument("--plain", type=float, default=0.4, help="share of plain emoji (default: %(default)s)")
    parser.add_argument("--anneal", type=int, default=0, help="over this many last steps the learning rate falls to zero")
    args = parser.parse_args()
    setup(args)
    sprites = Sprites(args.work)
    tokenizer = Tokenizer()
    if args.resume_from and not (args.work / "vae.pt").exists():
        save(args.work / "vae.pt", average=load_model_file(args.resume_from, "first_stage_model."))     # latents must be those the U-Net knows
    data = Latents(args.work, sprites, args.seed, args.workers)
    model = Model()
    table = model.text.embeddings["token_embedding"].weight
    dense = [p for p in model.parameters() if p is not table]
    optimizers = [
        torch.optim.AdamW([{"params": [p for p in dense if p.ndim > 1], "weight_decay": 0.01}, {"params": [p for p in dense if p.ndim < 2], "weight_decay": 0.0}],
                          lr=args.rate, betas=(0.9, 0.99), fused=True),
        torch.optim.SparseAdam([table], lr=args.rate, betas=(0.9, 0.99)),
    ]
    average = Average(model, 0.999)
    path = args.work / "denoiser.pt"
    step = seen = 0
    if state := load(path):
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"], state["average_steps"])
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        step, seen = state["step"], state["pictures"]
    elif args.resume_from:
        model.text.load_state_dict(load_model_file(args.resume_from, "cond_stage_model.transformer.text_model."), strict=False)
        model.unet.load_state_dict(load_model_file(args.resume_from, "model.diffusion_model."))
        average = Average(model, 0.999)
    print(f"text encoder {count(model.text) / 1e6:.1f} M, U-Net {count(model.unet) / 1e6:.1f} M parameters; from step {step}", flush=True)
    bar = alphas()
    signal, noise_level = bar.sqrt().float(), (1 - bar).sqrt().float()

    def checkpoint():
        save(path, model=model.state_dict(), average=average.state_dict(), average_steps=average.steps, optimizers=[o.state_dict() for o in optimizers], step=step,
             pictures=seen, seed=args.seed, batch=args.batch)

    def gradient(step, rank):
        extend(step)
        rng = random.Random(f"{args.seed} denoiser {step}")
        length = LENGTH if rng.random() < 0.25 else SHORT       # the same for all workers, or they would wait for one another
        rng = random.Random(f"{args.seed} denoiser {step} {rank}")
        torch.manual_seed(rng.randrange(2**31))
        share = args.batch // args.workers
        latents, scenes = data.batch(rng, share, args.plain)
        ids = torch.tensor(tokenizer.rows(prompts(scenes, sprites, rng, tokenizer, length), length))
        # One timestep out of each of `share` equal parts: less noise in the gradient than free choice.
        t = ((torch.arange(share) + torch.rand(share)) * (1000 / share)).long().clamp(max=999)
        a, s = signal[t][:, None, None, None], noise_level[t][:, None, None, None]
        noise = torch.randn_like(latents)
        out = model(a * latents + s * noise, t, ids)
        loss = F.mse_loss(out, a * noise - s * latents)
        loss.backward()
        return loss.item()

    def extend(step):
        while len(data.shards) < min(args.shards, 2 + step // args.shard_every):
            data.add_shard()

    workers = Workers(model, gradient, args.workers)
    started = saved = time.time()
    first, shown = step, 0.0
    stop = Stop()
    while step < args.steps and not stop:
        extend(step)                    # written by this process before the others read it
        # Warm up, stay, then fall with the root of the steps, so that training can go on for as long as it is let.
        rate = args.rate * min((step + 1) / 150, 1, math.sqrt(4000 / (step + 1)))
        if args.anneal:
            rate *= min(1, (args.steps - step) / args.anneal)
        shown += workers.step(step)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        step += 1
        seen += args.batch // args.workers * args.workers
        if step % 8 == 0:
            average.update(model, every=8)
        if step % 50 == 0:
            print(f"denoiser step {step}/{args.steps}  loss {shown / 50:.4f}  {(step - first) * args.batch / (time.time() - started):.1f} pictures/s  "
                  f"{seen} seen, {len(data.shards)} shards", flush=True)
            shown = 0.0
        if time.time() - saved > 300:
            checkpoint()
            saved = time.time()
    checkpoint()


if __name__ == "__main__":
    main()
