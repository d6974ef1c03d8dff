module cluster/e2e/atls-peer

go 1.26
