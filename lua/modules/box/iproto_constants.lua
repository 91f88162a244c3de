-- Numbers of the binary protocol by name: box.iproto.key, .type and others, those of Tarantool 2.11.
--
-- Some stand for what is not spoken here; box.iproto.protocol_features says what is.
return {
    flag = {
        COMMIT = 1, WAIT_SYNC = 2, WAIT_ACK = 4,
    },
    key = {
        REQUEST_TYPE = 0, SYNC = 1, REPLICA_ID = 2, LSN = 3, TIMESTAMP = 4, SCHEMA_VERSION = 5, SERVER_VERSION = 6,
        GROUP_ID = 7, TSN = 8, FLAGS = 9, STREAM_ID = 10, SPACE_ID = 16, INDEX_ID = 17, LIMIT = 18, OFFSET = 19,
        ITERATOR = 20, INDEX_BASE = 21, FETCH_POSITION = 31, KEY = 32, TUPLE = 33, FUNCTION_NAME = 34,
        USER_NAME = 35, INSTANCE_UUID = 36, REPLICASET_UUID = 37, VCLOCK = 38, EXPR = 39, OPS = 40, BALLOT = 41,
        TUPLE_META = 42, OPTIONS = 43, OLD_TUPLE = 44, NEW_TUPLE = 45, AFTER_POSITION = 46, AFTER_TUPLE = 47,
        DATA = 48, ERROR_24 = 49, METADATA = 50, BIND_METADATA = 51, BIND_COUNT = 52, POSITION = 53, SQL_TEXT = 64,
        SQL_BIND = 65, SQL_INFO = 66, STMT_ID = 67, REPLICA_ANON = 80, ID_FILTER = 81, ERROR = 82, TERM = 83,
        VERSION = 84, FEATURES = 85, TIMEOUT = 86, EVENT_KEY = 87, EVENT_DATA = 88, TXN_ISOLATION = 89,
        VCLOCK_SYNC = 90, AUTH_TYPE = 91, IS_CHECKPOINT_JOIN = 98, CHECKPOINT_VCLOCK = 99, CHECKPOINT_LSN = 100,
    },
    metadata_key = {
        NAME = 0, TYPE = 1, COLL = 2, IS_NULLABLE = 3, IS_AUTOINCREMENT = 4, SPAN = 5,
    },
    ballot_key = {
        IS_RO_CFG = 1, VCLOCK = 2, GC_VCLOCK = 3, IS_RO = 4, IS_ANON = 5, IS_BOOTED = 6, CAN_LEAD = 7,
        BOOTSTRAP_LEADER_UUID = 8, REGISTERED_REPLICA_UUIDS = 9,
    },
    type = {
        UNKNOWN = -1, OK = 0, SELECT = 1, INSERT = 2, REPLACE = 3, UPDATE = 4, DELETE = 5, CALL_16 = 6, AUTH = 7,
        EVAL = 8, UPSERT = 9, CALL = 10, EXECUTE = 11, NOP = 12, PREPARE = 13, BEGIN = 14, COMMIT = 15,
        ROLLBACK = 16, RAFT = 30, RAFT_PROMOTE = 31, RAFT_DEMOTE = 32, RAFT_CONFIRM = 40, RAFT_ROLLBACK = 41,
        PING = 64, JOIN = 65, SUBSCRIBE = 66, VOTE_DEPRECATED = 67, VOTE = 68, FETCH_SNAPSHOT = 69, REGISTER = 70,
        JOIN_META = 71, JOIN_SNAPSHOT = 72, ID = 73, WATCH = 74, UNWATCH = 75, EVENT = 76, CHUNK = 128,
        TYPE_ERROR = 32768,
    },
    raft_key = {
        TERM = 0, VOTE = 1, STATE = 2, VCLOCK = 3, LEADER_ID = 4, IS_LEADER_SEEN = 5,
    },
}
