// Reads pieces of a file with davix' vector read and compares them with the file itself.
//
// usage: davix_read URL FILE CA_DIRECTORY TOKEN COUNT

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <davix.hpp>

static int give_up(const char *what, Davix::DavixError *error) {
    std::fprintf(stderr, "%s: %s\n", what, error ? error->getErrMsg().c_str() : "no error");
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    const std::string url = argv[1];
    std::ifstream file(argv[2], std::ios::binary);
    const std::vector<char> whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t count = std::strtoul(argv[5], nullptr, 10);
    const size_t size = 1000;

    Davix::Context context;
    Davix::RequestParams params;
    params.addCertificateAuthorityPath(argv[3]);
    params.addHeader("Authorization", std::string("Bearer ") + argv[4]);
    Davix::DavPosix posix(&context);
    Davix::DavixError *error = nullptr;
    DAVIX_FD *fd = posix.open(&params, url, O_RDONLY, &error);
    if (!fd) return give_up("open", error);

    std::vector<std::vector<char>> pieces(count, std::vector<char>(size));
    std::vector<Davix::DavIOVecInput> wanted(count);
    std::vector<Davix::DavIOVecOuput> got(count);
    const size_t step = (whole.size() - size) / count;
    for (size_t piece = 0; piece < count; ++piece) {
        // Neither in order nor apart from each other everywhere.
        const size_t at = (piece * 7919 % count) * step;
        wanted[piece].diov_buffer = pieces[piece].data();
        wanted[piece].diov_offset = at;
        wanted[piece].diov_size = size;
    }
    const dav_ssize_t read = posix.preadVec(fd, wanted.data(), got.data(), count, &error);
    // What it returns is not compared: davix 0.8.4 counts one byte too few, with nginx 1.22 as well.
    if (read < 0) return give_up("preadVec", error);
    for (size_t piece = 0; piece < count; ++piece) {
        const bool is_right = got[piece].diov_size == static_cast<dav_ssize_t>(size) &&
                              std::memcmp(pieces[piece].data(), whole.data() + wanted[piece].diov_offset, size) == 0;
        if (!is_right) return give_up("a piece differs", nullptr);
    }
    posix.close(fd, &error);
    std::printf("read %zu pieces\n", count);
    return 0;
}
