-- Declarations of C functions that Tarantool's own modules declare, because scripts call them by ffi.C without a
-- declaration, and of the type of UUIDs. The types are those of Linux. Functions that other modules of ours declare are missing here.
local ffi = require('ffi')

ffi.cdef([[
    typedef int uid_t;
    typedef int gid_t;
    typedef int pid_t;
    typedef long time_t;
    typedef long ssize_t;
    typedef unsigned int socklen_t;

    struct passwd {
        char *pw_name;
        char *pw_passwd;
        int pw_uid;
        int pw_gid;
        char *pw_gecos;
        char *pw_dir;
        char *pw_shell;
    };
    struct passwd *getpwuid(uid_t uid);
    struct passwd *getpwnam(const char *name);
    struct passwd *getpwent(void);
    void setpwent(void);
    void endpwent(void);

    struct group {
        char *gr_name;
        char *gr_passwd;
        gid_t gr_gid;
        char **gr_mem;
    };
    struct group *getgrgid(gid_t gid);
    struct group *getgrnam(const char *name);
    struct group *getgrent(void);
    void setgrent(void);
    void endgrent(void);

    struct tt_uuid {
        uint32_t time_low;
        uint16_t time_mid;
        uint16_t time_hi_and_version;
        uint8_t clock_seq_hi_and_reserved;
        uint8_t clock_seq_low;
        uint8_t node[6];
    };

    uid_t getuid(void);
    gid_t getgid(void);
    pid_t getpid(void);
    ssize_t read(int fd, void *buffer, size_t size);
    ssize_t write(int fd, const void *buffer, size_t size);
    unsigned int umask(unsigned int mask);
]])
