module cluster.test/registry-peer

go 1.26

require github.com/google/go-containerregistry v0.20.7
