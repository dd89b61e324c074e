"""How much of a model lies in its largest tensor: what Tiresias goes by.

Counted from the architectures: the largest layer's weights, by all parameters of the profile.
"""

from collections.abc import Mapping

from scheduler.domain.communication import CommunicationProfile
from scheduler.network.profiles import BUILT_IN, find_model

LARGEST_TENSORS: Mapping[str, int] = {
    "alexnet": 9_216 * 4_096,  # first fully connected layer
    "vgg16": 25_088 * 4_096,  # the same
    "inception-v3": 2_048 * 1_000,  # classifier
    "resnet18-cifar": 512 * 512 * 9,  # convolutions of the last stage
    "resnet50": 512 * 512 * 9,
    "resnet50-cifar": 512 * 512 * 9,
    "resnet152": 512 * 512 * 9,
    "resnext101": 1_024 * 2_048,
    "unet": 1_024 * 1_024 * 9,
    "yolov3": 512 * 1_024 * 9,
    "bert-base": 30_522 * 768,  # word embeddings, as in all that follow
    "bert-large": 30_522 * 1_024,
    "electra-base": 30_522 * 768,
    "bart-large": 50_265 * 1_024,
    "gpt2-small": 50_257 * 768,
    "llama3.1-8b": 128_256 * 4_096,
    "llama3.1-70b": 128_256 * 8_192,
    "llama3.1-405b": 128_256 * 16_384,
    "vae-cf": 20_108 * 600,  # from and to the items
}
"""Parameters of the largest tensor of built-in models."""


def tensor_skew(profile: CommunicationProfile | None) -> float | None:
    """The largest tensor's share of the model; None if the model is not named or not known."""
    if profile is None or not profile.model or profile.own_model is not None:
        return None
    model = find_model(profile.model, BUILT_IN)
    largest = None if model is None else LARGEST_TENSORS.get(model.name)
    return None if model is None or largest is None else largest / model.parameters
