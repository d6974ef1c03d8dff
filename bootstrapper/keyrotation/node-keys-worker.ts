import type { Clock } from '../../internal/clock/index.ts';
import { combine, currentValue } from '../../internal/event/index.ts';
import {
  areSignedKeys,
  CLUSTER_CA,
  trustedClusterCas,
  kubeletTrustPem,
  SERVERS_CA,
  trustedPublicPem,
  withoutReplacedSecrets,
  hasReached,
  isPhaseAtLeast,
  publicKeysOf,
  signedKeysOf,
  type KeyPhase,
  type KeySet,
  type PublicKeys,
} from '../../internal/keyset/index.ts';
import { KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';
import type { ProvisionedTrust } from '../../internal/ownerdocument/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import { memberWorker, type RoleValues, type RoleValueWriters } from '../roleserve/index.ts';
import type { KeyStore } from './key-store.ts';
import { planNodeKeys, type NodeKeysPlan } from './plan-node-keys.ts';
import { verifyAnnouncedKeys } from './verify-keys.ts';

/**
 * Time after a restart of the kubelet until its pods use new tokens: the kubelet replaces them at once, and client-go reads them
 * within a minute.
 */
const TOKENS_MS = 120_000;

/** The steps of a rotation on this machine. Each step may be repeated after a crash. */
export interface KeyRotationDriver {
  /** Fetches the keys that belong to these public keys from a control plane that has them. */
  fetch(made: NewKeys, signal: AbortSignal): Promise<KeySet>;
  /** Makes etcd, the Kubernetes control plane, the signer and the join service use the keys on disk. */
  activate(say: (what: string) => void, signal: AbortSignal): Promise<void>;
  /**
   * Writes the encrypted Kubernetes objects again that are not encrypted with the new key on disk. Resolves once the
   * local etcd member has no such object. Every API server already encrypts with the new key then.
   */
  rewriteEncrypted(say: (what: string) => void, signal: AbortSignal): Promise<void>;
  /** Deletes the previous keys, after all nodes have stopped using them. */
  removeRetiredKeys(signal: AbortSignal): Promise<void>;
  /** Makes this node accept members whose certificates were signed by these cluster CAs. */
  trustClusterCas(bundlePem: string, signal: AbortSignal): Promise<void>;
  /**
   * Ensures that these CAs have signed the certificates of the node and of its kubelet. Resolves to true if other CAs
   * had signed them before. Restarts nothing, and works while nothing runs.
   */
  renewCertificates(issuers: CertificateIssuers, signal: AbortSignal): Promise<boolean>;
  /** Makes the kubelet accept clients, and after its next start API servers, whose certificates were signed by these CAs. */
  trustCas(cas: TrustedCas, signal: AbortSignal): Promise<void>;
  /** Whether the kubelet was started with other CAs of API servers than those on disk. */
  hasOutdatedServersCa(): Promise<boolean>;
  /** Restarts the kubelet: its pods get new tokens, and it uses the certificates on disk. */
  restartKubelet(signal: AbortSignal): Promise<void>;
}

/** The CAs that sign the certificates of a node. */
export interface CertificateIssuers {
  readonly kubernetesClientsCaPem: string;
  /** undefined in a rotation of an earlier version, which kept this CA. */
  readonly clusterCaPem: string | undefined;
}

/** The CAs that the kubelet of a worker trusts, PEM bundles. */
export interface TrustedCas {
  readonly clientsPem: string;
  /** undefined in a rotation by an earlier version, which keeps the CA of servers. */
  readonly serversPem: string | undefined;
}

/** The public keys of a generation, and the id of the node that created them. */
export type NewKeys = PublicKeys & Pick<NonNullable<KeysRecord['made']>, 'by'>;

/** Inputs, outputs and ports (injected dependencies) of the worker. */
export interface NodeKeysWorkerOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterKeys' | 'localRoles'>;
  readonly writes: Pick<RoleValueWriters, 'localKeys'>;
  readonly curators: Curators;
  readonly store: KeyStore;
  readonly driver: KeyRotationDriver;
  readonly clock: Clock;
  /** Raw Ed25519 keys of the first owners, from the provisioning of this machine. */
  readonly ownerKeys: ProvisionedTrust['ownerKeys'];
}

/** Carries out each phase of a rotation of the shared control-plane keys on this node. */
export function nodeKeysWorker(options: NodeKeysWorkerOptions): Runnable {
  return memberWorker(options, async (scope) => {
    options.writes.localKeys.set(await options.store.loadStage());
    scope.run('follow', (child) => follow(options, child));
  });
}

async function follow(options: NodeKeysWorkerOptions, scope: Scope): Promise<void> {
  const { reads } = options;
  scope.healthy();
  using changes = combine({ stage: reads.clusterKeys, roles: reads.localRoles }).watch();
  for (;;) {
    scope.waiting('next key rotation');
    const now = await changes.next(scope.signal);
    if (now.stage === undefined || now.stage === '') continue;
    for (;;) {
      const plan = await planNow(options, scope);
      if (plan.kind === 'rest') break;
      if (plan.kind === 'wait') {
        scope.waiting(plan.why);
        await changes.next(scope.signal);
      } else await carryOut(options, plan, scope);
    }
  }
}

type Idle = Extract<NodeKeysPlan, { readonly kind: 'rest' | 'wait' }>;
type Step = Exclude<NodeKeysPlan, Idle> & { readonly made: NewKeys };

/** Plans the next step. Verifies the keys and CAs before the node installs them, because a curator is not trusted. */
async function planNow(options: NodeKeysWorkerOptions, scope: Scope): Promise<Idle | Step> {
  const { reads, store, curators } = options;
  const { record, documents } = await curators.use(
    async (curator, signal) => {
      const answer = await curator.of(Distribution).fetchKeys({}, { signal });
      const decoded = answer.record.length === 0 ? undefined : records.keys.decode(KEYS_KEY, answer.record);
      return { record: decoded, documents: answer.ownerDocuments };
    },
    { signal: scope.signal },
  );
  const made = record && newKeysIn(record);
  const roles = currentValue(reads.localRoles);
  const plan = planNodeKeys({
    cluster: record,
    finished: await store.loadStage(),
    isControlPlane: roles && isControlPlane([...roles]),
    hasKeys: made !== undefined && isSetOf(await store.loadSet(), made),
  });
  if (plan.kind === 'rest' || plan.kind === 'wait') return plan;
  if (made === undefined) return { kind: 'wait', why: 'the new keys' };
  await verifyAnnouncedKeys(store, made, { documents, trust: trustOf(options) });
  return { ...plan, made };
}

function newKeysIn({ generation, made }: KeysRecord): NewKeys | undefined {
  return made && { generation, by: made.by, previous: made.previous, next: made.next };
}

function trustOf({ reads, clock, ownerKeys }: NodeKeysWorkerOptions): ProvisionedTrust {
  const membership = currentValue(reads.clusterMembership);
  if (membership === undefined) throw new TypeError('membership expected');
  const { clusterId, epoch } = membership;
  return { ownerKeys, clusterId, epoch, nowMs: clock.nowMs() };
}

async function carryOut(options: NodeKeysWorkerOptions, step: Step, scope: Scope): Promise<void> {
  const { store, driver } = options;
  const { made } = step;
  if (step.kind === 'fetch') {
    scope.waiting('new keys from another control plane');
    const set = await driver.fetch(made, scope.signal);
    const { generation, phase } = await store.loadStage();
    // Fetched keys are saved in phase `distribute`, so nothing trusts them until this node activates a phase. If
    // this node had activated these keys and lost them, the current phase is saved instead.
    await store.saveSet({ ...set, phase: generation === made.generation ? phase : 'distribute' });
    scope.log.info('new shared keys received', { generation: made.generation });
    return;
  }
  const { phase } = step;
  scope.waiting(`phase "${phase}"`);
  scope.log.info('starting phase of the key rotation', { generation: made.generation, phase });
  const reached = await store.loadStage();
  const isLate = isPhaseAtLeast(phase, 'refresh') && !hasReached(reached, { ...made, phase: 'refresh' });
  // The node must trust the next CA before a control plane issues certificates with it, and before this node calls a
  // control plane with such a certificate.
  const clusterCas = trustedClusterCas(phase, made);
  if (clusterCas !== undefined) await driver.trustClusterCas(clusterCas, scope.signal);
  const issuers = {
    kubernetesClientsCaPem: made.next['kubernetes-clients-ca'],
    clusterCaPem: made.next[CLUSTER_CA],
  };
  const wasOther = isLate && (await driver.renewCertificates(issuers, scope.signal));
  if (step.kind === 'enforce') await activate(options, step, scope);
  else if (isPhaseAtLeast(phase, 'trust')) await driver.trustCas(trustedCas(phase, made), scope.signal);
  const isOutdated = isPhaseAtLeast(phase, 'refresh') && (await driver.hasOutdatedServersCa());
  // Pods of nodes that took part in the rotation have tokens that were signed with the previous key. Pods of nodes that
  // joined later have no such tokens.
  if (isOutdated || (isLate && (wasOther || reached.generation === made.generation)))
    await driver.restartKubelet(scope.signal);
  if (isLate && phase === 'refresh') {
    scope.waiting('phase "refresh": pods to load new tokens');
    await options.clock.sleep(TOKENS_MS, scope.signal);
  }
  await store.saveStage({ generation: made.generation, phase });
  options.writes.localKeys.set({ generation: made.generation, phase });
}

/** Saves the phase first: after a crash, the next start resumes from there. */
async function activate(
  { store, driver }: NodeKeysWorkerOptions,
  { phase, made }: Extract<Step, { readonly kind: 'enforce' }>,
  scope: Scope,
): Promise<void> {
  const set = await store.loadSet();
  if (set?.generation !== made.generation || !isPhaseAtLeast(phase, 'trust')) return;
  // In phase `done` the previous encryption key is deleted. No control plane uses it any more, because `done` starts
  // only after all nodes have completed `retire`.
  const encryption =
    phase === 'done' ? set.encryption && withoutReplacedSecrets(set.encryption) : set.encryption;
  await store.saveSet({ ...set, phase, encryption });
  const say = (what: string): void => scope.waiting(`phase "${phase}": ${what}`);
  await driver.activate(say, scope.signal);
  if (phase === 'refresh') await driver.rewriteEncrypted(say, scope.signal);
  if (phase === 'done') await driver.removeRetiredKeys(scope.signal);
}

function trustedCas(phase: KeyPhase, { previous, next }: NewKeys): TrustedCas {
  const name = 'kubernetes-clients-ca';
  const clientsPem = trustedPublicPem(phase, { previous: previous[name], next: next[name] });
  const [old, fresh] = [previous[SERVERS_CA], next[SERVERS_CA]];
  const isReplaced = old !== undefined && fresh !== undefined;
  return {
    clientsPem,
    serversPem: isReplaced ? kubeletTrustPem(phase, { previous: old, next: fresh }) : undefined,
  };
}

/** Whether these are the recorded keys: another control plane may have created keys at the same time. */
export function isSetOf(set: KeySet | undefined, made: PublicKeys): set is KeySet {
  return set !== undefined && areSignedKeys(signedKeysOf(made), publicKeysOf(set));
}
