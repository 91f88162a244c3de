-- tutorial(): an introduction to the node at the console, screen by screen.
--
-- The reader types the lines that begin with `lunabox> `. A test types them all, in their order.
local SCREENS = {
    {'A line of Lua', [[
Every line you enter is Lua. An expression is evaluated, and its value is
shown, so you need no print().

lunabox> 6 * 7
lunabox> 'Hello, ' .. 'Moon', 2.5, true

Enter ends the line if it is complete, and opens another one if it is not.
The arrow keys bring back what you have entered before.]]},
    {'Start the database', [[
box.cfg starts the database. Its data are in memory; each change is also
written to a log in the current directory, from which the next start
restores them. A directory of its own is best:

    $ mkdir sample && cd sample && lunabox

lunabox> box.cfg{log = 'node.log'}
lunabox> box.info.status

The status is "running". Without `log` the messages of the node would appear
here, between your lines.]]},
    {'A space', [[
Data live in spaces, which other databases call tables. This one holds
goods, and its format says what a tuple (a row) consists of:

lunabox> s = box.schema.space.create('goods')
lunabox> s:format{{'id', 'unsigned'}, {'name', 'string'}, {'price', 'number'}}
lunabox> _ = s:create_index('pk', {parts = {'id'}})

The first index is the primary key: every tuple has another value there.
\dt lists your spaces, \d goods describes this one.]]},
    {'Put tuples in', [[
A tuple is a list of values in braces.

lunabox> s:insert{1, 'pear', 2.5}
lunabox> s:insert{2, 'apple', 1}
lunabox> s:insert{3, 'fig', 4}

insert fails if the key is taken. replace takes the place of the old tuple:

lunabox> s:replace{2, 'apple', 1.25}]]},
    {'Look at them', [[
get finds one tuple by its key, select all that match. Fields have names:

lunabox> s:get(1)
lunabox> s:get(1).name
lunabox> s:select({2}, {iterator = 'GE'})

The iterator GE begins at key 2 and goes on to the end. For tables instead
of lists enter:

lunabox> \set output table
lunabox> s:select()
lunabox> \set output yaml]]},
    {'Change one', [[
update changes fields in place: '=' assigns, '+' adds. It returns the new
tuple. delete returns the one it has removed.

lunabox> s:update(1, {{'=', 'price', 3}})
lunabox> s:update(1, {{'+', 'price', 0.5}, {'=', 'name', 'Pear'}})
lunabox> s:delete(3)]]},
    {'A second index', [[
An index on other fields makes searches by them quick. This one is not
unique: two goods may cost the same.

lunabox> _ = s:create_index('price', {parts = {'price'}, unique = false})
lunabox> s.index.price:select({2}, {iterator = 'LE'})
lunabox> s.index.price:max()

It is sorted by price, which is why it knows the greatest.]]},
    {'All or nothing', [[
Statements between box.begin and box.commit take effect together, or not at
all. At the console they have to be on one line:

lunabox> box.begin() s:delete(1) s:delete(2) box.rollback()
lunabox> s:count()

Nothing is gone. box.atomic calls a function, commits, and rolls back if it
fails:

lunabox> box.atomic(function() s:insert{4, 'plum', 2} s:insert{5, 'kiwi', 1} end)]]},
    {'Functions', [[
A function at the console is plain Lua. It runs beside the data, so a loop
costs no round trips over a network:

lunabox> function total() local t = 0 for _, g in s:pairs() do t = t + g.price end return t end
lunabox> total()

pairs walks through an index, one tuple after the other.]]},
    {'Fibers', [[
Fibers do things side by side. Each one runs until it waits, so that nobody
interrupts it in the middle of a change:

lunabox> fiber = require('fiber')
lunabox> f = fiber.new(s.insert, s, {6, 'lime', 1}) f:set_joinable(true)
lunabox> f:join()

Programs for queues, expiry or statistics are fibers of this kind.]]},
    {'Let others in', [[
Programs connect over the network, once the node listens. Users and grants
decide what they may do:

lunabox> box.schema.user.create('shop', {password = 'secret'})
lunabox> box.schema.user.grant('shop', 'read,write', 'space', 'goods')
lunabox> box.cfg{listen = 'unix/:./sample.sock'}

Another terminal opens a console here with

    $ lunabox connect unix/:sample.sock]]},
    {'A snapshot, and the end', [[
The log grows with each change. A snapshot is the whole of the data in one
file, and the next start reads it and what the log has after it:

lunabox> box.snapshot()
lunabox> s:count()

Leave with quit or Ctrl-D, start lunabox in this directory again, enter
box.cfg{log = 'node.log'}, and the goods are back in box.space.goods.

\help lists the commands of this console. This was the last screen.]]},
}

local M = {}

local function screen_text(number)
    local title, body = SCREENS[number][1], SCREENS[number][2]
    local head = ('Tutorial, screen %d of %d: %s'):format(number, #SCREENS, title)
    local foot = number < #SCREENS and "\n\ntutorial('next') goes on." or ''
    return ('%s\n%s\n\n%s%s\n'):format(head, ('='):rep(#head), body, foot)
end

local function list_text()
    local lines = {}
    for number, screen in ipairs(SCREENS) do
        lines[number] = ('%2d  %s\n'):format(number, screen[1])
    end
    return table.concat(lines) .. '\ntutorial(1) begins with the first.\n'
end

-- Returns the text and the number of the next screen. `present` is the number of the last screen, 0 before the first.
function M.show(present, wanted)
    local number
    if wanted == nil or wanted == 'start' then
        number = 1
    elseif wanted == 'list' then
        return list_text(), present
    elseif wanted == 'next' then
        number = math.min(present + 1, #SCREENS)
    elseif wanted == 'prev' then
        number = math.max(present - 1, 1)
    else
        number = tonumber(wanted)
    end
    if number == nil or SCREENS[number] == nil then
        error(([[Usage: tutorial(), tutorial('next' | 'prev' | 'list') or tutorial(1 .. %d)]]):format(#SCREENS), 0)
    end
    return screen_text(number), number
end

return M
