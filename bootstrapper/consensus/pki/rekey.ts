import { isAbort } from '../../../internal/errors/index.ts';
import { EtcdError, Namespace, type EtcdClient } from '../../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../../internal/records/index.ts';
import { quorumOf } from '../../../internal/role/index.ts';
import { ownEndpointOf, type ConsensusConfig, type ConsensusPorts } from '../consensus-config.ts';
import { waitUntilServing } from '../membership/join-etcd.ts';
import { countAnswering } from '../membership/peers.ts';
import { ensurePki } from './ensure-pki.ts';
import { connectAsRoot, originOf, runEtcd } from '../unit/run-etcd.ts';
import { withSlot } from '../membership/slot.ts';

const LIST_MS = 5_000;
const POLL_MS = 1_000;

/**
 * Switches etcd to the CAs on disk (`placeEtcdKeys`). Certificates are renewed at once. New trusted CAs
 * require a restart of etcd, which happens while this node holds the membership slot and the other members
 * have a quorum. `work` runs in the same slot once etcd serves again.
 */
export async function rekey(
  ports: ConsensusPorts,
  config: ConsensusConfig,
  work: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, files, onWait } = ports;
  await ensurePki(ports, config);
  using admin = await connectAsRoot(ports, config.layout, [ownEndpointOf(config)]);
  const etcd = new Namespace(admin, CLUSTER_PREFIX);
  const onPosition = (position: number): void =>
    onWait?.(`the slot to restart etcd with new keys: position ${position}`, undefined);
  for (;;) {
    try {
      // Checked here too, before this node takes the membership slot: waiting inside the slot would block the
      // removal of a lost member.
      if (await canRestartNow(ports, config, admin, signal)) {
        const options = { nodeId: config.nodeId, onPosition, signal };
        const isDone = await withSlot({ etcd, clock, log }, options, async (slot) => {
          if (!(await canRestartNow(ports, config, admin, slot.signal))) return false;
          await runEtcd(ports, config, { origin: await originOf(files, config.layout) }, slot.signal);
          await waitUntilServing(ports, admin, config, slot.signal);
          await work(slot.signal);
          return true;
        });
        if (isDone) return;
      }
    } catch (error) {
      // Other members may be restarting as well. etcd then has no leader for a moment.
      if (isAbort(error, signal) || !(error instanceof EtcdError && error.retryable)) throw error;
      onWait?.('etcd', error);
    }
    await clock.sleep(POLL_MS, signal);
  }
}

/** Whether etcd keeps its quorum while this member restarts. */
async function canRestartNow(
  ports: ConsensusPorts,
  { nodeId, layout }: ConsensusConfig,
  admin: EtcdClient,
  signal: AbortSignal,
): Promise<boolean> {
  const members = await admin.members.list({ signal, timeoutMs: LIST_MS });
  const others = members.filter(({ name, isLearner }) => !isLearner && name !== nodeId);
  const answering = await countAnswering(ports, layout, others, signal);
  if (canRestart({ others: others.length, answering })) return true;
  ports.onWait?.(`${others.length - answering} of ${others.length} other members of etcd`, undefined);
  return false;
}

/**
 * Whether this member may restart: the other members that answer are a quorum without it, or all other
 * members answer, so that the quorum is lost only for seconds. Pure.
 */
export function canRestart({
  others,
  answering,
}: {
  readonly others: number;
  readonly answering: number;
}): boolean {
  return answering >= quorumOf(others + 1) || answering === others;
}
