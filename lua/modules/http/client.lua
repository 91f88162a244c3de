-- require('http.client'): a known gap, all functions raise ER_UNSUPPORTED.
local unsupported = require('internal.unsupported')

local client = {}
for _, name in ipairs({
    'new', 'request', 'get', 'post', 'put', 'patch', 'delete', 'head', 'options', 'trace', 'connect',
}) do
    client[name] = unsupported('http.client', name)
end

return client
