-- Scripts that check themselves with `tap`, and end with the code of their checks.

-- == passing
local test = require('tap').test('passing')
test:plan(6)
test:ok(true, 'ok')
test:is(1, 1, 'is')
test:isnt(1, 2, 'isnt')
test:is_deeply({1, {a = 2}}, {1, {a = 2}}, 'is_deeply')
test:like('abc', 'b', 'like')
test:unlike('abc', 'x', 'unlike')
os.exit(test:check() and 0 or 1)

-- == failing
local test = require('tap').test('failing')
test:plan(9)
local function deep()
    test:ok(false, 'ok')
end
deep()
test:is(1, 'one', 'is')
test:isnt('x', 'x', 'isnt')
test:is_deeply({a = {1, {b = 2}}}, {a = {1, {b = 3}}}, 'is_deeply')
test:is_deeply({1, 2}, {1, 2, 3}, 'missing')
test:is_deeply({1, 2, 3}, {1, 2}, 'too many')
test:like('abc', 'x', 'like')
test:unlike('abc', 'b', 'unlike')
test:fail('fail', {why = 'because'})
os.exit(test:check() and 0 or 1)

-- == failing without a trace
local test = require('tap').test('failing')
test.trace = false
test:plan(3)
test:ok(false, 'ok')
test:ok(nil, 'with extra', {a = 1})
test:is(nil, false, 'is')
os.exit(test:check() and 0 or 1)

-- == bad plan
local test = require('tap').test('bad plan')
test:plan(3)
test:ok(true, 'one')
print(test:check())
print(pcall(test.check, test))

-- == no plan
local test = require('tap').test('no plan')
print(test:check(), test.planned, test.total, test.failed)

-- == types
local ffi = require('ffi')
local test = require('tap').test('types')
test.trace = false
test:plan(20)
test:isnil(nil, 'nil')
test:isnil(1, 'not nil')
test:isnumber(1, 'number')
test:isnumber('1', 'not a number')
test:isstring('', 'string')
test:isstring(1, 'not a string')
test:istable({}, 'table')
test:istable(1, 'not a table')
test:isboolean(false, 'boolean')
test:isboolean(nil, 'not a boolean')
test:isfunction(print, 'function')
test:isfunction(test, 'not a function')
test:isudata(require('fiber').self(), 'fiber', 'userdata')
test:isudata(1, 'fiber', 'not userdata')
test:iscdata(1ULL, 'uint64_t', 'cdata')
test:iscdata(1LL, 'uint64_t', 'other cdata')
test:iscdata(1, 'uint64_t', 'not cdata')
test:is(1ULL, 1, 'numbers')
test:is(box.NULL, nil, 'null')
test:is_deeply({box.NULL}, {}, 'nulls')
os.exit(test:check() and 0 or 1)

-- == strict
local test = require('tap').test('strict')
test.strict, test.trace = true, false
test:plan(4)
test:is(box.NULL, nil, 'null')
test:is(1ULL, 1, 'numbers')
test:is_deeply({a = box.NULL}, {}, 'nulls')
test:is_deeply({1, '1'}, {1, 1}, 'types')
test:check()

-- == nested
local test = require('tap').test('outer')
test:plan(4)
test:test('inner', function(t, a, b)
    t:plan(2)
    t:is(a, 1, 'first')
    t:is(b, 2, 'second')
end, 1, 2)
test:test('failing', function(t)
    t:plan(2)
    t.trace = false
    t:ok(true, 'passes')
    t:test('deepest', function(tt)
        tt:plan(1)
        tt:ok(false, 'fails', {x = {1, 2}})
    end)
end)
test:test('bad plan', function(t)
    t.trace = false
    t:plan(5)
    t:ok(true, 'one')
end)
local t = test:test('by hand')
t:plan(1)
t:ok(true, 'one')
print(t:check())
os.exit(test:check() and 0 or 1)

-- == skip and diag
local test = require('tap').test('skip')
test:plan(3)
test:skip('not now')
test:skip('nor this', {reason = 'none'})
test:diag('%d of %s', 5, 'six')
test:diag('100%%')
test:ok(true, 'TODO # todo later')
test:check()
print(pcall(test.skip, test))
print(pcall(test.diag, test))
print(pcall(test.plan, test))

-- == odd values
local test = require('tap').test('odd')
test.trace = false
test:plan(9)
test:is(0 / 0, 0 / 0, 'nan')
test:is_deeply(0 / 0, 0 / 0, 'nan deeply')
test:is(print, nil, 'function')
test:is_deeply({[1] = 1, x = {}}, {[1] = 1, x = {1}}, 'tables')
test:is(setmetatable({}, {__tostring = function() return 'me' end}), 1, 'tostring')
test:is(setmetatable({}, {__serialize = function() return {9} end}), 1, 'serialize')
test:is('two\nlines', 'a: b', 'texts')
test:is('\xff', '', 'bytes')
test:is_deeply(box.tuple and {1} or nil, 5, 'number')
test:check()

-- == an error in the middle
local test = require('tap').test('error')
test:plan(2)
test:ok(true, 'one')
error('in the middle')

-- == an error in a nested test
local test = require('tap').test('error')
test:plan(2)
test:test('inner', function(t)
    t:plan(1)
    local x = nil
    t:ok(x.y, 'never')
end)

-- == a trace through modules
package.path = 'd/?.lua;' .. package.path
local file = io.open('d/checks.lua', 'w')
file:write("local M = {}\nfunction M.check(test)\n    test:ok(false, 'fails')\nend\nreturn M\n")
file:close()
local test = require('tap').test('trace')
test:plan(2)
require('checks').check(test)
local function run(f, ...) return f(...) end
run(function() test:is(1, 2, 'by a function') end)
test:check()

-- == in a fiber
local fiber = require('fiber')
local test = require('tap').test('fiber')
test:plan(2)
local f = fiber.create(function()
    fiber.sleep(0)
    test:ok(false, 'fails')
end)
f:set_joinable(true)
f:join()
test:ok(not pcall(error), 'passes')
os.exit(test:check() and 0 or 1)

-- == other programs
local popen, fio = require('popen'), require('fio')
local test = require('tap').test('programs')
test.trace = false
test:plan(7)
local function run(source)
    local name = fio.pathjoin(fio.cwd(), 'child.lua')
    local file = fio.open(name, {'O_CREAT', 'O_WRONLY', 'O_TRUNC'}, tonumber('644', 8))
    file:write(source)
    file:close()
    local p = popen.new({arg[-1], name, 'x'}, {stdin = 'devnull', stdout = 'pipe', stderr = 'pipe'})
    local out, err = '', ''
    repeat local part = p:read() out = out .. (part or '') until part == nil or part == ''
    repeat local part = p:read({stderr = true}) err = err .. (part or '') until part == nil or part == ''
    local status = p:wait()
    p:close()
    return out, err, status.state, status.exit_code or status.signo
end
test:is_deeply({run('print(...)')}, {'x\n', '', 'exited', 0}, 'print')
test:is_deeply({run('io.stderr:write("e") os.exit(7)')}, {'', 'e', 'exited', 7}, 'exit')
test:is_deeply({run('x =')}, {}, 'does not parse')
test:is_deeply({run('error("e")')}, {}, 'error')
test:is_deeply({run('os.exit(256)')}, {'', '', 'exited', 0}, 'large code')
test:is_deeply({run('require("ffi").cdef("int raise(int);") require("ffi").C.raise(9)')}, {'', '', 'signaled', 9}, 'kill')
test:is_deeply({run('local t = require("tap").test("t") t:plan(1) t:ok(false, "x", {}) os.exit(t:check() and 0 or 1)')}, {}, 'tap')
os.exit(test:check() and 0 or 1)
