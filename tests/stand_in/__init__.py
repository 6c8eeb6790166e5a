"""The parts of the stand-in engine (stand_in_engine.py): options, cache, steps, API, metrics, vLLM's module names."""
