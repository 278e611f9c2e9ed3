"""Deterministic trees of text-like files, and the edits made to them."""

from __future__ import annotations

import os
import random
import shutil

MEAN_SIZE = 13_500
_FILES_A_FOLDER = 40


def _pool() -> list[str]:
    """Return lines of words, which deflate about as well as source code does."""
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 11))) for _ in range(900)]
    return [
        " " * 4 * chance.randint(0, 3) + " ".join(chance.choices(words, k=chance.randint(2, 9)))
        for _ in range(8_000)
    ]


_LINES = _pool()
_MEAN_LINE = sum(map(len, _LINES)) / len(_LINES) + 1


def lay(root: str, *, files: int, mean: int = MEAN_SIZE, seed: int = 1) -> None:
    """Write so many files of a skewed size distribution with a mean size in bytes."""
    shutil.rmtree(root, ignore_errors=True)
    chance = random.Random(seed)
    for number in range(files):
        path = os.path.join(root, name(number))
        if number % _FILES_A_FOLDER == 0:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        lines = chance.choices(_LINES, k=max(1, round(chance.expovariate(1) * mean / _MEAN_LINE)))
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def name(number: int) -> str:
    """Return the path of a file of the tree, three folders deep."""
    folder = number // _FILES_A_FOLDER
    return f"part{folder // 100:02d}/module{folder % 100:02d}/sub{folder % 3}/file{number:06d}.py"


def edit(root: str, *, files: int, count: int, turn: int) -> None:
    """Change some files of the tree by a few lines each, other ones every turn."""
    chance = random.Random(turn * 7919 + 13)
    for number in chance.sample(range(files), count):
        path = os.path.join(root, name(number))
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        at = chance.randrange(len(lines))
        lines[at : at + 2] = [f"# turn {turn}: {line}" for line in chance.choices(_LINES, k=3)]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def edited(*, files: int, count: int, turn: int) -> list[str]:
    """Return which files a turn of `edit` changes."""
    return [name(number) for number in random.Random(turn * 7919 + 13).sample(range(files), count)]
