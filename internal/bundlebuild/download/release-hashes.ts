/**
 * The hashes of upstream's released files, by URL: SHA-256 (64 hex digits) or SHA-512 (128). A release is added here, with the URL
 * from `pinnedReleases()`. A file without a hash here is built from source; nothing else changes.
 *
 * Sources:
 * - Kubernetes: the changelog of upstream, CHANGELOG/CHANGELOG-1.3x.md in the Go module k8s.io/kubernetes of a later version
 *   (here v1.38.0-beta.0), which the Go checksum database vouches for.
 * - All others: what upstream published, as at least two independent public repositories have pinned it (such as kubespray for the
 *   CNI plugins). For etcd v3.6.16 and v3.7.3, containerd v2.4.2, runc v1.5.3, CNI plugins v1.10.0, Helm v4.3.2 and
 *   CoreDNS on arm64, no two sources were found.
 */
export const RELEASE_HASHES: Readonly<Record<string, string>> = {
  'https://dl.k8s.io/v1.35.4/kubernetes-server-linux-amd64.tar.gz':
    '7454c2d9023de3230972e965e1e2a587a291e2a1abee703bb0737057e1646b23ebac538b93dd778e93579e3c293dc1fa8d002e6848ad5ebc01598bc47358fe44',
  'https://dl.k8s.io/v1.35.4/kubernetes-server-linux-arm64.tar.gz':
    '67187a2fe780be7816f9d10e082ed02cbba306bab379980280d00ba4c4017ff53c50cd2ff81d248c91ddcc064276b8760e17c73a1a7da1d35067a6fc0ffbdc88',
  'https://dl.k8s.io/v1.36.3/kubernetes-server-linux-amd64.tar.gz':
    'b0fc15554233d9dcf7284bca259bc238aa89003dc2d821f7074f385f3825dead854ae175482ccb5632a0930ffc1d3c0eff1cda2ada972fba9a5d46033a8b1e52',
  'https://dl.k8s.io/v1.36.3/kubernetes-server-linux-arm64.tar.gz':
    '65c78d6893d683fc5e7f232f8638243886c8b1b7dbe055746ae7d38fdf8016456b1710ce4fc1133127880a65aed9492f737995694462baad13495a7f3d9ef0c5',
  'https://dl.k8s.io/v1.37.2/kubernetes-server-linux-amd64.tar.gz':
    '0956faf23fbe144f7b7d787bd3c9fa601a2916c30152d7788f4d5155168d1db353e252ee865f196c55c24b5c1e8ef9aa351ce5aa34afe2506ed5f88864f6ce0c',
  'https://dl.k8s.io/v1.37.2/kubernetes-server-linux-arm64.tar.gz':
    'cd1b134bbc30a3ba07579556ee03b630412adbc443b262d5fe42527c6c316393b1cc4a58ba2fb83b030c571494dcae6a8d49818245c192efc97ffcedd90b0b41',
  'https://github.com/containernetworking/plugins/releases/download/v0.9.1/cni-plugins-linux-amd64-v0.9.1.tgz':
    '962100bbc4baeaaa5748cdbfce941f756b1531c2eadb290129401498bfac21e7',
  'https://github.com/containernetworking/plugins/releases/download/v0.9.1/cni-plugins-linux-arm64-v0.9.1.tgz':
    'ef17764ffd6cdcb16d76401bac1db6acc050c9b088f1be5efa0e094ea3b01df0',
  'https://github.com/coredns/coredns/releases/download/v1.14.2/coredns_1.14.2_linux_amd64.tgz':
    '2f08896df9d28ea0cd2294037e6d66e82f996b504e4901b791be8a3ae042029b',
  'https://github.com/coredns/coredns/releases/download/v1.14.6/coredns_1.14.6_linux_amd64.tgz':
    '4402578c8f7b95dac1d8258bfd13e7a9d30f70d7a53f396b02a6d6ca78d56152',
};
