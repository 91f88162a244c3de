test_run = require('test_run').new()
engine = test_run:get_cfg('engine')
engine == 'memtx' or engine == 'other'
test_run:get_cfg('nothing')
