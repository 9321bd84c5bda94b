"""Persistent sweeps: Zarr stores on disk or at any fsspec URL.

A store is a Zarr group (format 3) that ``xarray.open_zarr`` reads. Its arrays have the axes
(point, seed, ...) and are divided into blocks. A block is computed and written as a whole, and each
of its arrays is one object. A store survives a kill at any time, and several processes can share
it, for these reasons:

- An object is written atomically (local files by a rename), and its values never change.
- ``done`` of a block is written last. It is true once the block has been written completely. Until
  then the other arrays may contain anything.
- ``checksum`` has 32 bits for each finished cell. They cover the sweep, the point and its values,
  the seed, and the contents of the cell. A block that was exchanged or copied from another place
  counts as not done. So does a block with an object that does not match its own checksum (Zarr's
  crc32c).
- One object, ``zarr.json`` at the root, identifies the sweep and the shapes of the arrays. It also
  has a digest of itself and digests of the metadata and coordinates, which are written before it. A
  store is extended by replacing this object.
- A sweep rewrites metadata and coordinates that are damaged or missing. A store whose root is
  damaged or missing is refused and not changed.

Processes need no lock, since two that compute the same block write the same bytes.

The root is on disk before the first block is written (fsync of the file and its folder, on local
disks). Everything else is left to the system, so a power failure can lose the last half minute or
so of writes. Empty or incomplete objects are detected and rewritten.
"""

from dpjax.store.blocks import Store as Store
from dpjax.store.objects import Damaged
from dpjax.store.opening import is_empty, read
from dpjax.store.opening import open_store as open_store

__all__ = ["Damaged", "is_empty", "read"]
