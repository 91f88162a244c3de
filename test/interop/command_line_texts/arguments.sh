# Options of the executable, scripts and their arguments.

# == version
$T --version | head -n 1 | cut -c -17

# == version short
$T -v | head -n 1 | cut -c -17

# == version upper
$T -V | head -n 1 | cut -c -17

# == version and script
$T -v a.lua | head -n 1 | cut -c -17

# == version among others
$T -e 'print(1)' -v -i | head -n 1 | cut -c -17

# == version lines
$T --version | cut -d: -f1 | tail -n +2 | head -n 1

# == help code
$T --help >/dev/null
$T -h >/dev/null

# == unknown short
$T -x

# == unknown long
$T --nope

# == unknown long with a value
$T --nope=3

# == long with a value
$T --help=3

# == abbreviated long
$T --vers | head -n 1 | cut -c -17

# == ambiguous long
$T --

# == missing value of e
$T -e

# == missing value of l
$T -l

# == unknown among known
$T -ivz

# == known joined
$T -ie 'print(1)'

# == value joined
$T -e'print(1)'

# == unknown after script
$T a.lua -x --nope

# == end of options
$T -- a.lua 1

# == dash
echo "print('in', ...)" | $T - a b

# == dash in the middle
echo 'print(...)' | $T a.lua -

# == dash without input
$T - x

# == missing script
$T no.lua

# == missing script with e
$T -e 'print(1)' no.lua

# == missing folder
$T no/no.lua

# == folder
mkdir d
$T d

# == folder with a slash
mkdir d
$T d/

# == file as folder
$T a.lua/x

# == empty name
$T ''

# == long name
$T $(printf 'x%.0s' $(seq 300))

# == script with arguments
$T a.lua 1 '' 'two words' -e 5

# == script by a path
mkdir d
cp a.lua d
$T ./d/a.lua x

# == script by a whole path
$T $PWD/a.lua x

# == arguments of e
$T -e 'print(arg[-2], arg[-1] ~= nil, arg[0], arg[1], arg[2], #arg, ...)'

# == arguments of e and script
$T -e 'print(arg[-2], arg[-1] ~= nil, arg[0], arg[1], arg[2], #arg, ...)' a.lua x

# == arguments of input
echo 'print(arg[-2], arg[-1] ~= nil, arg[0], arg[1], arg[2], #arg, ...)' | $T

# == arguments of dash
echo 'print(arg[-2], arg[-1] ~= nil, arg[0], arg[1], arg[2], #arg, ...)' | $T - 1 2

# == arg keys
$T -e 'for k, v in pairs(arg) do print(k) end'

# == arg is changed
$T -e "arg[1] = 'new'" a.lua x

# == shebang
printf '#!/usr/bin/env x\nprint(debug.getinfo(1).currentline)\n' > s
$T s

# == shebang of input
printf '#!/usr/bin/env x\nprint(debug.getinfo(1).currentline)\n' | $T

# == only a shebang
printf '#!x' > s
$T s

# == executable script
printf "#!$T\nprint(...)\n" > s
chmod +x s
./s 1 2

# == empty script
: > s
$T s
echo $?

# == bytecode
$T -e "io.open('b', 'w'):write(string.dump(function(...) print('bc', ...) end)):close()"
$T b 1

# == byte order mark
printf '\xef\xbb\xbfprint(1)\n' > s
$T s

# == carriage returns
printf 'print(1)\r\nprint(2)\r\n' > s
$T s

# == nul in a script
printf 'print(1)\0print(2)\n' > s
$T s

# == unreadable text
printf '\xff\xfe' > s
$T s

# == name of chunk
$T c.lua
$T ./c.lua
$T -e 'print(debug.getinfo(1).source)'
echo 'print(debug.getinfo(1).source)' | $T

# == binary name
$T -e 'print(require("fio").basename(arg[-1]))'

# == closed input
$T -e 'print(1)' <&-

# == closed output
$T -e 'print(1)' >&-
echo $?

# == closed errors
$T -e 'error(1)' 2>&-
echo $?

# == full disk
$T -e 'print(1)' >/dev/full
echo $?

# == reader gone
$T -e 'for i = 1, 100000 do print(i) end' | head -n 1
