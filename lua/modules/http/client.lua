-- require('http.client'): requests to web servers. A failed request also returns a status; wrong arguments raise.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local gc = require('internal.finalizers').raw_gc
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local wait = require('internal.wait')

local error, ipairs, next, pairs, pcall, type = error, ipairs, next, pairs, pcall, type
local setmetatable, tonumber, tostring, unpack = setmetatable, tonumber, tostring, unpack

local OK = 200
local FAILURES = {[408] = true, [444] = true, [495] = true, [595] = true}

-- Of these repeated fields the first counts. The values of other fields are joined by commas.
local SINGLE = {}
for _, name in ipairs({
    'age', 'authorization', 'content-length', 'content-type', 'etag', 'expires', 'from', 'host', 'if-modified-since',
    'if-unmodified-since', 'last-modified', 'location', 'max-forwards', 'proxy-authorization', 'referer', 'retry-after',
    'user-agent',
}) do
    SINGLE[name] = true
end

local COOKIE_OPTIONS = {}
for _, name in ipairs({'Expires', 'Max-Age', 'Domain', 'Path', 'Secure', 'HttpOnly', 'SameSite'}) do
    COOKIE_OPTIONS[name] = true
end

local TEXTS = {
    'ca_path', 'ca_file', 'unix_socket', 'ssl_key', 'ssl_cert', 'interface', 'accept_encoding', 'proxy',
    'proxy_user_pwd', 'no_proxy',
}
local WHOLE = {'keepalive_idle', 'keepalive_interval', 'low_speed_limit', 'low_speed_time', 'proxy_port'}
local FLAGS = {'verify_host', 'verify_peer', 'follow_location', 'verbose'}

-- A longer timeout, in seconds, is none.
local FOREVER = 365 * 86400 * 100
-- The most bytes of a header field of a request, with its name.
local LONGEST_FIELD = 8192

-- Returns the fields as C sees them, nil if there are none.
local function check_headers(headers)
    if type(headers) ~= 'table' then
        error('opts.headers should be a table')
    end
    local fields = {}
    for name, value in pairs(headers) do
        if type(value) ~= 'string' then
            error('opts.headers values should be strings')
        elseif type(name) ~= 'string' then
            error('opts.headers keys should be strings')
        elseif #name + #': ' + #value > LONGEST_FIELD then
            error(require('internal.error').new_here({type = 'IllegalParams', message = 'header is too large'}), 0)
        end
        fields[name] = arguments.c_text(value)
    end
    return next(fields) and fields or nil
end

-- Returns the text of an option as C sees it: a zero byte ends it, and a value that is neither text nor number is none.
local function c_text(value)
    local text = arguments.text(value)
    return text and arguments.c_text(text)
end

local function options_of(given)
    local options = {}
    for _, name in ipairs(TEXTS) do
        options[name] = c_text(given[name])
    end
    for _, name in ipairs(WHOLE) do
        options[name] = arguments.whole(given[name])
    end
    if type(given.timeout) ~= 'nil' then
        local timeout = arguments.number(given.timeout) or 0
        options.timeout = timeout < FOREVER and timeout or nil
    end
    for _, name in ipairs(FLAGS) do
        if type(given[name]) == 'boolean' then
            options[name] = given[name]
        end
    end
    if given.headers ~= nil then
        options.headers = check_headers(given.headers)
    end
    return options
end

-- ---- responses -------------------------------------------------------------------------------

local function cookie_of(text)
    local parts = text:split(';')
    local name, value = parts[1]:match('^%s*([^=]-)%s*=%s*(.-)%s*$')
    if name == nil or name == '' or name:find('[][()<>@,;:\\"/?={} \t]') then
        return nil
    end
    local options = {}
    for number = 2, #parts do
        if COOKIE_OPTIONS[parts[number]:split('=')[1]:strip()] then
            options[#options + 1] = parts[number]:strip()
        end
    end
    return name, {value, options}
end

local function cookies_of(values)
    local cookies = {}
    for _, text in ipairs(values) do
        local name, cookie = cookie_of(text)
        if name ~= nil then
            cookies[name] = cookie
        end
    end
    return cookies
end

-- Like Tarantool, cuts longer names.
local NAME_LENGTH = 32

-- Returns the values of the fields by their names, which are cut to a length.
local function cut_names(headers, longest)
    local cut = {}
    for name, values in pairs(headers) do
        cut[name:sub(1, longest)] = values
    end
    return cut
end

local function join_values(headers)
    local joined = {}
    for name, values in pairs(headers) do
        joined[name] = SINGLE[name] and values[1] or table.concat(values, ',')
    end
    return joined
end

local function response_of(given, head, body)
    local told = msgpack.decode(head)
    -- Plain tables: those that were decoded are shown in another style.
    local response = {status = told.status, reason = told.reason, headers = told.headers}
    response.proto = told.proto and {unpack(told.proto)}
    if response.headers ~= nil then
        local headers = cut_names(response.headers, tonumber(given.max_header_name_length) or NAME_LENGTH)
        if headers['set-cookie'] ~= nil then
            response.cookies = cookies_of(headers['set-cookie'])
        end
        response.headers = join_values(headers)
    end
    if #body > 0 then
        response.body = body
    end
    return response
end

-- ---- clients ---------------------------------------------------------------------------------

local methods = {}

local function count(statistics, response)
    if response == nil or FAILURES[response.status] and response.headers == nil then
        statistics.failed_requests = statistics.failed_requests + 1
    elseif response.status == OK then
        statistics.http_200_responses = statistics.http_200_responses + 1
    else
        statistics.http_other_responses = statistics.http_other_responses + 1
    end
end

ffi.cdef('struct http_client { double number; };')

local handle_type = ffi.typeof('struct http_client')

local function collect(handle)
    python.http_close(handle.number)
end

-- Returns the number of a client, which the first request opens.
local function number_of(client)
    if client._handle == nil then
        client._handle = gc(handle_type(python.http_open(unpack(client._limits))), collect)
    end
    return client._handle.number
end

-- Raises an error unless an argument of a request is a text or a number.
local function check_text(value, position)
    if arguments.text(value) == nil then
        error(("bad argument #%d to 'request' (string expected, got %s)"):format(position, type(value)), 2)
    end
end

function methods.request(self, method, url, body, given)
    if not method or not url then
        error('request(method, url[, body, [options]])')
    end
    given = given or {}
    check_text(method, 1)
    check_text(url, 2)
    if body ~= nil and type(body) ~= 'string' and type(body) ~= 'number' then
        error('fourth argument must be a string')
    elseif type(given) ~= 'table' then
        error('fifth argument must be a table')
    end
    local packed = msgpack.encode({method = c_text(method), url = c_text(url), options = options_of(given)})
    local statistics = self._statistics
    statistics.total_requests = statistics.total_requests + 1
    statistics.active_requests = statistics.active_requests + 1
    local ok, head, answer = pcall(wait, python.http_request(number_of(self), packed, body and tostring(body) or ''))
    statistics.active_requests = statistics.active_requests - 1
    local response = ok and response_of(given, head, answer) or nil
    count(statistics, response)
    if not ok then
        error(head, 0)
    end
    return response
end

local function check_self(self, name)
    if type(self) ~= 'table' then
        error(('Use client:%s(...) instead of client.%s(...):'):format(name, name))
    end
end

for _, name in ipairs({'get', 'options', 'head', 'delete', 'trace', 'connect'}) do
    methods[name] = function(self, url, options)
        check_self(self, name)
        return self:request(name:upper(), url, nil, options)
    end
end

for _, name in ipairs({'post', 'put', 'patch'}) do
    methods[name] = function(self, url, body, options)
        check_self(self, name)
        return self:request(name:upper(), url, body, options)
    end
end

function methods.stat(self)
    local statistics = table.copy(self._statistics)
    if self._handle ~= nil then
        statistics.sockets_added, statistics.sockets_deleted =
            unpack(msgpack.decode(python.http_sockets(self._handle.number)))
    end
    return statistics
end

local client_mt = {__index = methods}

local client = {}

-- Makes a client. `max_connections` stay open after use (-1: libcurl decides); `max_total_connections` are open at a time
-- (0: any number). As in Tarantool, the defaults are written into the table of the user.
function client.new(opts)
    opts = opts or {}
    opts.max_connections = opts.max_connections or -1
    opts.max_total_connections = opts.max_total_connections or 0
    for _, name in ipairs({'max_connections', 'max_total_connections'}) do
        local value = opts[name]
        if arguments.number(value) == nil then
            error(("bad argument #%d to 'new' (number expected, got %s)"):format(
                name == 'max_connections' and 1 or 2, type(value)))
        end
    end
    return setmetatable({
        -- Programs cannot use it. Tarantool has an object of libcurl here, which no format can encode either.
        curl = newproxy(),
        _limits = {opts.max_connections, opts.max_total_connections},
        _statistics = {
            active_requests = 0, sockets_added = 0, sockets_deleted = 0, total_requests = 0, http_200_responses = 0,
            http_other_responses = 0, failed_requests = 0,
        },
    }, client_mt)
end

local default = client.new()
for name in pairs(methods) do
    if name ~= 'stat' then
        client[name] = function(...)
            return methods[name](default, ...)
        end
    end
end

return client
