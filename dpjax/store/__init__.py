"""Sweeps on disk, or behind any fsspec URL, as Zarr stores that outlive the process.

A store is a Zarr group (format 3) that ``xarray.open_zarr`` reads. Its arrays have the axes
(point, seed, ...) and are cut into blocks. A block is computed and written as a whole, and each of
its arrays is one object. A store survives a kill at any moment, and several processes can share it,
for these reasons:

- An object appears at once or not at all (local files by a rename), and never changes its values.
- ``done`` of a block is written last. Where it is false, the other arrays may hold anything.
- ``checksum`` has 32 bits for each cell that is done. They cover the sweep, the point and its
  values, the seed, and all that the cell holds. A block that was exchanged or copied from another
  place counts as not done. So does a block with an object that does not fit its own checksum
  (Zarr's crc32c).
- One object, ``zarr.json`` at the root, holds all that identifies the sweep and the shape of the
  arrays. It also holds a digest of itself and digests of the metadata and coordinates, which are
  written before it. A store grows when this object is replaced.
- A sweep writes metadata and coordinates again if they are damaged or gone. A store whose root is
  damaged or gone is refused and left as it is.

Processes need no lock, since two that compute the same block write the same bytes.

The root is on the disk before a block is begun (fsync of the file and its folder, on local disks).
Everything else is left to the system, so a power failure can cost what was written in the last half
minute or so. What it leaves empty or torn is found, and written again.
"""

from dpjax.store.blocks import Store as Store
from dpjax.store.objects import Damaged
from dpjax.store.opening import is_empty, read
from dpjax.store.opening import open_store as open_store

__all__ = ["Damaged", "is_empty", "read"]
