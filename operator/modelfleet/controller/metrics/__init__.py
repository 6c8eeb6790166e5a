"""Reads what workers measure, from them or from Prometheus, and keeps it by pod. I/O: HTTP GETs to our own pods."""
