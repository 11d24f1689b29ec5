"""What the trainers share: options, averaged weights, checkpoints that survive being stopped at any moment."""
import ctypes
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

WORK = Path("~/.cache/danqing/training").expanduser()


def add_common(parser, steps, batch, rate):
    parser.add_argument("--work", type=Path, default=WORK, help="working folder (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--rate", type=float, default=rate, help="learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that share each batch (default: %(default)s)")
    parser.add_argument("--resume-from", type=Path, metavar="FILE", help="an exported model to start from where there is no checkpoint")


def setup(args):
    torch.set_num_threads(1)            # the workers are the parallelism
    try:                                # keep freed memory: asking the system for it again and again took more time than the arithmetic
        libc = ctypes.CDLL("libc.so.6")
        for option, value in ((-3, 32 << 20), (-1, 1 << 30), (-2, 64 << 20)):     # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD
            libc.mallopt(option, value)
    except OSError:
        pass
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)


class Stop:
    """True once the process has been asked to end: the trainers then finish their step, save and leave."""

    def __init__(self):
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "asked", True))

    def __bool__(self):
        return self.asked


class Workers:
    """Several one-threaded processes, each working out the gradient of its part of every batch.

    They meet once a step. Threads inside one process meet in every layer, and on a machine that does other work as well they mostly
    wait for one another. The weights lie in shared memory; only this process changes them, while the others wait.
    `gradient(step, rank)` runs forward and backward on that worker's part and returns the loss. Gradients of dense parameters are
    added up in shared memory; the few rows of a sparse embedding travel through the pipe.
    """

    def __init__(self, module, gradient, workers):
        self.gradient = gradient
        module.share_memory()
        self.sparse = [m.weight for m in module.modules() if isinstance(m, torch.nn.Embedding) and m.sparse]
        self.dense = [p for p in module.parameters() if p.requires_grad and not any(p is s for s in self.sparse)]
        self.flat = [torch.zeros(sum(p.numel() for p in self.dense)).share_memory_() for _ in range(workers)]
        self.pipes = []
        context = multiprocessing.get_context("fork")
        for rank in range(1, workers):
            here, there = context.Pipe()
            self.pipes.append(here)
            context.Process(target=self._serve, args=(rank, there), daemon=True).start()
            there.close()
        self._bind(0)

    def _bind(self, rank):
        """Let the gradients be pieces of the flat shared buffer: backward adds in place."""
        at = 0
        for p in self.dense:
            p.grad = self.flat[rank][at : at + p.numel()].view_as(p)
            at += p.numel()

    def _work(self, step, rank):
        self.flat[rank].zero_()
        loss = self.gradient(step, rank)
        rows = []
        for p in self.sparse:
            grad = p.grad.coalesce()
            rows.append((grad.indices().numpy(), grad.values().numpy()))
            p.grad = None
        return loss, rows

    def _serve(self, rank, pipe):
        for other in self.pipes:
            other.close()               # else a worker would not see its end when the main process goes
        self._bind(rank)
        signal.signal(signal.SIGINT, signal.SIG_IGN)       # the main process decides when to end
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            while True:
                pipe.send(self._work(pipe.recv(), rank))
        except (EOFError, BrokenPipeError):
            pass

    def step(self, step, clip=1.0):
        """The mean loss; the mean gradient is in the parameters, the dense part no longer than `clip`."""
        for pipe in self.pipes:
            pipe.send(step)
        done = [self._work(step, 0), *(pipe.recv() for pipe in self.pipes)]
        n = len(done)
        for other in self.flat[1:]:
            self.flat[0] += other
        self.flat[0] *= min(1.0, clip / (self.flat[0].norm().item() / n + 1e-6)) / n
        for i, p in enumerate(self.sparse):
            indices, values = (torch.from_numpy(np.concatenate([rows[i][part] for _, rows in done], axis=1 - part)) for part in (0, 1))
            p.grad = torch.sparse_coo_tensor(indices, values / n, p.shape, check_invariants=False).coalesce()
        return sum(loss for loss, _ in done) / n


class Average:
    """Moving average of a module's weights, which samples better than the weights of any one step."""

    def __init__(self, module, decay):
        self.decay, self.steps = decay, 0
        self.weights = {k: v.detach().clone() for k, v in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module, every=1):
        """Call once every `every` steps."""
        self.steps += every
        # A young average forgets faster, or it would remember the random start.
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps)) ** every
        for k, v in module.state_dict().items():
            self.weights[k].lerp_(v, 1 - decay)

    def state_dict(self):
        return self.weights

    def load_state_dict(self, weights, steps):
        self.weights = {k: v.clone() for k, v in weights.items()}
        self.steps = steps


def save(path, **state):
    """Write beside and rename: a reader, or a run after a crash, sees the old file or the new one."""
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None


def load_model_file(path, prefix):
    """The weights below a prefix of an exported model, as float32."""
    with safe_open(path, "pt") as f:
        return {k.removeprefix(prefix): f.get_tensor(k).float() for k in f.keys() if k.startswith(prefix)}
