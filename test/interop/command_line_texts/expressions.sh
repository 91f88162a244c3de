# -e and -l, and what comes after them.

# == one
$T -e 'print(1)'

# == two
$T -e 'print(1)' -e 'print(2)'

# == globals
$T -e 'x = 1' -e 'print(x)'

# == locals
$T -e 'local x = 1' -e 'print(x)'

# == a result
$T -e 'return 5'

# == a result in a script
echo 'return 5' > s
$T s

# == equals
$T -e '= 5'

# == empty
$T -e ''

# == syntax
$T -e 'print('

# == syntax of the second
$T -e 'print(1)' -e 'x ='

# == error
$T -e 'error("x")'

# == error of level 0
$T -e 'error("x", 0)'

# == error of a table
$T -e 'error({1})'

# == error of a table with code
$T -e 'error({code = 1, reason = "x"})'

# == error of nil
$T -e 'error()'

# == error of a number
$T -e 'error(42)'

# == error of true
$T -e 'error(true)'

# == error with tostring
$T -e 'error(setmetatable({}, {__tostring = function() return "me" end}))'

# == box error
$T -e 'box.error(box.error.UNKNOWN)'

# == box error with arguments
$T -e 'box.error(box.error.NO_SUCH_SPACE, "s")'

# == box error of a table
$T -e 'box.error{code = 5, reason = "x", type = "T"}'

# == box error of a type
$T -e 'box.error{reason = "x", type = "T"}'

# == box error with causes
$T -e 'local e = box.error.new{reason = "a"} e:set_prev(box.error.new{reason = "b"}) e:raise()'

# == error of a function
$T -e 'local function f() error("deep") end f()'

# == call of nil
$T -e 'nothing()'

# == index of nil
$T -e 'print(nothing.x)'

# == undeclared
$T -e 'print(undeclared)'

# == undeclared in a function
$T -e 'local function f() undeclared = 1 end f() print(undeclared)'

# == stack overflow
$T -e 'local function f() return 1 + f() end f()'

# == library
$T -l json -e 'print(json.encode{1})'

# == library after
$T -e 'print(json)' -l json

# == library joined
$T -ljson -e 'print(json.encode{1})'

# == library with a dot
$T -l net.box -e 'print(type(_G["net.box"]), type(net))'

# == library missing
$T -l nope -e 'print(1)' 2>&1 | head -n 3

# == library that fails
echo 'error("bad")' > m.lua
$T -l m

# == library that cannot be parsed
echo 'x =' > m.lua
$T -l m

# == library of the folder
echo 'return {x = 7}' > m.lua
$T -l m -e 'print(m.x)'

# == library without a value
echo 'y = 7' > m.lua
$T -l m -e 'print(m, y)'

# == library and script
echo 'return {x = 7}' > m.lua
echo 'print(m.x, ...)' > s
$T -l m s 1

# == script after e
$T -e 'print(1)' a.lua x

# == input after e
echo 'print(2)' | $T -e 'print(1)'

# == e and dash
echo 'print(2, ...)' | $T -e 'print(1)' - z

# == error skips script
$T -e 'error(1)' a.lua

# == exit skips script
$T -e 'os.exit(3)' a.lua

# == exit skips e
$T -e 'os.exit(3)' -e 'print(1)'

# == sleep
$T -e 'require("fiber").sleep(0.01) print(1)'

# == fiber of e goes on
$T -e 'f = require("fiber").create(function() require("fiber").sleep(0.1) print(2) os.exit(4) end)' -e 'print(1)'

# == fiber name
$T -e 'print(require("fiber").name())'
echo 'print(require("fiber").name())' > s
$T s
$T < s

# == fiber id
$T -e 'print(require("fiber").id())'
echo 'print(require("fiber").id())' | $T
