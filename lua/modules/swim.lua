-- require('swim'): the membership protocol. A known gap: new() raises ER_UNSUPPORTED.
return {new = require('internal.unsupported')('swim', 'new')}
