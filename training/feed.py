"""Where batches come from: memory (uint8 on the device, a batch is an index-select) or files decoded in workers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from methods.method import Batch
from pipeline.record import StageError
from preparation.image_files import check_unchanged, read_image
from preparation.prepared import Prepared
from training import pixels
from training.augmentation import Augment, sample_crop
from training.seeds import derive


class Order:
    """The order of samples: a permutation of `rows` per epoch that depends on (seed, epoch) alone, or rows as they lie.

    With several processes each takes its share of every batch; a last partial batch is cut to a multiple of them.
    """

    def __init__(
        self,
        rows: int,
        batch_size: int,
        drop_last: bool,
        seed: int,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        neighbours: Tensor | None = None,
    ):
        """`neighbours` [rows, k]: each row's partners, of which every batch draws one for each of its rows."""
        if batch_size % world:
            raise StageError(f"batch {batch_size} on {world} processes: the batch must be a multiple of the processes")
        if drop_last and rows < batch_size:
            raise StageError(
                f"N={rows} < batch {batch_size}: not one full batch; lower batch_size in the recipe or use more data"
            )
        self.batch_size, self.seed, self.rank, self.world, self.rows = batch_size, seed, rank, world, rows
        self.shuffle, self.neighbours = shuffle, neighbours
        used = rows - rows % batch_size if drop_last else rows
        self.used = used - used % world
        self.steps = -(-self.used // batch_size)

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[int, Tensor]]:
        """(step, this process's index [B / world]) from `first_step` on; indices are on the CPU."""
        generator = torch.Generator().manual_seed(derive(self.seed, "order", epoch))
        order = torch.randperm(self.rows, generator=generator) if self.shuffle else torch.arange(self.rows)
        order = order[: self.used]
        for step in range(first_step, self.steps):
            batch = order[step * self.batch_size : (step + 1) * self.batch_size]
            yield step, batch.chunk(self.world)[self.rank]

    def partners(self, index: Tensor, epoch: int, step: int) -> Tensor | None:
        """A random neighbour of each row of this process's `index` [B] in a step: [B], or None without neighbours."""
        if self.neighbours is None:
            return None
        share = () if self.world == 1 else (self.rank,)
        generator = torch.Generator().manual_seed(derive(self.seed, "partners", epoch, step, *share))
        return self.neighbours[index, torch.randint(self.neighbours.shape[1], (len(index),), generator=generator)]

    def augment_seed(self, epoch: int, step: int) -> int:
        """Seed of this process's random views in a step."""
        share = () if self.world == 1 else (self.rank,)
        return derive(self.seed, "augment", epoch, step, *share)


class Images:
    """Training images in memory, [N, C, H, W] on a device, uint8 or (0..1, or vectors) float32; labels [N] only where a
    method asks for them.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray | None, device: torch.device):
        """`images` [N, H, W, C], may be memory-mapped; it is copied once, in slices, into its final layout."""
        count, height, width, channels = images.shape
        kind = torch.uint8 if images.dtype == np.uint8 else torch.float32
        self.pixels = torch.empty(count, channels, height, width, dtype=kind, device=device)
        for start in range(0, count, 4096):
            part = torch.from_numpy(images[start : start + 4096].copy())
            self.pixels[start : start + 4096] = part.permute(0, 3, 1, 2).to(device)
        self.labels = None if labels is None else torch.from_numpy(labels).to(device)

    def __len__(self) -> int:
        return len(self.pixels)

    def clean(self, rows: Tensor, augment: Augment, size: int = 1024) -> Iterator[Tensor]:
        """Normalised images without augmentation, [<= size, C, H, W] at a time, in the order of `rows`."""
        for index in rows.split(size):
            yield augment.normalise(self.pixels[index.to(self.pixels.device)])

    def epoch(
        self, order: Order, epoch: int, first_step: int, augment: Augment, views: int, clean: bool = False
    ) -> Iterator[tuple[int, Batch]]:
        """(step, batch) of an epoch; without views the clean images alone, with `clean` them too."""
        generator = Generator()
        for step, index in order.epoch(epoch, first_step):
            generator.manual_seed(order.augment_seed(epoch, step))
            partners = order.partners(index, epoch, step)
            index = index.to(self.pixels.device)
            images = self.pixels[index]
            batch = Batch(augment.views(images, views, generator) or [augment.normalise(images)], index)
            if clean:
                batch.clean = augment.normalise(images)
            if partners is not None:
                images = self.pixels[partners.to(self.pixels.device)]
                batch.partners = augment.views(images, views, generator)
            yield step, batch


class Files:
    """Image files decoded in worker processes. Workers cut and resize the crop of each view; the rest of the
    augmentation runs on the device. Each image's crop depends on (seed, epoch, row), not on who decodes it.
    """

    def __init__(
        self,
        root: Path,
        paths: np.ndarray,
        labels: np.ndarray | None,
        shape: tuple[int, int, int],
        device: torch.device,
    ):
        """`shape`: height, width, channels of what is cut out of every image, by a random or a centre crop."""
        self.root, self.paths, self.shape, self.device = root, paths, shape, device
        self.labels = None if labels is None else torch.from_numpy(labels).to(device)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
        self.workers = int(os.environ.get("BENCH_WORKERS", max(1, cores - 1)))

    def __len__(self) -> int:
        return len(self.paths)

    def clean(self, rows: Tensor, augment: Augment, size: int = 1024) -> Iterator[Tensor]:
        """Normalised centre crops, [<= size, C, H, W] at a time, in the order of `rows`."""
        batches = [index.tolist() for index in rows.split(size)]
        for batch in self._decoded(_Decoder(self.root, self.paths, self.shape, None, 0, 0, 0), batches):
            yield augment.normalise(batch[:, 0].to(self.device, non_blocking=True))

    def _decoded(self, decoder: "_Decoder", batches: list[list[int]]) -> Iterator[Tensor]:
        """uint8 [B, views, C, H, W] of each batch, decoded ahead by the workers."""
        loader = torch.utils.data.DataLoader(
            decoder, batch_sampler=batches, num_workers=self.workers, collate_fn=torch.stack
        )
        try:
            yield from loader
        except StageError as problem:
            # A worker's error comes with the worker's traceback before it.
            raise StageError(str(problem).rpartition(f"{type(problem).__name__}: ")[2].strip()) from None
        except (RuntimeError, OSError) as problem:
            lost = ("shared memory", "shm", "worker (pid", "No space left", "Too many open files")
            if not any(words in str(problem) for words in lost):
                raise
            cause = str(problem).strip().splitlines()[-1]
            raise StageError(
                f"{self.root}: a worker that decodes images was lost ({cause}); enlarge /dev/shm (docker: --shm-size), "
                "raise the limits of memory and of open files, or set BENCH_WORKERS=0"
            ) from None

    def epoch(
        self, order: Order, epoch: int, first_step: int, augment: Augment, views: int, clean: bool = False
    ) -> Iterator[tuple[int, Batch]]:
        """As Images.epoch; batches are decoded ahead by the workers."""
        steps = list(order.epoch(epoch, first_step))
        partners = [order.partners(index, epoch, step) for step, index in steps]
        crop, rest = augment.without_crop()
        decoder = _Decoder(self.root, self.paths, self.shape, crop if views else None, views, order.seed, epoch, clean)
        rows = [
            index if near is None else torch.cat([index, near])
            for (_, index), near in zip(steps, partners, strict=True)
        ]
        batches = self._decoded(decoder, [each.tolist() for each in rows])
        generator = Generator()
        for (step, index), decoded in zip(steps, batches, strict=True):
            generator.manual_seed(order.augment_seed(epoch, step))
            decoded = decoded.to(self.device, non_blocking=True)  # [B or 2B, views or 1 (and a clean one), C, H, W]
            anchors, others = decoded[: len(index)].unbind(1), decoded[len(index) :].unbind(1)
            augmented = rest.views_of(anchors[:views], generator)
            batch = Batch(augmented or [augment.normalise(anchors[0])], index.to(self.device))
            if clean:
                batch.clean = augment.normalise(anchors[-1])
            batch.partners = rest.views_of(others[:views], generator) if len(decoded) > len(index) else []
            yield step, batch


@dataclass
class _Decoder(torch.utils.data.Dataset):
    """row -> uint8 [views, C, H, W]: random crops, or centre crops where the recipe crops nothing; at least one.

    `shape`: H, W, C. `clean` adds a centre crop.
    """

    root: Path
    paths: np.ndarray
    shape: tuple[int, int, int]
    crop: dict | None
    views: int
    seed: int
    epoch: int
    clean: bool = False

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Tensor:
        image, size = decode(self.root / str(self.paths[row]), self.shape[2]), tuple(self.shape[:2])
        if self.crop is None:
            return centre_crop(image, size).expand(max(1, self.views) + self.clean, -1, -1, -1)
        generator = Generator().manual_seed(derive(self.seed, "crop", self.epoch, row))
        box = sample_crop(self.views, {**self.crop, "size": size}, tuple(image.shape), generator)
        views = pixels.resized_crop(image.expand(self.views, -1, -1, -1), **box)
        views = (views * 255).round_().clamp_(0, 255).byte()
        return torch.cat([views, centre_crop(image, size)]) if self.clean else views


def decode(path: Path, channels: int = 3) -> Tensor:
    """uint8 [channels, H, W] of an image file. A file that cannot be read is named."""
    return torch.from_numpy(read_image(path, channels)).permute(2, 0, 1)


def centre_crop(image: Tensor, size: tuple[int, int]) -> Tensor:
    """The largest box of the shape of `size` (height, width), 224/256 of its sides, from the middle.

    uint8 [C, H, W] -> uint8 [1, C, *size].
    """
    _, height, width = image.shape
    aspect = size[1] / size[0]
    kept = min(height, width / aspect) * 224 / 256
    box = {"top": (height - kept) / 2, "left": (width - kept * aspect) / 2, "height": kept, "width": kept * aspect}
    given = {name: torch.tensor([value]).round() for name, value in box.items()}
    given |= {name: given[name].clamp(min=1) for name in ("height", "width")}  # of a thread-like image too
    return (pixels.resized_crop(image[None], size=size, **given) * 255).round_().clamp_(0, 255).byte()


def training_feed(data: Prepared, rows: np.ndarray, labels: np.ndarray | None, device: torch.device) -> Images | Files:
    """The feed of `rows` of a prepared data set; `labels` [len(rows)] or None."""
    if data.root is not None:
        check_unchanged(data)
        return Files(data.root, data.images[rows], labels, tuple(data.card["shape"]), device)
    contiguous = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
    return Images(data.images[rows[0] : rows[-1] + 1] if contiguous else data.images[rows], labels, device)
