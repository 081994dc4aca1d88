"""A CUDA device where there is none, so that code for one can be run.

`pretended` adds a device ``cuda`` on which tensors only claim to be: they are computed on the processor, but operations
on tensors of two devices raise what CUDA raises. Code under test runs unchanged, and its operations are counted.
"""

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from gpu import INDEXED, Counting, tensors_of
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary


class Pretend(Counting):
    """The device itself: it knows which storages are there, how many bytes they hold, and the most they ever held."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.peak = 0, 0
        self._there = WeakIdKeyDictionary()

    def has(self, tensor: Tensor) -> bool:
        """Return whether a tensor is on the device."""
        values = tensor.values() if tensor.layout is torch.sparse_csr else tensor
        return values.untyped_storage() in self._there

    def put(self, tensor: Tensor) -> Tensor:
        """Have a tensor, with all its views, be on the device."""
        parts = [tensor]
        if tensor.layout is torch.sparse_csr:
            parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        for storage in (part.untyped_storage() for part in parts):
            if storage not in self._there:
                self._there[storage] = True
                self._hold(storage.nbytes())
                weakref.finalize(storage, self._hold, -storage.nbytes())
        return tensor

    def _hold(self, more: int) -> None:
        self.held += more
        self.peak = max(self.peak, self.held)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do what was asked for on the processor; raises RuntimeError for tensors of two devices, as CUDA would."""
        kwargs = dict(kwargs or {})
        tensors = tensors_of((args, kwargs))
        there = [self.has(tensor) for tensor in tensors]
        # Beside a tensor of the device, what the library itself asks for "on the CPU" is meant to be with the tensor.
        here = not any(there) and (kwargs.get("device") or torch.device("cpu")).type == "cpu"
        caller = sys._getframe(1)
        if not tensors and caller.f_code.co_name == "_engine_run_backward":
            here = not self.has(caller.f_locals["t_outputs"][0])  # gradients that are zero are where the others are
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        if here:
            return func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if not all(there):
            self._check(name, func, tensors, there)
        found = func(*args, **kwargs)
        if name != "copy_" or there[0]:
            for tensor in tensors_of(found):
                self.put(tensor)
        else:
            self.waits += 1
        self.count(func, args, kwargs, found)
        return found

    def _check(self, name: str, func: Any, tensors: list[Tensor], there: list[bool]) -> None:
        """Raise unless what is not on the device may stay on the processor: single numbers, indices, copies."""
        scalars = torch.Tag.pointwise in func.tags or name in (*INDEXED, "fill_")
        for place, (tensor, found) in enumerate(zip(tensors, there, strict=True)):
            index = name in INDEXED and place and not tensor.is_floating_point()
            if not found and not (scalars and tensor.dim() == 0) and not index and name != "copy_":
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                    f"({func}, tensor {place} of shape {tuple(tensor.shape)})"
                )

    def move(self, tensor: Tensor, device: torch.device) -> Tensor:
        """Return a tensor on a device: itself, or a copy."""
        if (device.type == "cuda") == self.has(tensor):
            return tensor
        with _disable_current_modes():
            moved = tensor.clone()
        if device.type == "cuda":
            return self.put(moved)
        self.waits += 1
        return moved


@contextmanager
def pretended() -> Iterator[Pretend]:
    """Have PyTorch see a CUDA device inside the block."""
    mode, cuda, cpu = Pretend(), torch.device("cuda"), torch.device("cpu")
    plain_to, plain_numpy, plain_list, plain_tensor = Tensor.to, Tensor.numpy, Tensor.tolist, torch.tensor
    plain_groups = torch._C._group_tensors_by_device_and_dtype

    def to(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if args and isinstance(args[0], Tensor):
            args, kwargs = (), {"device": args[0].device, "dtype": args[0].dtype}
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        found = tensor if dtype is None else plain_to(tensor, dtype=dtype)
        return found if device is None else mode.move(found, device)

    def numpy(tensor: Tensor, **kwargs: Any) -> Any:
        if mode.has(tensor):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        return plain_numpy(tensor, **kwargs)

    def tolist(tensor: Tensor) -> Any:
        return plain_list(mode.move(tensor, cpu))

    def new(*args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        return mode.move(plain_tensor(*args, **kwargs), torch.device(device or "cpu"))

    def groups(lists: Any, with_indices: bool = False) -> Any:
        found = plain_groups(lists, with_indices)
        return {(group[0][0][0].device, dtype): group for (_, dtype), group in found.items()}

    def reset(device: Any = None) -> None:
        mode.peak = mode.held

    on: Callable[[Tensor], bool] = mode.has
    of_tensors = {
        "device": property(lambda tensor: cuda if on(tensor) else cpu),
        "is_cuda": property(on),
        "is_cpu": property(lambda tensor: not on(tensor)),
        "to": to,
        "cpu": lambda tensor: mode.move(tensor, cpu),
        "cuda": lambda tensor: mode.move(tensor, cuda),
        "numpy": numpy,
        "__array__": lambda tensor, *args, **kwargs: numpy(tensor).__array__(*args, **kwargs),
        "tolist": tolist,
    }
    of_cuda = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_name": lambda device=None: "a pretended device",
        "max_memory_allocated": lambda device=None: mode.peak,
        "reset_peak_memory_stats": reset,
        "synchronize": lambda device=None: None,
    }
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch, "tensor", new))
        stack.enter_context(patch.object(torch._C, "_group_tensors_by_device_and_dtype", groups))
        stack.enter_context(patch.multiple(Tensor, **of_tensors))
        stack.enter_context(patch.multiple(torch.cuda, **of_cuda))
        stack.enter_context(mode)
        yield mode
