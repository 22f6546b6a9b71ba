"""ttRPC: gRPC's calls over a plain stream socket, without HTTP/2, as containerd speaks it."""
