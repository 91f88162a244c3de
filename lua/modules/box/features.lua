-- box.info.features: the supported features of later versions, which box.info.version (2.8.1) does not imply.

local iproto = require('box.iproto')

local LUA = {
    'atomic_options', 'begin_options', 'broadcast', 'txn_id', 'txn_isolation', 'txn_timeout', 'watch',
}

return function()
    local features = {}
    for _, name in ipairs(LUA) do
        features[name] = true
    end
    for name in pairs(iproto.protocol_features) do
        features[name] = true
    end
    return features
end
