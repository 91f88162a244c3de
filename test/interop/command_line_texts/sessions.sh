# Sessions without a terminal, and programs on standard input.

# == i and e
echo '1 + 1' | $T -i -e 'print(1)'

# == i and input
printf '1\n2, 3\n' | $T -i

# == i and script
printf 'x\n' | $T -i s

# == i and an error in the script
echo '1' | $T -i -e 'error(1)'
echo $?

# == i and exit
printf 'os.exit(5)\n1\n' | $T -i
echo $?

# == i and a multi-line statement
printf 'for i = 1, 2 do\nprint(i)\nend\n' | $T -i

# == i and an incomplete statement
printf 'for i = 1, 2 do\n' | $T -i

# == i and an error
printf 'error(1)\nnothing()\nx =\n' | $T -i

# == i and box.cfg
printf "box.cfg{log = 'l'}\nbox.info.status\n" | $T -i

# == i and a failed box.cfg
printf "box.cfg{memtx_dir = 'no'}\n1\n" | $T -i
echo $?

# == i and a wrong option
printf "box.cfg{nope = 1}\n1\n" | $T -i
echo $?

# == i without a newline
printf '1 + 1' | $T -i

# == i and nothing
$T -i
echo $?

# == i and an empty line
printf '\n\n1\n' | $T -i

# == i and help
printf 'help\n' | $T -i

# == i and a tutorial
printf 'help(1)\ntutorial()\n' | $T -i | tail -n 5

# == i and set
printf '\\set output lua\n{1, a = 2}\n\\set output yaml\n1\n' | $T -i

# == i and a bad set
printf '\\set x\n\\nope\n\\set language x\n' | $T -i

# == i and help of set
printf '\\help\n' | $T -i

# == i and delimiter
printf "\\set delimiter ;\n1;\n2\n+ 3;\n" | $T -i

# == i and quit
printf '\\quit\n1\n' | $T -i
echo $?

# == i and print
printf 'print(1)\nio.write(2)\n' | $T -i

# == i and a long line
printf "#'%%s'\n" $(printf 'x%%.0s' $(seq 3000)) | $T -i | tail -n 3 | cut -c -60

# == i and fiber
printf 'require("fiber").self():name()\nrequire("fiber").id()\n' | $T -i

# == i and console start
printf 'require("console").start()\n1\n' | $T -i

# == i and tabs
printf '1\t+\t1\n' | $T -i

# == i and locals
printf 'local a = 1\na\n' | $T -i

# == i and on_shutdown
printf 'box.ctl.on_shutdown(function() print(7) end)\n' | $T -i

# == i and script with arguments
printf '...\narg[1]\n' | $T -i s 5

# == i and dash
printf '1\n' | $T -i -

# == two lines on input
printf 'print(1)\nprint(2)\n' | $T
echo $?

# == input without newline
printf 'print(1)' | $T

# == input is empty
$T </dev/null
echo $?

# == input fails
printf 'print(1)\nerror(2)\n' | $T
echo $?

# == input does not parse
printf 'print(1)\nx =\n' | $T
echo $?

# == input starts an instance
printf "box.cfg{log = 'l'} print(box.info.status) os.exit(2)" | $T
echo $?

# == input is a folder
$T < .
echo $?

# == console in a script
printf '1\n2\n' > in
echo 'require("console").start() print("after")' > c
$T c < in
echo $?

# == console twice
printf '1\n' > in
echo 'require("console").start() require("console").start()' > c
$T c < in
echo $?

# == read in a script
printf 'one\ntwo\n' > in
echo 'print(io.read()) print(io.read("*a"))' > r
$T r < in
