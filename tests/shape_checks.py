"""The checker of the shapes in annotations: beartype, with an int being good enough for a float."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
