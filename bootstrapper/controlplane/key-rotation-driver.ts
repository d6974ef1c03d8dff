import { X509Certificate } from 'node:crypto';
import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { combine, currentValue, when } from '../../internal/event/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  LATER_KEYS,
  parseKeySet,
  ROTATION_FILE,
  ROTATING_KEYS,
  type KeySet,
  type RotatingPair,
  type RotatingPairs,
} from '../../internal/keyset/index.ts';
import { accessFromKubeconfig, KubeClient } from '../../internal/kube/client/index.ts';
import { isIssuedByOneOf } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { directoryFromMembership } from '../curatorclient/index.ts';
import type { JoinClient, OpenedTicket } from '../joinclient/index.ts';
import {
  INITIAL_STAGE,
  installSharedKeys,
  isSetOf,
  type CertificateIssuers,
  type KeyRotationDriver,
  KeyRotationError,
  type KeyStore,
} from '../keyrotation/index.ts';
import {
  CONTROL_PLANE_KEY_FILES,
  ControlPlane,
  type ControlPlanePorts,
  type EtcdClientFiles,
  type EncryptedEtcd,
  hasOutdatedServersCa,
  type HostSettings,
  isKubeletClientIssuedBy,
  Kubelet,
  type KubernetesSettings,
  PATHS,
  removeRetiredCas,
  restartForServingCertificate,
  rewriteObjects,
  rewriteWith,
  ROTATED_FILES,
  writeKubeletClientsCa,
  writeKubeletServersCa,
} from '../kubernetes/index.ts';
import type { PhaseProgress } from '../phases/index.ts';
import { planKubernetes, type RoleValues } from '../roleserve/index.ts';
import { installKubeletCertificates, type UpdateMembership } from '../credentials/index.ts';
import type { MachineControlPlaneDriver } from './control-plane-driver.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

/** Time limit of one ticket request; the driver repeats the request later. */
const TICKET_MS = 60_000;

/** Ports (injected dependencies) of the driver. */
export interface KeyRotationDriverPorts {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly store: KeyStore;
  readonly values: RoleValues;
  readonly joinClient: Pick<JoinClient, 'rejoin'>;
  readonly updateMembership: UpdateMembership;
  readonly controlPlane: Pick<MachineControlPlaneDriver, 'rekey'>;
  readonly refreshSigner: (signal: AbortSignal) => Promise<void>;
  /** Root client of the local member of Kubernetes' etcd, while this node is a control plane. */
  readonly kubernetesEtcd: () => EncryptedEtcd | undefined;
  readonly kubernetes: {
    readonly ports: ControlPlanePorts;
    readonly host: HostSettings;
    readonly nodeId: string;
    readonly ownAddress: () => string;
    readonly secondaryAddress: (address: string) => string | undefined;
    readonly etcd: EtcdClientFiles;
  };
}

/** Creates the driver that carries out a key rotation on this machine. */
export function createKeyRotationDriver(ports: KeyRotationDriverPorts): KeyRotationDriver {
  const { files, values, store } = ports;
  return {
    fetch: async (made, signal) => {
      const ticket = await requestTicket(ports, made.by, signal);
      const text = ticket.controlPlaneKeys?.get(ROTATION_FILE);
      const set = text === undefined ? undefined : parseKeySet('the keys in a ticket', text.reveal());
      if (isSetOf(set, made)) return set;
      const message = `keys of generation ${made.generation} not received`;
      throw new KeyRotationError('keyrotation-keys-unavailable', message);
    },
    activate: async (say, signal) => {
      await installSharedKeys(files, store, AGENT_PATHS.state);
      say('control plane of this node');
      await when(values.localControlPlane, (running) => running !== undefined, signal);
      await when(values.kubernetesStatus, (now) => now?.controlPlane === true, signal);
      const { ports: machine, etcd } = ports.kubernetes;
      const options = { settings: settingsOf(ports), etcd, createsCluster: false, restoresCluster: false };
      const controlPlane = new ControlPlane(machine, options);
      await ports.controlPlane.rekey((held) => controlPlane.rekey(progressOf(say), held), say, signal);
      await ports.refreshSigner(signal);
    },
    rewriteEncrypted: (say, signal) => rewriteEncrypted(ports, say, signal),
    removeRetiredKeys: (signal) => removeRetiredCas(ports.kubernetes.ports, signal),
    trustClusterCas: async (clusterCaPem) => {
      await ports.updateMembership((now) => ({ ...now, clusterCaPem }));
    },
    renewCertificates: async (issuers, signal) => {
      if (await areIssuedBy(ports, issuers)) return false;
      const ticket = await requestTicket(ports, undefined, signal);
      await installKubeletCertificates(files, ticket);
      await ports.updateMembership((now) => ({ ...now, nodeCertPem: ticket.nodeCertPem }));
      if (await areIssuedBy(ports, issuers)) return true;
      throw new KeyRotationError(
        'keyrotation-keys-unavailable',
        'certificates of this node signed by another CA',
      );
    },
    trustCas: async ({ clientsPem, serversPem }, signal) => {
      await writeKubeletClientsCa(files, clientsPem);
      if (serversPem !== undefined) await writeKubeletServersCa(files, serversPem);
      await when(values.kubernetesStatus, (now) => now !== undefined, signal);
      const { ports: machine, etcd } = ports.kubernetes;
      const kubelet = new Kubelet(machine, settingsOf(ports), etcd);
      await kubelet.start(
        progressOf(() => undefined),
        signal,
      );
    },
    hasOutdatedServersCa: () => hasOutdatedServersCa(files),
    restartKubelet: async (signal) => {
      await when(values.kubernetesStatus, (now) => now !== undefined, signal);
      await restartForServingCertificate(ports.kubernetes.ports, signal);
    },
  };
}

/** Whether these CAs have signed the certificates of the node and of its kubelet as a client. */
async function areIssuedBy(
  { files, values }: Pick<KeyRotationDriverPorts, 'files' | 'values'>,
  issuers: CertificateIssuers,
): Promise<boolean> {
  const membership = currentValue(values.clusterMembership);
  const isNodeCurrent =
    issuers.clusterCaPem === undefined ||
    (membership !== undefined &&
      isIssuedByOneOf(new X509Certificate(membership.nodeCertPem), issuers.clusterCaPem));
  return isNodeCurrent && (await isKubeletClientIssuedBy(files, issuers.kubernetesClientsCaPem));
}

/**
 * Encrypts the objects again with the new encryption key. Does nothing in a rotation that an agent of an earlier
 * version began, because that rotation keeps the encryption key.
 */
async function rewriteEncrypted(
  { files, clock, store, kubernetesEtcd }: KeyRotationDriverPorts,
  say: (what: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const encryption = (await store.loadSet())?.encryption;
  if (encryption === undefined) return;
  const etcd = kubernetesEtcd();
  const admin = await readText(files, PATHS.adminConf);
  if (etcd === undefined || admin === undefined)
    throw new KeyRotationError(
      'keyrotation-keys-unavailable',
      'rewriting encrypted objects: no control plane here',
    );
  using api = new KubeClient(accessFromKubeconfig(admin, PATHS.adminConf), { clock });
  const { resources, next } = encryption;
  const options = { etcd, clock, resources, keyName: next.name, say, rewrite: rewriteWith(api) };
  const { objects } = await rewriteObjects(options, signal);
  say(`all ${objects} objects are encrypted with key ${next.name}`);
}

/**
 * Reads all shared keys of this control plane. Keys that no rotation has replaced yet are the keys with which the
 * cluster was created; they are the same in both generations. Before the first rotation, one CA signs all Kubernetes
 * certificates.
 * @throws KeyRotationError `keyrotation-keys-unavailable`
 */
export async function readSharedKeys(
  files: FilePort,
  store: Pick<KeyStore, 'loadSet'>,
): Promise<KeySet<keyof RotatingPairs>> {
  const set = await store.loadSet();
  if (set === undefined && (await files.stat(ROTATED_FILES.issuerCert)) !== undefined)
    throw new KeyRotationError('keyrotation-keys-unavailable', 'active keys of this node not found');
  const first: Partial<Record<keyof RotatingPairs, RotatingPair>> = {};
  for (const name of [...ROTATING_KEYS, ...LATER_KEYS])
    if (set?.next[name] === undefined) first[name] = await readFirstPair(files, FIRST_NAMES[name]);
  const of = (pairs?: RotatingPairs) => ({ ...first, ...pairs }) as RotatingPairs<keyof RotatingPairs>;
  return { ...INITIAL_STAGE, ...set, previous: of(set?.previous), next: of(set?.next) };
}

async function readFirstPair(
  files: FilePort,
  [publicName, privateName]: readonly [KeyFile, KeyFile],
): Promise<RotatingPair> {
  const read = async (name: KeyFile): Promise<string> => {
    const path = CONTROL_PLANE_KEY_FILES[name];
    const text = await readText(files, path);
    if (text === undefined)
      throw new KeyRotationError('keyrotation-keys-unavailable', `${path} not found`, { details: { path } });
    return text;
  };
  return { public: await read(publicName), private: new Secret(await read(privateName)) };
}

type KeyFile = keyof typeof CONTROL_PLANE_KEY_FILES;
const FIRST_NAMES: Readonly<Record<keyof RotatingPairs, readonly [KeyFile, KeyFile]>> = {
  'etcd-clients-ca': ['etcd-clients-ca.crt', 'etcd-clients-ca.key'],
  'etcd-peers-ca': ['etcd-peers-ca.crt', 'etcd-peers-ca.key'],
  'state-clients-ca': ['state-clients-ca.crt', 'state-clients-ca.key'],
  'state-peers-ca': ['state-peers-ca.crt', 'state-peers-ca.key'],
  'kubernetes-clients-ca': ['kubernetes-ca.crt', 'kubernetes-ca.key'],
  'front-proxy-ca': ['front-proxy-ca.crt', 'front-proxy-ca.key'],
  'service-account': ['service-account.pub', 'service-account.key'],
  'kubernetes-ca': ['kubernetes-ca.crt', 'kubernetes-ca.key'],
  'cluster-ca': ['cluster-ca.crt', 'cluster-ca.key'],
};

/** Requests a new ticket, either from one given control plane or from any. */
async function requestTicket(
  { values, joinClient, clock }: KeyRotationDriverPorts,
  first: string | undefined,
  signal: AbortSignal,
): Promise<OpenedTicket> {
  const membership = currentValue(values.clusterMembership);
  if (membership === undefined) throw new TypeError('called before this node is a member');
  const known = currentValue(values.clusterDirectory) ?? directoryFromMembership(membership);
  const asked = known.filter(({ nodeId }) => first === undefined || nodeId === first);
  const endpointOf = (host: string): string => formatEndpoint(host, PORTS.join);
  const controlPlanes = asked.map(({ nodeId, host }) => ({ nodeId, endpoint: endpointOf(host) }));
  const roles = [...(currentValue(values.localRoles) ?? [])];
  const { clusterId, nodeCertPem } = membership;
  return withTimeout({ what: 'requesting a ticket', ms: TICKET_MS, clock, signal }, (child) =>
    joinClient.rejoin({ clusterId, nodeCertPem, controlPlanes, relays: [], roles }, child),
  );
}

/** The settings that the running Kubernetes worker uses. */
function settingsOf({ values, kubernetes }: KeyRotationDriverPorts): KubernetesSettings {
  const { bootstrapData, clusterMembership, clusterSettings, localRoles, localComponents } = values;
  const state = combine({ bootstrapData, clusterMembership, clusterSettings, localRoles, localComponents });
  const { host, nodeId, ownAddress, secondaryAddress } = kubernetes;
  const now = currentValue(state);
  const plan = now && planKubernetes(now, host, { nodeId, address: ownAddress, secondaryAddress });
  if (plan?.kind !== 'start') throw new TypeError('running Kubernetes expected');
  return plan.config.settings;
}

function progressOf(say: (what: string) => void): PhaseProgress {
  return { report: (text) => say(text), reportUnchanged: () => undefined };
}
