#!/usr/bin/env lunabox
-- Another replica like member.lua: the files of an instance have the name of its script.
require('console').listen(os.getenv('ADMIN'))
box.cfg{
    listen = os.getenv('LISTEN'),
    replication = os.getenv('MASTER'),
    replication_timeout = 0.1,
    read_only = arg[1] == 'read_only',
    memtx_use_mvcc_engine = arg[2] == 'mvcc',
}
