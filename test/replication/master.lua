#!/usr/bin/env lunabox
-- The default server: a writable master that notices a lost peer quickly.
box.cfg{
    listen = os.getenv('LISTEN'),
    replication_timeout = 0.1,
}
require('console').listen(os.getenv('ADMIN'))
