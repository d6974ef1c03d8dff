import { type Component, encodeManifest } from '../../internal/bundle/index.ts';
import type { Membership } from '../membership/index.ts';
import type { EtcdClientFiles, HostSettings } from '../kubernetes/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import type { BootstrapData, ClusterSettings, LocalComponents, RoleSet } from './role-values.ts';

export const host: HostSettings = { restrictOomScoreAdj: false, failCgroupV1: true };
/** Credentials with which an API server reaches its etcd. */
export const etcd: EtcdClientFiles = {
  endpoint: 'https://127.0.0.1:2379',
  caFile: 'ca',
  certFile: 'crt',
  keyFile: 'key',
};
const component = (name: string, more: Partial<Component>): Component => ({
  name,
  version: 'v1',
  kind: 'binary',
  sha256: 'ab'.repeat(32),
  sizeBytes: 1,
  source: 'test',
  scope: 'node',
  ...more,
});
const manifest = encodeManifest({
  version: 1,
  name: 'kubernetes-v1.35.4-linux-amd64',
  kubernetesVersion: 'v1.35.4',
  architecture: 'amd64',
  components: [
    component('etcd', { scope: 'controlplane' }),
    component('kubelet', {}),
    component('pause', { kind: 'image', references: ['registry.k8s.io/pause:3.10.1'] }),
  ],
});
export const settings: ClusterSettings = {
  clusterName: 'blue',
  kubernetesVersion: 'v1.35.4',
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  apiServerSans: [],
  bundleManifest: Buffer.from(manifest).toString('utf8'),
};
export const bootstrap: BootstrapData = {
  initId: 'i',
  spec: {
    ...settings,
    clusterId: 'a'.repeat(32),
    nodeName: 'n1',
    singleNode: true,
    kubernetesAdminCsrBase64: '',
    ownerCsrBase64: '',
    clusterUnlockKeyHex: '',
    configuration: '{}',
  },
};
export const membership: Membership = {
  clusterId: 'a'.repeat(32),
  clusterName: 'blue',
  nodeId: 'node-1',
  nodeName: 'n1',
  nodeAddress: '198.18.0.11',
  nodeCertPem: '',
  clusterCaPem: '',
  epoch: 1,
  directory: [{ nodeId: 'node-1', host: '198.18.0.11' }],
};
/** All components are installed and imported. */
export const components: LocalComponents = {
  kubernetesVersion: 'v1.35.4',
  controlPlane: true,
  images: 'imported',
};
export const all: RoleSet = new Set(['ConsensusMember', 'KubernetesController', 'KubernetesWorker']);
export const none: RoleSet = new Set();
export const workerOnly: RoleSet = new Set(['KubernetesWorker']);

/** Phases that only record their names. */
export class NotedPhases implements PhaseReporter {
  readonly names: string[] = [];

  run<T>(phase: string, work: Parameters<PhaseReporter['run']>[1]): Promise<T> {
    this.names.push(phase);
    return work({ report: () => undefined, reportUnchanged: () => undefined }) as Promise<T>;
  }
}
