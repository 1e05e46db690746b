"""What a client needs of a batch's header: those who may not see `quorate.consensus` find it here.

Not here: records (`records`, `builder`), and whether a broker accepts a batch (`quorate.consensus.batch.validate`).
"""

from quorate.consensus.batch.errors import BadBatch as BadBatch
from quorate.consensus.batch.errors import Reason as Reason
from quorate.consensus.batch.header import COMPRESSION_MASK as COMPRESSION_MASK
from quorate.consensus.batch.header import CONTROL as CONTROL
from quorate.consensus.batch.header import HEADER as HEADER
from quorate.consensus.batch.header import HEADER_BYTES as HEADER_BYTES
from quorate.consensus.batch.header import LENGTH_END as LENGTH_END
from quorate.consensus.batch.header import LOG_APPEND_TIME as LOG_APPEND_TIME
from quorate.consensus.batch.header import MAGIC as MAGIC
from quorate.consensus.batch.header import NO_EPOCH as NO_EPOCH
from quorate.consensus.batch.header import Header as Header
from quorate.consensus.batch.header import pack_header as pack_header
from quorate.consensus.batch.header import seal as seal
from quorate.consensus.batch.validate import MIN_RECORD_BYTES as MIN_RECORD_BYTES
from quorate.consensus.batch.validate import check_stored as check_stored
from quorate.consensus.core.types import Buffer as Buffer
