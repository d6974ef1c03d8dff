import { amdTrust } from '../../internal/attestation/snp/index.ts';
import { intelTrust } from '../../internal/attestation/tdx/index.ts';
import { BlobStore } from '../../internal/bundle/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import { ed25519SpkiFromRaw } from '../../internal/crypto/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { createMachineEvidence, createTpm, type MachineEvidence, TpmLockRegister } from '../attest/index.ts';
import { CollateralCache } from '../collateral/index.ts';
import type { NamedKey } from '../consensus/index.ts';
import { createBlobUploads, createComponentSource, fetchBlob } from '../components/index.ts';
import type { CuratorClient } from '../curatorclient/index.ts';
import { createEnrolmentHandlers, Enrolment, refuseLostMachineKey } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import { type BlobUploads, InitJob, type InitSpec } from '../initserver/index.ts';
import type { JoinClient } from '../joinclient/index.ts';
import { installSharedKeys, KeyStore } from '../keyrotation/index.ts';
import type { ComponentPorts, HostSettings } from '../kubernetes/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { FileEventStore, PhaseLog } from '../phases/index.ts';
import { ResetOrders } from '../reset/index.ts';
import { NodeMembership, RoleValueStore, type RoleValues } from '../roleserve/index.ts';
import {
  createMachineChecks,
  type MachineChecks,
  requireUsableTpm,
  untilAddress,
} from '../preflight/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { createCuratorClient } from './create-curator-client.ts';
import {
  AGENT_PATHS,
  KEY_PATHS,
  loadMachineIdentity,
  type MachineIdentity,
  NodeState,
  OperatorEndpoints,
} from '../nodestate/index.ts';
import { certificateLifetimes, ensureValidCertificates } from '../renewal/index.ts';
import { createJoinClient } from './create-join-client.ts';
import { RecoveryService } from '../recovery/index.ts';

/** What this machine is and what it has on disk, opened once per life of the agent. */
export interface OpenNode {
  readonly identity: MachineIdentity;
  /** What this machine shows of itself, to whomever: see bootstrapper/attest. */
  readonly evidence: MachineEvidence;
  readonly host: HostSettings;
  /** The address other machines reach this one at. */
  readonly ownAddress: () => string;
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  readonly owners: readonly [NamedKey, ...NamedKey[]];
  readonly state: NodeState;
  /** What this node has of replacing the keys that control planes share. */
  readonly keys: KeyStore;
  readonly values: RoleValues;
  /** Gives each worker the writing side of its values. */
  readonly claimWriters: RoleValueStore['claim'];
  /** Publishes what this node is in its cluster. */
  readonly node: NodeMembership;
  readonly phases: PhaseLog;
  readonly job: InitJob;
  readonly enrolment: Enrolment<Membership>;
  readonly joinClient: JoinClient;
  /** Whether this machine is a member, or bound to a cluster by a ticket. */
  readonly isJoinedOrJoining: () => Promise<boolean>;
  readonly operatorEndpoints: OperatorEndpoints;
  /** The way out of a lost quorum, for root on this machine. */
  readonly recovery: RecoveryService;
  /** The owner's orders to become a fresh machine. */
  readonly resetOrders: ResetOrders;
  /** Where blobs of the bundle lie: the store, then seeds that are only read. */
  readonly blobStores: readonly [string, ...string[]];
  readonly uploads: BlobUploads;
  /** What each check of this machine says. */
  readonly reportChecks: MachineChecks['report'];
  readonly sources: Pick<ComponentPorts, 'install' | 'blobPath' | 'fetch'>;
  /** What AMD and Intel say, as this machine has it. */
  readonly collateral: CollateralCache;
  /** This node's way to the curators of its cluster. */
  readonly curators: CuratorClient;
}

export async function openNode(
  ports: AgentPorts,
  options: AgentOptions,
  signal: AbortSignal,
): Promise<OpenNode> {
  const { files, streams, clock, log, machine } = ports;
  const { provisioning } = options;
  for (const folder of [AGENT_PATHS.state, AGENT_PATHS.init, AGENT_PATHS.enrolment])
    await files.makeDirectory(folder);
  await refuseLostMachineKey(files);
  const identity = await loadMachineIdentity(files, AGENT_PATHS);
  log.info('this machine', {
    fingerprint: identity.fingerprint,
    nodeId: identity.nodeId,
    version: options.version,
  });
  const stores: OpenNode['blobStores'] = [AGENT_PATHS.store, ...provisioning.seedStores];
  const store = new BlobStore({ files, streams, roots: stores });
  const events = new FileEventStore(files, AGENT_PATHS.events);
  const phases = await PhaseLog.open({ store: events, clock, log: log.child('phases') });
  const { lock, evidence } = openTrust(ports, { provisioning, identity, signal });
  const isBound = async (): Promise<boolean> => (await lock.read()) !== undefined;
  await requireUsableTpm(ports, { tpm: provisioning.tpm, isBound, signal });
  const addressNow = (): string => provisioning.address ?? machine.addresses()[0] ?? '127.0.0.1';
  const checks = createMachineChecks(ports, { provisioning, signal });
  const preflight = (spec: InitSpec): Promise<void> => checks.checkForInit(spec);
  const job = new InitJob({ files, lock, phases, preflight, ownAddress: addressNow }, AGENT_PATHS.init);
  const ownAddress = (): string => {
    const accepted = job.accepted.peek();
    return (accepted.set ? accepted.value.nodeAddress : undefined) ?? addressNow();
  };
  const valueStore = new RoleValueStore();
  const { values } = valueStore;
  const node = new NodeMembership(valueStore);
  const state = new NodeState(files);
  const directed = new OperatorEndpoints(state.operatorEndpoints);
  await directed.restore();
  const curators = createCuratorClient(ports, {
    reads: values,
    identity,
    provisioning,
    operatorEndpoints: directed,
  });
  const keys = new KeyStore(files, KEY_PATHS);
  // An earlier life may have ended in the middle of a phase.
  await installSharedKeys(files, keys, AGENT_PATHS.state);
  const collateral = await openCollateral(ports, state);
  const owners = ownersFrom(provisioning);
  const { ownerKeys } = owners;
  const { version } = options;
  const joinClient = createJoinClient(ports, {
    ...{
      provisioning,
      identity,
      evidence,
      ownerKeys,
      operatorEndpoints: directed,
      ownAddress,
      version,
      collateral,
    },
    checkMachine: () => checks.checkForJoin(),
  });
  const handlers = createEnrolmentHandlers({
    ...{ files, lock, job, state, node, ownAddress },
    clusterMembership: values.clusterMembership,
    joinClient: {
      admit: async (asking) => {
        const hasOne = (): boolean => provisioning.address !== undefined || machine.addresses().length > 0;
        await untilAddress({ hasOne, clock, log }, asking);
        return joinClient.admit(asking);
      },
      requestTicket: (record, asking) => joinClient.requestTicket(record, asking),
      reportJoined: (membership) => joinClient.reportJoined(membership),
    },
    log: log.child('enrolment'),
    ensureValidCertificates: (membership, resuming) =>
      ensureValidCertificates(
        {
          files,
          state,
          values,
          joinClient,
          machine: identity,
          nowMs: () => clock.nowMs(),
          lifetimes: () => certificateLifetimes(values),
          log,
        },
        membership,
        resuming,
      ),
  });
  return {
    identity,
    evidence,
    host: {
      restrictOomScoreAdj: provisioning.containerRuntime.restrictOomScoreAdj ?? false,
      failCgroupV1: provisioning.kubelet.failCgroupV1 ?? true,
    },
    ownAddress,
    ...owners,
    joinClient,
    operatorEndpoints: directed,
    recovery: new RecoveryService(ports, {
      membership: () => currentValue(values.clusterMembership),
      directory: () => currentValue(values.clusterDirectory),
    }),
    resetOrders: new ResetOrders({ files, paths: AGENT_PATHS, ownerKeys, nodeId: identity.nodeId }),
    isJoinedOrJoining: async () =>
      (await state.membership.load()) !== undefined || (await lock.read())?.by === 'join',
    state,
    keys,
    values,
    claimWriters: (...names) => valueStore.claim(...names),
    node,
    phases,
    job,
    enrolment: new Enrolment<Membership>({ handlers, log: log.child('enrolment') }),
    blobStores: stores,
    reportChecks: (ask) => checks.report(ask),
    uploads: createBlobUploads({ store, files, streams, signal }, AGENT_PATHS.state),
    collateral,
    curators,
    sources: createComponentSource({ store, files, streams, signal }, (blob, fetchSignal) =>
      fetchBlob({ store, curators, clock, log: log.child('fetch') }, blob, fetchSignal),
    ),
  };
}

async function openCollateral({ files, clock, log }: AgentPorts, state: NodeState): Promise<CollateralCache> {
  const cache = new CollateralCache({
    saved: state.collateral,
    files,
    provisionedPath: AGENT_PATHS.provisionedCollateral,
    trust: { amd: amdTrust(), intel: intelTrust() },
    nowMs: () => clock.nowMs(),
    log: log.child('collateral'),
  });
  await cache.restore();
  return cache;
}

/** The lock of this machine and what it shows of itself: nothing is shown that contradicts the lock. */
function openTrust(
  { files, kernel, clock }: AgentPorts,
  options: {
    readonly provisioning: Provisioning;
    readonly identity: MachineIdentity;
    readonly signal: AbortSignal;
  },
): { readonly lock: NodeLock; readonly evidence: MachineEvidence } {
  const { provisioning, identity, signal } = options;
  const tpm = createTpm(provisioning.tpm, clock);
  const register =
    tpm === undefined || provisioning.tpm.kind === 'none'
      ? {}
      : { register: new TpmLockRegister({ tpm, pcr: provisioning.tpm.lockPcr, signal }) };
  const lock = new NodeLock({ files, path: AGENT_PATHS.lock, nowMs: () => clock.nowMs(), ...register });
  const evidence = createMachineEvidence({
    provisioning,
    tpm,
    machineKeyPem: identity.keyPem,
    files,
    kernel,
    clock,
    keySecretPath: AGENT_PATHS.keySecret,
    mirrorLock: () => lock.mirrorToRegister(),
  });
  return { lock, evidence };
}

/** Provisioning has at least one owner key; each is known raw (to compare) and by name (to record). */
function ownersFrom({ ownerKeys: [first, ...more] }: Provisioning): Pick<OpenNode, 'ownerKeys' | 'owners'> {
  const raw = (base64: string): Uint8Array => Buffer.from(base64, 'base64');
  const named = (base64: string, name: string): NamedKey => ({
    name,
    pubKeyDer: ed25519SpkiFromRaw(raw(base64)),
  });
  return {
    ownerKeys: [raw(first), ...more.map(raw)],
    owners: [named(first, 'owner'), ...more.map((key, index) => named(key, `owner-${index + 2}`))],
  };
}
