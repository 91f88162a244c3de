#!/usr/bin/env lunabox
-- A writable master like master.lua, to be killed.
box.cfg{
    listen = os.getenv('LISTEN'),
    replication_timeout = 0.1,
}
require('console').listen(os.getenv('ADMIN'))
