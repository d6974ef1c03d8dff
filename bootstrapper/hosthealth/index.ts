/**
 * What is wrong on the machine of this node, for its status: services of systemd that do not run, and why, from their logs; settings of the kernel; nodes that do
 * not answer through the network of pods, or that full-size packets do not reach; how long the others take to answer; the DNS of the cluster.
 * Restarts services that are hung. While nothing is wrong, this costs one connection to each service every four seconds, and no process.
 */
export { createMachineCheck, type MachineProblem } from './machine-problems.ts';
export { answerTimeMs } from './answer-time.ts';
export { tryFullPackets } from './full-packets.ts';
export {
  hasPodNetwork,
  POD_INTERFACES,
  PodNetworkProbe,
  type PodNetworkHealth,
} from './pod-network-probe.ts';
export type { RoundTrip } from './round-trips.ts';
export { lookUpName, NameLookupProbe, type NameLookup } from './name-lookup-probe.ts';
export { StaticPodLogs } from './static-pod-logs.ts';
export { HostServices, hostServices, withHung, type ServiceProblem } from './host-services.ts';
export { answeringServices, HungServices } from './hung-services.ts';
