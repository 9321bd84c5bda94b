"""Persistent sweeps: Zarr stores on disk or at any fsspec URL.

A store is a Zarr group (format 3) that ``xarray.open_zarr`` reads. Its arrays have the axes
(point, seed, ...) and are divided into blocks. A block is computed and written as a whole, one
object for each array. A process can be killed at any time without damage to the store, and several
processes can share a store, for these reasons:

- An object is written atomically (local files by a rename), and its values never change.
- ``done`` of a block is written last. It is true once the block has been written completely. Until
  then the other arrays may contain anything.
- ``checksum`` has 32 bits for each finished cell. They cover the sweep, the point and its values,
  the seed, and the contents of the cell. A block that was copied from another place counts as not
  done. So does a block with an object that does not match the object's own checksum (Zarr's
  crc32c).
- One object, the root ``zarr.json``, identifies the sweep and the shapes of the arrays. It also
  contains a digest of itself. A store is created by writing the root, and extended by replacing it.
- Metadata and coordinates, which only other readers of Zarr need, follow from the root. A sweep
  writes those that are missing or damaged. A store whose root is damaged or missing is refused and
  not changed.

Processes need no lock, since two processes that compute the same block write the same bytes.

The root is on disk before the first block is written (fsync of the file and its folder, on local
disks). The operating system flushes all other objects, so a power failure can lose about the last
half minute of writes. Empty or incomplete objects are detected and rewritten.
"""

from dpjax.store.blocks import Store as Store
from dpjax.store.objects import Damaged
from dpjax.store.opening import check as check
from dpjax.store.opening import is_empty, read
from dpjax.store.opening import open_store as open_store

__all__ = ["Damaged", "is_empty", "read"]
