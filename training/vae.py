"""Make the VAE: pictures of 128x128 to latents of 16x16x4 and back.

The encoder is set, not trained (`start_linear` says how), so the latents that the denoiser learns on are fixed from the first moment and
both can train at the same time. The decoder learns to draw on random 64x64 crops of scenes, which costs a quarter of whole pictures, and
at the end on whole pictures (the group norms and the attention see other statistics there), always with some noise on the latents, as the
denoiser's are not exact either.
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


NOISE = 0.06        # on latents of unit variance, while the decoder trains


@torch.no_grad()
def pass_through(conv, channels):
    """The first channels come out of a convolution as they went in; what the others do is left to chance and training."""
    conv.weight[:channels] = 0
    conv.bias[:channels] = 0
    middle = conv.kernel_size[0] // 2
    for i in range(channels):
        conv.weight[i, i, middle, middle] = 1


@torch.no_grad()
def keep_scale(source, norm, out, place, keep):
    """Carry values through group norm and SiLU as they are.

    The norm would divide them by their own spread. So each group also gets constants (from the biases of `source`), beside which the
    values are small, and the factor and shift of the norm undo the rest. Of SiLU: silu(x) - silu(-x) = x.
    `place[i]` is where value i stands: (plus channel, minus channel), which `source` makes out of its input channel i."""
    size = norm.num_channels // norm.num_groups
    used = {c for pair in place for c in pair}
    for group in {c // size for c in used}:
        members = range(group * size, (group + 1) * size)
        spare = [c for c in members if c not in used]
        constants = torch.zeros(size)
        constants[[c % size for c in spare]] = keep
        source.weight[spare] = 0
        source.bias[spare] = keep
        norm.weight[members.start : members.stop] = constants.std(correction=0)
        norm.bias[members.start : members.stop] = constants.mean()
    for i, pair in enumerate(place):
        for c, sign in zip(pair, (1, -1)):
            source.weight[c] = 0
            source.bias[c] = 0
            source.weight[c, i] = sign
    out.weight.zero_()
    out.bias.zero_()


# Brightness, blue against yellow, red against green.
OPPONENT = torch.tensor([[0.30, 0.59, 0.11], [-0.40, -0.40, 0.80], [0.80, -0.70, -0.10]])


@torch.no_grad()
def start_linear(vae):
    """Say what the latents are instead of searching for it, and begin with a decoder that enlarges them smoothly.

    A latent holds the mean colour of its 8x8 pixels (brightness, blue against yellow, red against green) and, fourth, how brightness falls
    from the upper left to the lower right, which tells the decoder where inside the square an edge or a line runs. The encoder is exact
    and stays so; the decoder learns to draw. (A trained encoder of this size still gave green back as brown
    after 750 steps.)"""
    encoder, decoder = vae.encoder, vae.decoder
    for m in vae.modules():
        if isinstance(m, VaeResBlock):
            nn.init.zeros_(m.conv2.weight)
            nn.init.zeros_(m.conv2.bias)
            if hasattr(m, "nin_shortcut"):
                pass_through(m.nin_shortcut, 4)
        elif isinstance(m, VaeAttention):
            nn.init.zeros_(m.proj_out.weight)
            nn.init.zeros_(m.proj_out.bias)
        elif isinstance(m, VaeDownsample):
            m.conv.weight.zero_()
            m.conv.bias.zero_()
            for i in range(len(m.conv.weight)):
                m.conv.weight[i, i, :2, :2] = 0.25
        elif isinstance(m, Upsample):
            m.conv.weight.zero_()
            m.conv.bias.zero_()
            smooth = torch.tensor([0.25, 0.5, 0.25])
            for i in range(len(m.conv.weight)):
                m.conv.weight[i, i] = smooth[:, None] * smooth
    # Channels 0..2 of the encoder are red, green, blue; the fourth is made where squares of 4x4 pixels become squares of 8x8.
    pass_through(encoder.conv_in, 3)
    encoder.conv_in.weight[3] = 0
    encoder.conv_in.bias[3] = 0
    down = encoder.down[2]["downsample"].conv
    down.weight[3] = 0
    for at, sign in (((0, 0), 1.0), ((1, 1), -1.0)):
        down.weight[3, :3, at[0], at[1]] = sign * OPPONENT[0]
    keep_scale(encoder.down[3]["block"][0].nin_shortcut, encoder.norm_out, encoder.conv_out, [(0, 1), (2, 3), (4, 5), (12, 13)], keep=16)
    for i in range(3):
        for c, sign in ((2 * i, 1), (2 * i + 1, -1)):
            encoder.conv_out.weight[:3, c, 1, 1] = sign * OPPONENT[:, i]
    encoder.conv_out.weight[3, 12, 1, 1], encoder.conv_out.weight[3, 13, 1, 1] = 1, -1
    n = vae.post_quant_conv.weight.shape[0]
    for conv in (vae.quant_conv, vae.post_quant_conv):
        nn.init.dirac_(conv.weight)
        nn.init.zeros_(conv.bias)
    pass_through(decoder.conv_in, 4)
    decoder.conv_in.weight[:3, :, 1, 1] = torch.cat([torch.linalg.inv(OPPONENT), torch.zeros(3, 1)], 1)
    keep_scale(decoder.up[0]["block"][0].nin_shortcut, decoder.norm_out, decoder.conv_out, [(0, 1), (3, 4), (6, 7)], keep=16)
    for i, (plus, minus) in enumerate([(0, 1), (3, 4), (6, 7)]):
        decoder.conv_out.weight[i, plus, 1, 1], decoder.conv_out.weight[i, minus, 1, 1] = 1, -1
    # White travels as zero, which is also what convolutions see beyond the border.
    decoder.conv_in.bias[:3] = -1
    decoder.conv_out.bias[:] = 1
    for p in (*encoder.parameters(), *vae.quant_conv.parameters()):
        p.requires_grad_(False)


def measure(pictures):
    """What the encoder works out, directly: the same numbers for a twentieth of the time."""
    mean = F.avg_pool2d(pictures, 8)
    light = F.avg_pool2d((pictures * OPPONENT[0][:, None, None]).sum(1, keepdim=True), 4)
    return torch.cat([torch.einsum("oc,nchw->nohw", OPPONENT, mean), light[..., ::2, ::2] - light[..., 1::2, 1::2]], 1)


@torch.no_grad()
def normalise(vae, sprites, rng):
    """Give the latents zero mean and unit variance in every channel (after SCALE) without changing what is decoded."""
    pictures = np.stack([paint(random_scene(sprites, rng), sprites) for _ in range(256)])
    pictures = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1
    z = measure(pictures)
    if not torch.allclose(vae.moments(pictures[:4])[0], z[:4], atol=0.03):
        raise SystemExit("the encoder does not say what `measure` says")
    mean, std = z.mean((0, 2, 3)), z.std((0, 2, 3))
    n = len(mean)
    gain = 1 / (SCALE * std)
    quant, post = vae.quant_conv, vae.post_quant_conv
    # z' = (z - mean) * gain comes out of quant_conv; post_quant_conv undoes it: z = z' / gain + mean.
    quant.bias[:n] = -mean * gain
    quant.weight[:n] *= gain[:, None, None, None]
    quant.weight[n:] = 0
    quant.bias[n:] = 2 * math.log(NOISE / SCALE)
    post.bias += (post.weight[:, :, 0, 0] * mean).sum(1)
    post.weight /= gain[None, :, None, None]


def latents(vae, pictures):
    """What vae.encode gives."""
    return F.conv2d(measure(pictures), vae.quant_conv.weight[:4, :4], vae.quant_conv.bias[:4]) * SCALE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common(parser, steps=8000, batch=4, rate=4e-4)
    args = parser.parse_args()
    setup(args)
    sprites = Sprites(args.work)
    vae = VAE()
    start_linear(vae)
    step, path = 0, args.work / "vae.pt"
    state = load(path)
    if state and "model" not in state:      # as denoiser.py --resume-from leaves it
        vae.load_state_dict(state["average"])
        state = None
    elif state:
        vae.load_state_dict(state["model"])
        step = state["step"]
    elif args.resume_from:
        vae.load_state_dict(load_model_file(args.resume_from, "first_stage_model."))
    else:
        normalise(vae, sprites, random.Random(args.seed))
    average = Average(vae, 0.997)
    optimizer = torch.optim.AdamW([p for p in vae.parameters() if p.requires_grad], lr=args.rate, betas=(0.9, 0.99), weight_decay=1e-4, fused=True)
    if state:
        average.load_state_dict(state["average"], state["average_steps"])
        optimizer.load_state_dict(state["optimizer"])

    def checkpoint():
        save(path, model=vae.state_dict(), average=average.state_dict(), average_steps=average.steps, optimizer=optimizer.state_dict(), step=step)

    if not state:
        checkpoint()                    # the denoiser can start

    def gradient(step, rank):
        rng = random.Random(f"{args.seed} vae {step} {rank}")
        torch.manual_seed(rng.randrange(2**31))
        share = max(1, args.batch // args.workers)
        pictures = crops(sprites, rng, share) if step < 0.92 * args.steps else whole(sprites, rng, max(1, share // 4))
        z = latents(vae, pictures)
        loss = reconstruction_loss(vae.decode(z + NOISE * torch.randn_like(z)), pictures)
        loss.backward()
        return loss.item()

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
    checkpoint()


if __name__ == "__main__":
    main()
