-- require('popen'): other programs. A known gap: the constants are here, the functions raise ER_UNSUPPORTED.
local unsupported = require('internal.unsupported')

local SIGNALS = {
    'HUP', 'INT', 'QUIT', 'ILL', 'TRAP', 'ABRT', 'BUS', 'FPE', 'KILL', 'USR1', 'SEGV', 'USR2', 'PIPE', 'ALRM', 'TERM',
    'STKFLT', 'CHLD', 'CONT', 'STOP', 'TSTP', 'TTIN', 'TTOU', 'URG', 'XCPU', 'XFSZ', 'VTALRM', 'PROF', 'WINCH', 'IO',
    'PWR', 'SYS',
}
local signal = {}
for number, name in ipairs(SIGNALS) do
    signal['SIG' .. name] = number
end
signal.SIGIOT, signal.SIGPOLL = signal.SIGABRT, signal.SIGIO

return {
    new = unsupported('popen', 'new'),
    shell = unsupported('popen', 'shell'),
    opts = {INHERIT = 'inherit', DEVNULL = 'devnull', CLOSE = 'close', PIPE = 'pipe'},
    state = {ALIVE = 'alive', EXITED = 'exited', SIGNALED = 'signaled'},
    stream = {OPEN = 'open', CLOSED = 'closed'},
    signal = signal,
}
