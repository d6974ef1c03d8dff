import { DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import { createAuthorityPem, generateKeyPem } from '../../internal/pki/index.ts';
import {
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  createMemoryLogger,
  type CommandAnswer,
} from '../../internal/testing/index.ts';
import type { PhaseProgress } from '../phases/index.ts';
import { ControlPlane } from './control-plane.ts';
import { Kubeadm } from './kubeadm.ts';
import { Kubelet } from './kubelet.ts';
import { Marks } from './marks.ts';
import { KUBELET_FILES } from './material.ts';
import { PATHS, type EtcdClientFiles, type KubernetesSettings } from './settings.ts';

export const never = new AbortController().signal;
export const settings: KubernetesSettings = {
  version: 'v1.35.4',
  clusterName: 'blue',
  nodeId: 'node-1',
  nodeName: 'n1',
  nodeAddress: '198.18.0.11',
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  apiServerSans: ['api.example.test', '192.0.2.7'],
  runsWorkloads: true,
  apiEndpoint: undefined,
  certificates: DEFAULT_CERTIFICATES,
  host: { restrictOomScoreAdj: true, failCgroupV1: false },
};
export const etcd: EtcdClientFiles = {
  endpoint: 'https://127.0.0.1:2379',
  caFile: '/e/ca.crt',
  certFile: '/e/client.crt',
  keyFile: '/e/client.key',
};

export const silent: PhaseProgress = { say: () => undefined, already: () => undefined };
export const caKey = generateKeyPem();
export const caPem = await createAuthorityPem({ commonName: 'kubernetes', keyPem: caKey, nowMs: Date.now() });

export async function placeAuthority(files: MemoryFiles): Promise<void> {
  await files.makeDirectory(PATHS.pki);
  await files.writeAtomic(`${PATHS.pki}/ca.crt`, caPem);
  await files.writeAtomic(`${PATHS.pki}/ca.key`, caKey.reveal());
}

export function createControlPlane(answer: CommandAnswer = () => undefined, files = new MemoryFiles()) {
  const commands = new FakeCommands(answer);
  const units = new FakeUnits();
  const clock = new FakeClock();
  const probes: Error[] = [];
  const ports = {
    files,
    commands,
    units,
    clock,
    kubeadm: new Kubeadm({ commands, log: createMemoryLogger().log }),
    marks: new Marks(files),
    probeNode: () => Promise.resolve(),
    probe: () => {
      const failure = probes.shift();
      return failure === undefined ? Promise.resolve() : Promise.reject(failure);
    },
  };
  const create = (changes: Partial<KubernetesSettings> = {}, creates = true): ControlPlane =>
    new ControlPlane(ports, { settings: { ...settings, ...changes }, etcd, creates });
  const kubelet = (): Kubelet => new Kubelet(ports, settings, etcd);
  const phasesRun = (): string[] =>
    commands.runs
      .filter(([program]) => program?.endsWith('/kubeadm'))
      .map((argv) => argv.slice(3, argv.indexOf('--config')).join(' '));
  return { create, kubelet, commands, units, clock, files, probes, phasesRun };
}

export async function placeSharedKeys(files: MemoryFiles): Promise<void> {
  await placeAuthority(files);
  for (const name of ['front-proxy-ca.crt', 'front-proxy-ca.key', 'sa.key', 'sa.pub'])
    await files.writeAtomic(`${PATHS.pki}/${name}`, name);
  await files.makeDirectory('/etc/kubernetes/encryption');
  await files.writeAtomic(PATHS.encryption, 'shared');
}

export async function placeKubelet(files: MemoryFiles): Promise<void> {
  await files.makeDirectory('/var/lib/cluster/kubernetes');
  for (const path of Object.values(KUBELET_FILES)) await files.writeAtomic(path, path);
}

export async function runAll(controlPlane: ControlPlane, progress = silent): Promise<void> {
  await controlPlane.makePki(progress, never);
  await controlPlane.start(progress, never);
  await controlPlane.storeSettings(progress, never);
}

export const MAKES_KUBECONFIGS = ['admin', 'super-admin'].map((name) => `kubeconfig ${name}`);
