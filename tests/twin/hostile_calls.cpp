// Tries to change a file, a process and sockets outside of a sandbox, and prints the result of each system call.
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

namespace {

void Print(const char* name, long result)
{
    std::printf("%s %ld %d\n", name, result, result < 0 ? errno : 0);
    std::fflush(stdout);
}

#define TRY(call) Print(#call, call)

void TryFile(const char* victim, const char* folder)
{
    const int file = open(victim, O_RDONLY);                     // NOLINT
    const int directory = open(folder, O_RDONLY | O_DIRECTORY);  // NOLINT
    Print("open", file);
    TRY(chmod(victim, 0777));
    TRY(fchmod(file, 0777));
    TRY(fchmodat(AT_FDCWD, victim, 0777, 0));
    TRY(syscall(452, AT_FDCWD, victim, 0777, 0));  // fchmodat2
    TRY(chown(victim, 12, 34));
    TRY(lchown(victim, 12, 34));
    TRY(fchown(file, 12, 34));
    TRY(fchownat(AT_FDCWD, victim, 12, 34, 0));
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    const timeval values[2] = {{1000, 0}, {1000, 0}};
    const utimbuf seconds = {1000, 1000};
    TRY(utimensat(AT_FDCWD, victim, times, 0));
    TRY(futimens(file, times));
    TRY(utimes(victim, values));
    TRY(futimesat(AT_FDCWD, victim, values));
    TRY(utime(victim, &seconds));
    TRY(setxattr(victim, "user.hostile", "1", 1, 0));
    TRY(lsetxattr(victim, "user.hostile", "1", 1, 0));
    TRY(fsetxattr(file, "user.hostile", "1", 1, 0));
    TRY(syscall(463, AT_FDCWD, victim, 0, "user.hostile", nullptr, 0));  // setxattrat
    TRY(removexattr(victim, "user.kept"));
    TRY(lremovexattr(victim, "user.kept"));
    TRY(fremovexattr(file, "user.kept"));
    TRY(syscall(466, AT_FDCWD, victim, 0, "user.kept"));           // removexattrat
    TRY(syscall(469, AT_FDCWD, victim, nullptr, 0, 0));            // file_setattr
    int flags = 0x40;                                              // FS_NODUMP_FL
    TRY(ioctl(file, _IOW('f', 2, long), &flags));                  // FS_IOC_SETFLAGS
    TRY(ioctl(file, _IOC(_IOC_WRITE, 'X', 32, 28), nullptr));      // FS_IOC_FSSETXATTR
    TRY(ioctl(file, _IOC(_IOC_WRITE, 'f', 133, 128), nullptr));    // FS_IOC_ENABLE_VERITY
    TRY(ioctl(directory, _IOC(_IOC_READ, 'f', 19, 12), nullptr));  // FS_IOC_SET_ENCRYPTION_POLICY
    TRY(truncate(victim, 1));
    TRY(open(victim, O_RDONLY | O_TRUNC));
    TRY(open(victim, O_WRONLY));
    TRY(open(victim, O_RDWR | O_APPEND));
    TRY(creat(victim, 0777));
    TRY(unlink(victim));
    TRY(rename(victim, "moved"));
    TRY(link(victim, "linked"));
    TRY(symlink(victim, (std::string(folder) + "/link").c_str()));
    TRY(mkdir((std::string(folder) + "/made").c_str(), 0777));
    TRY(mknod((std::string(folder) + "/pipe").c_str(), S_IFIFO | 0777, 0));
    TRY(mknod("disk", S_IFBLK | 0777, 0x0700));
    TRY(mknod("characters", S_IFCHR | 0777, 0x0103));
    TRY(flock(file, LOCK_EX | LOCK_NB));
    struct flock lock = {F_RDLCK, SEEK_SET, 0, 0, 0};
    TRY(fcntl(file, F_SETLK, &lock));
    TRY(fcntl(file, 1024, F_RDLCK));  // F_SETLEASE
    std::uint64_t hint = 2;
    TRY(fcntl(file, 1036, &hint));  // F_SET_RW_HINT
}

void TryProcess(pid_t other)
{
    rlimit most = {1000, 1000};
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(0, &cores);
    sched_param none = {0};
    siginfo_t information = {};
    information.si_code = SI_QUEUE;
    TRY(kill(other, SIGUSR1));
    TRY(syscall(SYS_tkill, other, SIGUSR1));
    TRY(syscall(SYS_tgkill, other, other, SIGUSR1));
    TRY(syscall(SYS_rt_sigqueueinfo, other, SIGUSR1, &information));
    TRY(syscall(SYS_rt_tgsigqueueinfo, other, other, SIGUSR1, &information));
    const long handle = syscall(434, other, 0);  // pidfd_open
    Print("pidfd_open", handle);
    TRY(syscall(424, handle, SIGUSR1, nullptr, 0));  // pidfd_send_signal
    TRY(syscall(438, handle, 0, 0));                 // pidfd_getfd
    TRY(ptrace(PTRACE_ATTACH, other, nullptr, nullptr));
    char byte = 0;
    iovec here = {&byte, 1};
    TRY(syscall(SYS_process_vm_writev, other, &here, 1, &here, 1, 0));
    TRY(syscall(SYS_prlimit64, other, RLIMIT_NOFILE, &most, nullptr));
    TRY(setrlimit(RLIMIT_CORE, &most));
    TRY(setpriority(PRIO_PROCESS, other, 9));
    TRY(sched_setaffinity(other, sizeof(cores), &cores));
    TRY(sched_setscheduler(other, SCHED_BATCH, &none));
    TRY(syscall(SYS_ioprio_set, 1, other, 3 << 13));
    int ends[2];
    if (pipe(ends) == 0) {
        TRY(fcntl(ends[0], F_SETOWN, other));
    }
}

sockaddr_un LocalAddress(const std::string& name)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    return address;
}

void TrySockets(const std::string& path, const std::string& abstract, int port)
{
    const int families[][2] = {{AF_INET, SOCK_STREAM}, {AF_INET, SOCK_DGRAM}, {AF_INET6, SOCK_DGRAM},
                               {AF_UNIX, SOCK_STREAM}, {AF_UNIX, SOCK_DGRAM}, {AF_NETLINK, SOCK_RAW},
                               {AF_PACKET, SOCK_RAW},  {AF_INET, SOCK_RAW},   {40, SOCK_STREAM}};
    for (const auto& [family, kind] : families) {
        TRY(socket(family, kind, 0));
    }
    sockaddr_in network = {};
    network.sin_family = AF_INET;
    network.sin_port = htons(port);
    network.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int datagram = socket(AF_INET, SOCK_DGRAM, 0);
    TRY(sendto(datagram, "x", 1, 0, reinterpret_cast<sockaddr*>(&network), sizeof(network)));
    for (const std::string& name : {path, '\0' + abstract}) {
        const sockaddr_un address = LocalAddress(name);
        const socklen_t size = offsetof(sockaddr_un, sun_path) + name.size();
        const int stream = socket(AF_UNIX, SOCK_STREAM, 0);
        TRY(connect(stream, reinterpret_cast<const sockaddr*>(&address), size));
        int pair[2] = {-1, -1};
        TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
        TRY(sendto(pair[0], "x", 1, 0, reinterpret_cast<const sockaddr*>(&address), size));
    }
}

void TryMachine()
{
    TRY(memfd_create("memory", 0));
    const void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TRY(shared == MAP_FAILED ? -1 : 0);
    const std::string environment = "/proc/" + std::to_string(getppid()) + "/environ";
    TRY(open(environment.c_str(), O_RDONLY) < 0 ? -1 : 0);      // NOLINT
    TRY(madvise(nullptr, 4096, 100));                           // MADV_HWPOISON
    TRY(madvise(nullptr, 4096, 101));                           // MADV_SOFT_OFFLINE
    TRY(syscall(SYS_clone, 0x10000000 | SIGCHLD, 0, 0, 0, 0));  // CLONE_NEWUSER
    TRY(unshare(0x10000000));
    TRY(open("/dev/kmsg", O_RDONLY));
    TRY(open("/dev/mem", O_RDONLY));
}

}  // namespace

int main(int count, char** words)
{
    if (count == 2) {  // one number for each call, without arguments
        for (long number; std::scanf("%ld", &number) == 1;) {
            Print(std::to_string(number).c_str(), syscall(number, 0, 0, 0, 0, 0, 0));
        }
        return 0;
    }
    TryFile(words[1], words[2]);
    if (count == 3) {
        return 0;
    }
    TryProcess(std::atoi(words[3]));
    TrySockets(words[4], words[5], std::atoi(words[6]));
    TryMachine();
#ifdef __x86_64__
    long result = 15;  // chmod for 32-bit programs
    asm volatile("int $0x80" : "+a"(result) : "b"(words[1]), "c"(0777) : "memory");
    std::printf("int80 %ld 0\n", result);
#endif
    return 0;
}
