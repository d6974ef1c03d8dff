/**
 * Every TCP port that a node listens on or that a client of a node dials. ARCHITECTURE.md describes the
 * listeners and their clients; `internal/preflight` checks that the ports are free.
 */
export const PORTS = {
  /** The agent of a machine that is not a node yet. The owner connects to this agent. */
  init: 9000,
  /** The join service of a control plane. */
  join: 9090,
  /** The curator of a control plane. */
  curator: 9091,
  /** The authorization webhook of the API server, on the loopback. */
  authorization: 9092,
  /** Workers listen here and forward connections to curators and to join services. */
  curatorRelay: 9093,
  joinRelay: 9094,
  /** Prometheus metrics, on the loopback. */
  agentMetrics: 9095,
  joinserviceMetrics: 9096,
  /** The metrics of all programs of a node, for holders of a Kubernetes token with the right to read them. */
  exporter: 9097,
  /** The metrics port is on the loopback only. */
  kubernetesEtcd: { client: 2379, peer: 2380, metrics: 2381 },
  stateEtcd: { client: 2382, peer: 2383, metrics: 2384 },
  /** An etcd member that runs alone while a lost quorum is recovered, on the loopback. */
  recoveryEtcd: { client: 2385, peer: 2386, metrics: 2387 },
  /** An etcd member that runs alone while a scheduled backup is proved, on the loopback. */
  proofEtcd: { client: 2388, peer: 2389, metrics: 2390 },
  /** The health of flannel, on the loopback, with the built-in network chart only. */
  flannelHealth: 9098,
  apiServer: 6443,
  /** The balancer of the API servers that each node has on its loopback. */
  apiBalancer: 6445,
  kubeletHealth: 10248,
  kubelet: 10250,
  kubeProxyHealth: 10256,
  controllerManager: 10257,
  scheduler: 10259,
} as const;

/** The UDP port on which nodes exchange the packets of pods, with the built-in network chart only: the default of flannel's VXLAN. */
export const VXLAN_PORT = 8472;

/** The same with `networking.backend: wireguard`: the defaults of flannel's WireGuard, one for each IP family of pods. */
export const WIREGUARD_PORTS = { ipv4: 51820, ipv6: 51821 } as const;
