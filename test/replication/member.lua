#!/usr/bin/env lunabox
-- A replica of the server that it was created for. Its first argument says whether it may write.
require('console').listen(os.getenv('ADMIN'))
box.cfg{
    listen = os.getenv('LISTEN'),
    replication = os.getenv('MASTER'),
    replication_timeout = 0.1,
    read_only = arg[1] == 'read_only',
    memtx_use_mvcc_engine = arg[2] == 'mvcc',
}
