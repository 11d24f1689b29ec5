"""The three networks of a Stable Diffusion 1.5 model, small, with the parameter names of the original single file.

Because the names agree, exporting is a dump of `state_dict()`. `CONFIG` holds the sizes under the keys that diffusers' and
transformers' config.json use; danqing reads the same text from the file's metadata (`danqing.config`).
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 128          # side of a picture in pixels
FACTOR = 8          # pixels a latent stands for, each way
SCALE = 0.18215     # latents are multiplied by this, as in every SD 1.5 model; vae.py makes them fit it

CONFIG = {
    "text_encoder": {
        "vocab_size": 49408, "hidden_size": 192, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 6,
        "max_position_embeddings": 77, "hidden_act": "quick_gelu", "projection_dim": 192, "layer_norm_eps": 1e-5,
    },
    "unet": {
        "sample_size": SIZE // FACTOR, "in_channels": 4, "out_channels": 4, "block_out_channels": [48, 96, 192], "layers_per_block": 1,
        "attention_head_dim": 4, "cross_attention_dim": 192, "norm_num_groups": 16,
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    },
    "vae": {
        "in_channels": 3, "out_channels": 3, "latent_channels": 4, "block_out_channels": [24, 32, 64, 96], "layers_per_block": 1,
        "norm_num_groups": 8, "scaling_factor": SCALE,
        "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4,
    },
    "scheduler": {
        "num_train_timesteps": 1000, "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
        "prediction_type": "v_prediction",
    },
}


# ---- text encoder ------------------------------------------------------------------------------------------------------------

class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (p(x).view(b, n, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c))


class MLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        x = self.fc1(x)
        return self.fc2(x * torch.sigmoid(1.702 * x))


class TextLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, eps = c["hidden_size"], c["layer_norm_eps"]
        self.self_attn = SelfAttention(width, c["num_attention_heads"])
        self.layer_norm1 = nn.LayerNorm(width, eps)
        self.mlp = MLP(width, c["intermediate_size"])
        self.layer_norm2 = nn.LayerNorm(width, eps)

    def forward(self, x):
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class TextEncoder(nn.Module):
    """CLIP's text transformer. Being causal, it gives the same first n rows for any number of rows."""

    def __init__(self, c=CONFIG["text_encoder"]):
        super().__init__()
        width = c["hidden_size"]
        # Few of the 49408 rows occur in a batch: a sparse gradient spares the optimizer the rest.
        self.embeddings = nn.ModuleDict({
            "token_embedding": nn.Embedding(c["vocab_size"], width, sparse=True),
            "position_embedding": nn.Embedding(c["max_position_embeddings"], width),
        })
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(TextLayer(c) for _ in range(c["num_hidden_layers"]))})
        self.final_layer_norm = nn.LayerNorm(width, c["layer_norm_eps"])
        nn.init.normal_(self.embeddings["token_embedding"].weight, std=0.05)
        nn.init.normal_(self.embeddings["position_embedding"].weight, std=0.02)

    def forward(self, ids):
        x = self.embeddings["token_embedding"](ids) + self.embeddings["position_embedding"].weight[: ids.shape[1]]
        for layer in self.encoder["layers"]:
            x = layer(x)
        return self.final_layer_norm(x)


# ---- U-Net -------------------------------------------------------------------------------------------------------------------

def timestep_embedding(t, width):
    freqs = torch.exp(-math.log(10000) * torch.arange(width // 2, dtype=torch.float32) / (width // 2))
    angles = t.float()[:, None] * freqs
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def zero(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


class ResBlock(nn.Module):
    def __init__(self, inp, out, emb, groups):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(groups, inp, 1e-5), nn.SiLU(), nn.Conv2d(inp, out, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb, out))
        self.out_layers = nn.Sequential(nn.GroupNorm(groups, out, 1e-5), nn.SiLU(), nn.Identity(), zero(nn.Conv2d(out, out, 3, padding=1)))
        self.skip_connection = nn.Conv2d(inp, out, 1) if inp != out else nn.Identity()

    def forward(self, x, emb):
        h = self.in_layers(x) + self.emb_layers(emb)[:, :, None, None]
        return self.skip_connection(x) + self.out_layers(h)


class Attention(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(context, width, bias=False)
        self.to_v = nn.Linear(context, width, bias=False)
        self.to_out = nn.Sequential(nn.Linear(width, width))

    def forward(self, x, context):
        b, n, c = x.shape
        q, k, v = (y.view(b, -1, self.heads, c // self.heads).transpose(1, 2) for y in (self.to_q(x), self.to_k(context), self.to_v(context)))
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))


class GEGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.proj = nn.Linear(width, inner * 2)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return x * F.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(GEGLU(width, 4 * width), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        return self.net(x)


class TransformerBlock(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.attn1, self.attn2, self.ff = Attention(width, width, heads), Attention(width, context, heads), FeedForward(width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))

    def forward(self, x, context):
        y = self.norm1(x)
        x = x + self.attn1(y, y)
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class SpatialTransformer(nn.Module):
    def __init__(self, width, context, heads, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, 1e-6)
        self.proj_in = nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(width, context, heads)])
        self.proj_out = zero(nn.Conv2d(width, width, 1))

    def forward(self, x, context):
        # The 1x1 convolutions as matrix products, which run faster on a CPU.
        y = F.linear(self.norm(x).flatten(2).transpose(1, 2), self.proj_in.weight.flatten(1), self.proj_in.bias)
        for block in self.transformer_blocks:
            y = block(y, context)
        return x + F.linear(y, self.proj_out.weight.flatten(1), self.proj_out.bias).transpose(1, 2).reshape(x.shape)


class Downsample(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.op = nn.Conv2d(width, width, 3, stride=2, padding=1)

    def forward(self, x):
        return self.op(x)


class Upsample(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Block(nn.ModuleList):
    """One numbered block of the original layout: each part takes what it needs."""

    def forward(self, x, emb, context):
        for part in self:
            if isinstance(part, ResBlock):
                x = part(x, emb)
            elif isinstance(part, SpatialTransformer):
                x = part(x, context)
            else:
                x = part(x)
        return x


class UNet(nn.Module):
    def __init__(self, c=CONFIG["unet"]):
        super().__init__()
        widths, per, groups, heads, context = (c[k] for k in ("block_out_channels", "layers_per_block", "norm_num_groups", "attention_head_dim",
                                                              "cross_attention_dim"))
        self.width = widths[0]
        emb = 4 * self.width
        attends = ["CrossAttn" in t for t in c["down_block_types"]]

        def attention(width):
            return SpatialTransformer(width, context, heads, groups)

        self.time_embed = nn.Sequential(nn.Linear(self.width, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.input_blocks = nn.ModuleList([Block([nn.Conv2d(c["in_channels"], self.width, 3, padding=1)])])
        skips, at = [self.width], self.width
        for level, width in enumerate(widths):
            for _ in range(per):
                self.input_blocks.append(Block([ResBlock(at, width, emb, groups)] + [attention(width)] * attends[level]))
                at = width
                skips.append(at)
            if level < len(widths) - 1:
                self.input_blocks.append(Block([Downsample(at)]))
                skips.append(at)
        self.middle_block = Block([ResBlock(at, at, emb, groups), attention(at), ResBlock(at, at, emb, groups)])
        self.output_blocks = nn.ModuleList()
        for level in reversed(range(len(widths))):
            width = widths[level]
            for i in range(per + 1):
                parts = [ResBlock(at + skips.pop(), width, emb, groups)] + [attention(width)] * attends[level]
                at = width
                if i == per and level > 0:
                    parts.append(Upsample(at))
                self.output_blocks.append(Block(parts))
        self.out = nn.Sequential(nn.GroupNorm(groups, at, 1e-5), nn.SiLU(), zero(nn.Conv2d(at, c["out_channels"], 3, padding=1)))

    def forward(self, x, t, context):
        emb = self.time_embed(timestep_embedding(t, self.width))
        skips = []
        for block in self.input_blocks:
            x = block(x, emb, context)
            skips.append(x)
        x = self.middle_block(x, emb, context)
        for block in self.output_blocks:
            x = block(torch.cat([x, skips.pop()], dim=1), emb, context)
        return self.out(x)


# ---- VAE ---------------------------------------------------------------------------------------------------------------------

class VaeResBlock(nn.Module):
    def __init__(self, inp, out, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inp, 1e-6), nn.Conv2d(inp, out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(groups, out, 1e-6), nn.Conv2d(out, out, 3, padding=1)
        if inp != out:
            self.nin_shortcut = nn.Conv2d(inp, out, 1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x) + h


class VaeAttention(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, 1e-6)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(width, width, 1) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (p(y).flatten(2).transpose(1, 2) for p in (self.q, self.k, self.v))
        return x + self.proj_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class VaeDownsample(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, stride=2)

    def forward(self, x):
        return self.conv(F.pad(x, (0, 1, 0, 1)))


def vae_middle(width, groups):
    return nn.ModuleDict({"block_1": VaeResBlock(width, width, groups), "attn_1": VaeAttention(width, groups),
                          "block_2": VaeResBlock(width, width, groups)})


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths, groups = c["block_out_channels"], c["norm_num_groups"]
        self.conv_in = nn.Conv2d(c["in_channels"], widths[0], 3, padding=1)
        self.down, at = nn.ModuleList(), widths[0]
        for level, width in enumerate(widths):
            stage = nn.ModuleDict({"block": nn.ModuleList()})
            for _ in range(c["layers_per_block"]):
                stage["block"].append(VaeResBlock(at, width, groups))
                at = width
            if level < len(widths) - 1:
                stage["downsample"] = VaeDownsample(at)
            self.down.append(stage)
        self.mid = vae_middle(at, groups)
        self.norm_out, self.conv_out = nn.GroupNorm(groups, at, 1e-6), nn.Conv2d(at, 2 * c["latent_channels"], 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        for stage in self.down:
            for block in stage["block"]:
                x = block(x)
            if "downsample" in stage:
                x = stage["downsample"](x)
        for part in self.mid.values():
            x = part(x)
        return self.conv_out(F.silu(self.norm_out(x)))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths, groups = c["block_out_channels"], c["norm_num_groups"]
        at = widths[-1]
        self.conv_in = nn.Conv2d(c["latent_channels"], at, 3, padding=1)
        self.mid = vae_middle(at, groups)
        stages = []
        for level in reversed(range(len(widths))):
            stage = nn.ModuleDict({"block": nn.ModuleList()})
            for _ in range(c["layers_per_block"] + 1):
                stage["block"].append(VaeResBlock(at, widths[level], groups))
                at = widths[level]
            if level > 0:
                stage["upsample"] = Upsample(at)
            stages.insert(0, stage)
        self.up = nn.ModuleList(stages)   # numbered from the finest level, run from the coarsest
        self.norm_out, self.conv_out = nn.GroupNorm(groups, at, 1e-6), nn.Conv2d(at, c["out_channels"], 3, padding=1)

    def forward(self, z):
        x = self.conv_in(z)
        for part in self.mid.values():
            x = part(x)
        for stage in reversed(self.up):
            for block in stage["block"]:
                x = block(x)
            if "upsample" in stage:
                x = stage["upsample"](x)
        return self.conv_out(F.silu(self.norm_out(x)))


class VAE(nn.Module):
    def __init__(self, c=CONFIG["vae"]):
        super().__init__()
        n = c["latent_channels"]
        self.encoder, self.decoder = Encoder(c), Decoder(c)
        self.quant_conv, self.post_quant_conv = nn.Conv2d(2 * n, 2 * n, 1), nn.Conv2d(n, n, 1)

    def moments(self, pictures):
        return self.quant_conv(self.encoder(pictures)).chunk(2, dim=1)

    def encode(self, pictures):
        """Pictures in -1..1 to latents of unit variance."""
        return self.moments(pictures)[0] * SCALE

    def decode(self, latents):
        return self.decoder(self.post_quant_conv(latents / SCALE))


def count(module):
    return sum(p.numel() for p in module.parameters())
