"""CLIP's byte-pair tokenizer, as the text encoder of SD 1.5 uses it, from the merge list that danqing carries."""
import gzip
import unicodedata
from functools import lru_cache
from pathlib import Path

import regex

MERGES = Path(__file__).parent.parent / "data/tokenizer/clip/merges.txt.gz"
START, END, LENGTH = 49406, 49407, 77
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", regex.IGNORECASE)


def bytes_to_letters():
    """Bytes stand for printable letters in the vocabulary: those that print for themselves, the rest for what follows 255."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {b: chr(b) for b in own}
    letters.update((b, chr(256 + i)) for i, b in enumerate(b for b in range(256) if b not in letters))
    return letters      # the order is that of the vocabulary


class Tokenizer:
    def __init__(self, merges=MERGES):
        text = gzip.decompress(Path(merges).read_bytes()).decode()
        pairs = [tuple(line.split()) for line in text.splitlines()[1:] if line]
        self.letters = bytes_to_letters()
        base = list(self.letters.values())
        vocab = [*base, *(c + "</w>" for c in base), *("".join(p) for p in pairs)]
        self.ids = {token: i for i, token in enumerate(vocab)}
        self.ranks = {pair: i for i, pair in enumerate(pairs)}
        self.word = lru_cache(maxsize=100_000)(self._word)

    def _word(self, word):
        parts = [self.letters[b] for b in word.encode()]
        parts[-1] += "</w>"
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.ranks.get(pair, 1 << 30))
            if best not in self.ranks:
                break
            merged, i = [], 0
            while i < len(parts):
                if tuple(parts[i : i + 2]) == best:
                    merged.append(parts[i] + parts[i + 1])
                    i += 2
                else:
                    merged.append(parts[i])
                    i += 1
            parts = merged
        return [self.ids[p] for p in parts]

    def encode(self, text):
        """Token ids with start and end, as many as there are."""
        text = unicodedata.normalize("NFC", text).lower()
        return [START, *(i for w in WORD.findall(text) for i in self.word(w)), END]

    def rows(self, texts, length=LENGTH):
        """One row of exactly `length` a text: cut (keeping the end token) or padded with the end token."""
        return [(self.encode(text)[: length - 1] + [END] * length)[:length] for text in texts]
