"""The vision tower that rides along with some language models, as far as memory depends on it. Pure."""

from modelfleet.core.model.keys import Keys


def vision_parameters(keys: Keys, hidden: int) -> int:
    """Parameters of the tower and of its projection to `hidden`; 0 without one.

    A plain vision transformer: four projections, two matrices (three in Gemma 4 and Pixtral) and two norms a layer.
    SigLIP in Gemma 3 comes out exact; others are within a tenth, of a part that is below 2 % of the model.
    """
    vision = keys.inner("vision_config")
    if vision is None:
        return 0
    vision = Keys(vision.values, vision.name, vision.path)
    if not (vision.has("hidden_size") or vision.has("vt_hidden_size")):
        return 0
    width = vision.size("hidden_size", "vt_hidden_size", most=10**6)
    inner = vision.size("intermediate_size", "vt_intermediate_size", most=10**7, default=4 * width)
    layers = vision.size("num_hidden_layers", "vt_num_hidden_layers", "depth", most=10_000, default=24)
    patch = vision.size("patch_size", most=10_000, default=14)
    side = vision.size("image_size", least=0, most=10**6, default=0) // patch
    matrices = 3 if vision.text("model_type") in ("gemma4_vision", "pixtral") else 2
    layer = 4 * width * (width + 1) + matrices * width * inner + inner + width + 4 * width
    merge = vision.size("spatial_merge_size", most=1_000, default=1) ** 2
    projection = width * hidden + width if merge == 1 else width * merge * (width * merge + hidden)
    positions = vision.size("num_position_embeddings", most=10**7, default=side * side)
    positions = 2 * vision.size("position_embedding_size", most=10**7, default=0) or positions
    return layers * layer + (3 * patch * patch + 1 + positions + 2) * width + projection
