"""A plan as one self-contained page of HTML: to look at before it is read."""
