"""What checkers know of a package that imports on first use: the names of its `__all__`."""

from dpoco.adapters import gradients as gradients
from dpoco.adapters import river as river
from dpoco.adapters import sklearn as sklearn
from dpoco.adapters import torch as torch
