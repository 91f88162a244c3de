"""The features of the binary protocol that a client can ask for, as the 2.11 line numbers and names them."""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = 4
"""The version in the answer to IPROTO_ID: it counts the changes of the table below, whose newest one are pages."""
FEATURES: Final[dict[str, int]] = {
    "streams": 0,
    "transactions": 1,
    "error_extension": 2,
    "watchers": 3,
    "pagination": 4,
}
"""The number, in the request IPROTO_ID, of each optional part of the protocol that this node offers."""
