import { childSignal } from '../../internal/cleanup/index.ts';
import type { EtcdClient } from '../../internal/etcd/index.ts';
import {
  ownEndpointOf,
  runningFrom,
  type ConsensusConfig,
  type ConsensusPorts,
  type ConsensusStart,
  type RepairConfig,
  type RunningConsensus,
} from './consensus-config.ts';
import { inspectDisk } from './pki/disk-state.ts';
import { updatePeerUrl, joinEtcd, resumeMember } from './membership/join-etcd.ts';
import { fetchEpoch, ensureEpoch, readEpoch, writeEpoch } from './recovery/epoch.ts';
import { ConsensusError } from './errors.ts';
import type { EtcdInstance } from './etcd-instances.ts';
import { consensusLayout, type ConsensusLayout } from './consensus-layout.ts';
import { PeerEpochs } from './recovery/peer-epochs.ts';
import { findNewestEpoch } from './membership/peers.ts';
import { ensurePki } from './pki/ensure-pki.ts';
import { repairMembers } from './membership/repair-members.ts';
import { connectAsRoot, originOf, runEtcd } from './unit/run-etcd.ts';
import { hasUsableData } from './membership/usable-data.ts';

const KEYS_POLL_MS = 500;
/** Pause between two requests for the epochs of the other members. */
const EPOCH_POLL_MS = 10_000;

/**
 * Creates or joins an etcd cluster, or starts the existing member of this node. Resolves when the member
 * serves requests. May be repeated at any time and after any crash: it creates missing files and keeps valid
 * ones. A running etcd is restarted only if its configuration has changed.
 */
export async function startMember(
  ports: ConsensusPorts,
  { keepRunning, beforeRejoin, ...config }: ConsensusStart,
  signal: AbortSignal,
): Promise<RunningConsensus> {
  const { files } = ports;
  const { layout, etcd } = config;
  if (!config.createsCluster) await waitForKeys(ports, layout, signal);
  await ensurePki(ports, config);
  const admin = await connectAsRoot(ports, layout, [ownEndpointOf(config)]);
  try {
    const others = config.createsCluster ? [] : config.peers;
    const newest = await findNewestEpoch(ports, others, config, signal);
    // Use only members of the newest epoch (each recovery of the quorum starts one): members that missed a
    // recovery would add this node to an outdated etcd cluster.
    const current = newest.epoch === 0 ? config : { ...config, peers: newest.endpoints };
    const context = { config: current, admin, signal };
    if (!config.createsCluster && !(await hasUsableData(ports, { ...context, newest, beforeRejoin })))
      await joinEtcd(ports, context);
    else {
      await runEtcd(ports, config, { origin: await originOf(files, layout), keepRunning }, signal);
      await resumeMember(ports, context);
    }
    await files.createExclusive(layout.memberMarker, `${config.clusterId}\n`);
    await enableAccessControl(admin, etcd, signal);
    await updatePeerUrl(ports, context);
    await ensureEpoch(admin, etcd.name, signal);
    const epoch = await fetchEpoch(admin, etcd.name, signal);
    if (epoch !== undefined) await writeEpoch(files, layout, epoch);
  } catch (error) {
    admin[Symbol.dispose]();
    throw error;
  }
  return runningFrom(admin, config);
}

/**
 * Renews the certificates that are due. etcd and the API server read their certificates for each connection.
 * This process and the curator need a new client, which this function returns.
 */
export async function renewMember(ports: ConsensusPorts, config: ConsensusConfig): Promise<RunningConsensus> {
  await ensurePki(ports, config);
  return runningFrom(await connectAsRoot(ports, config.layout, [ownEndpointOf(config)]), config);
}

/**
 * Removes members whose node was removed from the records, until the signal fires.
 * @throws ConsensusError `consensus-outdated` once another control plane serves a newer epoch, i.e. the
 * quorum was recovered without this member
 */
export async function repairMember(
  ports: ConsensusPorts,
  config: RepairConfig,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = ports;
  const { layout, nodeId } = config;
  using admin = await connectAsRoot(ports, layout, [ownEndpointOf(config)]);
  using recordsEtcd = await connectAsRoot(ports, consensusLayout(layout.stateDir, 'state'), [
    `127.0.0.1:${config.recordsPort}`,
  ]);
  using running = childSignal(signal);
  // An outdated member has nothing to repair. The first of the two tasks to end aborts the other one.
  await Promise.race([
    repairMembers({ admin, recordsEtcd, clock, log }, nodeId, running.signal),
    untilOutdated(ports, config, running.signal),
  ]).finally(() => running.abort(new Error('the other task has ended')));
}

/**
 * Waits for the CA keys of etcd. A node that joins as a control plane has them already; a promoted node
 * requests them when it learns its role.
 */
async function waitForKeys(
  { files, clock, onWait }: ConsensusPorts,
  layout: ConsensusLayout,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const { hasData, wasMember, missing } = await inspectDisk(files, layout);
    // `ensurePki` refuses data without CAs with a separate error.
    if (missing.length === 0 || hasData || wasMember) return;
    onWait?.(`the shared keys of the control planes: ${missing.join(', ')}`, undefined);
    await clock.sleep(KEYS_POLL_MS, signal);
  }
}

/**
 * Rejects with `consensus-outdated` once another control plane serves a newer epoch, i.e. the quorum was
 * recovered without this member.
 */
async function untilOutdated(
  ports: ConsensusPorts,
  { etcd, layout, nodeId, peers: currentPeers }: RepairConfig,
  signal: AbortSignal,
): Promise<never> {
  using peers = new PeerEpochs(etcd.name, (endpoint) => connectAsRoot(ports, layout, [endpoint]));
  for (;;) {
    await ports.clock.sleep(EPOCH_POLL_MS, signal);
    const newest = await peers.newest(currentPeers(), signal);
    if (newest.epoch > (await readEpoch(ports.files, layout)))
      throw new ConsensusError(
        'consensus-outdated',
        `running etcd member ${nodeId}: another control plane has the newer epoch ${newest.epoch}`,
      );
  }
}

/** Creates users and their permissions, and then enables access control. May be repeated. */
async function enableAccessControl(
  { access }: Pick<EtcdClient, 'access'>,
  etcd: Pick<EtcdInstance, 'access'>,
  signal: AbortSignal,
): Promise<void> {
  if (etcd.access === undefined) return;
  for (const user of etcd.access) await access.ensureUser(user, { signal });
  if (!(await access.isEnabled({ signal }))) await access.enable({ signal });
}
