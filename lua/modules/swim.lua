-- require('swim'): the membership protocol. It is not implemented: new() raises ER_UNSUPPORTED.
return {new = require('internal.unsupported')('swim', 'new')}
