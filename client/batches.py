"""Batches as bytes, for those who decode and build them by themselves: `quorate.spark` does so in whole columns.

Only names from `quorate.broker.protocol`; an application that reads and writes records needs nothing of this.
"""

from quorate.broker.protocol.builder import NO_PRODUCER_STATE as NO_PRODUCER_STATE
from quorate.broker.protocol.builder import Producer as Producer
from quorate.broker.protocol.compression import MAX_INFLATED_BYTES as MAX_INFLATED_BYTES
from quorate.broker.protocol.compression import Compression as Compression
from quorate.broker.protocol.compression import deflate as deflate
from quorate.broker.protocol.compression import inflate as inflate
from quorate.broker.protocol.headers import COMPRESSION_MASK as COMPRESSION_MASK
from quorate.broker.protocol.headers import CONTROL as CONTROL
from quorate.broker.protocol.headers import HEADER as HEADER
from quorate.broker.protocol.headers import HEADER_BYTES as HEADER_BYTES
from quorate.broker.protocol.headers import LENGTH_END as LENGTH_END
from quorate.broker.protocol.headers import LOG_APPEND_TIME as LOG_APPEND_TIME
from quorate.broker.protocol.headers import MAGIC as MAGIC
from quorate.broker.protocol.headers import MIN_RECORD_BYTES as MIN_RECORD_BYTES
from quorate.broker.protocol.headers import NO_EPOCH as NO_EPOCH
from quorate.broker.protocol.headers import BadBatch as BadBatch
from quorate.broker.protocol.headers import Buffer as Buffer
from quorate.broker.protocol.headers import Header as Header
from quorate.broker.protocol.headers import Reason as Reason
from quorate.broker.protocol.headers import check_stored as check_stored
from quorate.broker.protocol.headers import pack_header as pack_header
from quorate.broker.protocol.headers import seal as seal
from quorate.broker.protocol.records import read_records as read_records
from quorate.broker.protocol.records import split_batches as split_batches
