"""Pictures as latents, made once and kept: every plain emoji, and shards of random scenes.

Each file holds the latents (float16) and the scenes they show; prompts are told anew each time a latent is trained on.
"""
import json
import multiprocessing
import random
import signal

import numpy as np
import torch

from common import load, save
from model import VAE
from scenes import paint, plain_scene, random_scene
from vae import latents

SHARD = 1024


def begin(encoder):
    """In each process of a pool. What a task carries is pickled anew each time, which for the sprites would be 200 MB; this is inherited.
    The signals: a trainer's `Stop` would be inherited too, and then the pool could not end its processes."""
    global ENCODER
    ENCODER = encoder
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def part(scenes):
    return ENCODER.part(scenes)


class Encoder:
    """Paints and encodes scenes, in parts, so that several processes can share the work."""

    def __init__(self, vae, sprites):
        self.vae, self.sprites = vae, sprites

    @torch.no_grad()
    def part(self, scenes):
        torch.set_num_threads(1)
        pictures = torch.from_numpy(np.stack([paint(s, self.sprites) for s in scenes]))
        return latents(self.vae, pictures.permute(0, 3, 1, 2).float() / 127.5 - 1).half().numpy()

    def all(self, scenes, workers):
        parts = [scenes[at : at + 16] for at in range(0, len(scenes), 16)]
        with multiprocessing.get_context("fork").Pool(workers, begin, (self,)) as pool:
            return torch.from_numpy(np.concatenate(pool.map(part, parts, chunksize=1)))


def frozen_vae(work):
    state = load(work / "vae.pt")
    if not state:
        raise SystemExit(f"{work}: there is no VAE yet; run vae.py")
    vae = VAE()
    vae.load_state_dict(state["average"])
    return vae.eval()


class Latents:
    def __init__(self, work, sprites, seed, workers=1):
        self.folder, self.sprites, self.seed, self.workers = work / "latents", sprites, seed, workers
        self.folder.mkdir(exist_ok=True)
        self.encoder = None
        self.plain = self.file("emoji", lambda rng: [plain_scene(i) for i in sprites.emoji])
        self.shards = []

    def file(self, name, scenes):
        path = self.folder / f"{name}.pt"
        if (stored := load(path)) is None:
            self.encoder = self.encoder or Encoder(frozen_vae(self.folder.parent), self.sprites)
            made = scenes(random.Random(f"{self.seed} {name}"))
            stored = {"latents": self.encoder.all(made, self.workers), "scenes": json.dumps(made)}
            save(path, **stored)
        return stored["latents"], json.loads(stored["scenes"])

    def add_shard(self):
        """One shard more: read where it is there already, else painted and encoded."""
        self.shards.append(self.file(f"scenes-{len(self.shards):03d}", lambda rng: [random_scene(self.sprites, rng) for _ in range(SHARD)]))

    def batch(self, rng, size, plain_share):
        """Latents and their scenes: plain emoji and composed scenes."""
        latents, scenes = [], []
        for _ in range(size):
            if rng.random() < plain_share or not self.shards:
                source, i = self.plain, rng.choices(range(len(self.sprites.emoji)), cum_weights=self.sprites.cumulative)[0]
            else:
                source, i = rng.choice(self.shards), rng.randrange(SHARD)
            latents.append(source[0][i])
            scenes.append(source[1][i])
        return torch.stack(latents).float(), scenes
