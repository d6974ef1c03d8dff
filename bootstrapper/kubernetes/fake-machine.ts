import { DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import type { Command, CommandResult } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import {
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  createMemoryLogger,
  type CommandAnswer,
} from '../../internal/testing/index.ts';
import { STATIC_PODS } from './credentials/shared-keys.ts';
import type { PhaseProgress } from '../phases/index.ts';
import type { NodeProbe } from './controlplane/api-probe.ts';
import { ControlPlane } from './controlplane/control-plane.ts';
import { Kubeadm } from './kubeadm/kubeadm.ts';
import { Kubelet } from './kubelet/kubelet.ts';
import { StepCheckpoints } from './step-checkpoints.ts';
import { KUBELET_FILES } from './credentials/key-files.ts';
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
  taints: [],
  apiEndpoint: undefined,
  certificates: DEFAULT_CERTIFICATES,
  podSecurity: undefined,
  hardening: undefined,
  extraArguments: undefined,
  host: { restrictOomScoreAdj: true, failCgroupV1: false },
};
export const etcd: EtcdClientFiles = {
  endpoint: 'https://127.0.0.1:2379',
  caFile: '/e/ca.crt',
  certFile: '/e/client.crt',
  keyFile: '/e/client.key',
};

export const silent: PhaseProgress = { report: () => undefined, reportUnchanged: () => undefined };
export const caKey = generateKeyPem();
export const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem: caKey, nowMs: Date.now() });

export async function placeAuthority(files: FilePort): Promise<void> {
  await files.makeDirectory(PATHS.pki);
  await files.writeAtomic(`${PATHS.pki}/ca.crt`, caPem);
  await files.writeAtomic(`${PATHS.pki}/ca.key`, caKey.reveal());
}

/** Fake commands in which kubeadm writes the static pods. */
class KubeadmCommands extends FakeCommands {
  readonly #files: FilePort;

  constructor(answer: CommandAnswer, files: FilePort) {
    super(answer);
    this.#files = files;
  }

  override async run(command: Command): Promise<CommandResult> {
    const result = await super.run(command);
    if (command.argv.slice(1, 4).join(' ') !== 'init phase control-plane') return result;
    await this.#files.makeDirectory(PATHS.manifests);
    for (const pod of STATIC_PODS) await this.#files.writeAtomic(`${PATHS.manifests}/${pod}.yaml`, pod);
    return result;
  }
}

export function createControlPlane(
  answer: CommandAnswer = () => undefined,
  files: FilePort = new MemoryFiles(),
) {
  const commands = new KubeadmCommands(answer, files);
  const units = new FakeUnits();
  const clock = new FakeClock();
  const probes: Error[] = [];
  const asked: Parameters<NodeProbe>[0][] = [];
  const refusals: Error[] = [];
  const ports = {
    files,
    commands,
    units,
    clock,
    kubeadm: new Kubeadm({ commands, log: createMemoryLogger().log }),
    checkpoints: new StepCheckpoints(files),
    probeNode: (question: Parameters<NodeProbe>[0]) => {
      asked.push(question);
      const refusal = refusals.shift();
      return refusal === undefined ? Promise.resolve() : Promise.reject(refusal);
    },
    probe: () => {
      const failure = probes.shift();
      return failure === undefined ? Promise.resolve() : Promise.reject(failure);
    },
  };
  const create = (
    changes: Partial<KubernetesSettings> = {},
    createsCluster = true,
    restoresCluster = false,
  ): ControlPlane =>
    new ControlPlane(ports, { settings: { ...settings, ...changes }, etcd, createsCluster, restoresCluster });
  const kubelet = (changes: Partial<KubernetesSettings> = {}): Kubelet =>
    new Kubelet(ports, { ...settings, ...changes }, etcd);
  const phasesRun = (): string[] =>
    commands.runs
      .filter(([program]) => program?.endsWith('/kubeadm'))
      .map((argv) => argv.slice(3, argv.indexOf('--config')).join(' '));
  return { create, kubelet, commands, units, clock, files, probes, asked, refusals, phasesRun };
}

export async function placeSharedKeys(files: FilePort): Promise<void> {
  await placeAuthority(files);
  await files.writeAtomic(`${PATHS.pki}/front-proxy-ca.crt`, caPem);
  await files.writeAtomic(`${PATHS.pki}/front-proxy-ca.key`, caKey.reveal());
  for (const name of ['sa.key', 'sa.pub']) await files.writeAtomic(`${PATHS.pki}/${name}`, name);
  await files.makeDirectory('/etc/kubernetes/encryption');
  await files.writeAtomic(PATHS.encryption, 'shared');
}

export async function placeKubelet(files: FilePort): Promise<void> {
  await files.makeDirectory('/var/lib/cluster/kubernetes');
  for (const path of Object.values(KUBELET_FILES)) await files.writeAtomic(path, path);
}

export async function runAll(controlPlane: ControlPlane, progress = silent): Promise<void> {
  await controlPlane.createPki(progress, never);
  await controlPlane.start(progress, never);
  await controlPlane.storeSettings(progress, never);
}
