-- Values, errors, delimiters and continuation lines.
test_run = require('test_run').new()
1, 'two', {3}
x.y

-- A command over several lines.
function add(a, b)  \
    return a + b    \
end
add(1, 2)
test_run:cmd("setopt delimiter ';'")
for i = 1, 2 do
-- a comment is not sent
    add(i, i)

end;
add(3,
    4);
test_run:cmd("setopt delimiter ''");
test_run:cmd("push filter 'function: .*' to 'function>'")
print
test_run:cmd("clear filter")
test_run:cmd('nonsense')
test_run:get_server_name()
test_run:eval('default', 'return 1, {2}')
box.info.status
test_run:wait_cond(function() return true end)
